//! The examples of Kubernetes' documentation, and each sentence of the API's definition.

use super::*;

const WEB: (&str, &str) = ("default/web", "10.0.0.1");
const DB: (&str, &str) = ("default/db", "10.0.0.2");
const FRONT: (&str, &str) = ("default/front", "10.0.0.3");
const ALIEN: (&str, &str) = ("myproject/alien", "10.0.1.1");
const OTHER: (&str, &str) = ("other/front", "10.0.2.1");

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn pod((name, ip): (&str, &str), labels: &str, rest: &str) -> Value {
    let (namespace, name) = name.split_once('/').unwrap();
    yaml(&format!(
        "metadata: {{ namespace: {namespace}, name: {name}, labels: {labels}{rest} }}\n\
         spec:\n  nodeName: node-1\n  containers:\n  - name: main\n    ports:\n    \
           - {{ name: http, containerPort: 80 }}\n    \
           - {{ name: dns, containerPort: 53, protocol: UDP }}\n\
         status: {{ podIPs: [{{ ip: {ip} }}] }}\n"
    ))
}

fn world(policies: &[&str]) -> World {
    World {
        policies: policies.iter().map(|text| yaml(text)).collect(),
        namespaces: vec![
            yaml("metadata: { name: myproject, labels: { project: myproject } }"),
            yaml("metadata: { name: other, labels: { project: another } }"),
        ],
        pods: vec![
            pod(WEB, "{ app: web }", ""),
            pod(DB, "{ role: db }", ""),
            pod(FRONT, "{ role: frontend }", ""),
            pod(ALIEN, "{}", ""),
            pod(OTHER, "{ role: frontend }", ""),
        ],
    }
}

fn end((name, ip): (&str, &str)) -> End {
    End { who: Who::Pod(name.to_owned()), address: ip.parse().unwrap() }
}

fn outside(ip: &str) -> End {
    End { who: Who::Outside, address: ip.parse().unwrap() }
}

fn tcp(world: &World, from: &End, to: &End, port: u16) -> bool {
    allowed(world, from, to, Protocol::Tcp, port).allowed
}

/// A policy of the namespace default.
fn policy(spec: &str) -> String {
    format!("metadata: {{ name: p, namespace: default }}\nspec: {spec}\n")
}

fn with(spec: &str) -> World {
    world(&[&policy(spec)])
}

/// "The NetworkPolicy resource", the first example.
const DOCUMENTED: &str = r"
metadata: { name: test-network-policy, namespace: default }
spec:
  podSelector: { matchLabels: { role: db } }
  policyTypes: [Ingress, Egress]
  ingress:
  - from:
    - ipBlock: { cidr: 172.17.0.0/16, except: [172.17.1.0/24] }
    - namespaceSelector: { matchLabels: { project: myproject } }
    - podSelector: { matchLabels: { role: frontend } }
    ports: [{ protocol: TCP, port: 6379 }]
  egress:
  - to: [{ ipBlock: { cidr: 10.0.0.0/24 } }]
    ports: [{ protocol: TCP, port: 5978 }]
";

#[test]
fn the_example_of_the_documentation() {
    let world = world(&[DOCUMENTED]);
    let db = end(DB);
    for from in [end(FRONT), end(ALIEN), outside("172.17.0.255"), outside("172.17.2.0")] {
        assert!(tcp(&world, &from, &db, 6379), "{from:?}");
        assert!(!tcp(&world, &from, &db, 80), "{from:?}");
        assert!(!allowed(&world, &from, &db, Protocol::Udp, 6379).allowed, "{from:?}");
        assert!(!allowed(&world, &from, &db, Protocol::Icmp, 0).allowed, "{from:?}");
    }
    for from in [end(WEB), end(OTHER), outside("172.17.1.7"), outside("2001:db8::1")] {
        assert!(!tcp(&world, &from, &db, 6379), "{from:?}");
    }
    assert!(tcp(&world, &db, &end(WEB), 5978));
    assert!(!tcp(&world, &db, &end(WEB), 5979));
    assert!(!tcp(&world, &db, &end(ALIEN), 5978), "10.0.1.1 is not in the block");
    assert!(tcp(&world, &end(WEB), &end(FRONT), 1), "nobody else is isolated");
}

#[test]
fn the_default_policies_of_the_documentation() {
    let deny = with("{ podSelector: {}, policyTypes: [Ingress] }");
    assert!(!tcp(&deny, &end(WEB), &end(DB), 80));
    assert!(!tcp(&deny, &outside("192.0.2.1"), &end(DB), 80));
    assert!(tcp(&deny, &end(DB), &end(ALIEN), 80));
    let deny = with("{ podSelector: {}, policyTypes: [Egress] }");
    assert!(!tcp(&deny, &end(DB), &end(ALIEN), 80));
    assert!(tcp(&deny, &end(ALIEN), &end(DB), 80));
    let all = with("{ podSelector: {}, policyTypes: [Ingress], ingress: [{}] }");
    assert!(tcp(&all, &outside("192.0.2.1"), &end(DB), 80));
    assert!(allowed(&all, &end(WEB), &end(DB), Protocol::Icmp, 0).allowed);
    let all = with("{ podSelector: {}, policyTypes: [Egress], egress: [{}] }");
    assert!(tcp(&all, &end(DB), &outside("192.0.2.1"), 80));
}

#[test]
fn a_pod_reaches_itself_and_its_node() {
    let deny = with("{ podSelector: {}, policyTypes: [Ingress, Egress] }");
    let node = |name: &str| End { who: Who::Node(name.into()), address: [192, 0, 2, 1].into() };
    assert!(tcp(&deny, &end(DB), &end(DB), 80));
    assert!(tcp(&deny, &end(DB), &node("node-1"), 80));
    assert!(tcp(&deny, &node("node-1"), &end(DB), 80));
    assert!(!tcp(&deny, &node("node-2"), &end(DB), 80));
    assert!(!tcp(&deny, &end(DB), &node("node-2"), 80));
}

#[test]
fn one_entry_with_both_selectors_is_and_and_two_entries_are_or() {
    let both = "{ podSelector: {}, ingress: [{ from: [{ podSelector: { matchLabels: \
         { role: frontend } }, namespaceSelector: { matchLabels: { project: another } } }] }] }";
    let world = with(both);
    assert!(tcp(&world, &end(OTHER), &end(DB), 80));
    assert!(!tcp(&world, &end(FRONT), &end(DB), 80), "of the wrong namespace");
    assert!(!tcp(&world, &end(ALIEN), &end(DB), 80));
    let two = "{ podSelector: {}, ingress: [{ from: [{ podSelector: { matchLabels: \
         { role: frontend } } }, { namespaceSelector: { matchLabels: { project: myproject } } }] }] }";
    let world = with(two);
    assert!(tcp(&world, &end(FRONT), &end(DB), 80));
    assert!(tcp(&world, &end(ALIEN), &end(DB), 80));
    assert!(!tcp(&world, &end(OTHER), &end(DB), 80));
}

#[test]
fn empty_selectors_mean_all_and_a_block_is_for_pods_too() {
    let ingress =
        |peer: &str| with(&format!("{{ podSelector: {{}}, ingress: [{{ from: [{peer}] }}] }}"));
    let own = ingress("{ podSelector: {} }");
    assert!(tcp(&own, &end(WEB), &end(DB), 80));
    assert!(!tcp(&own, &end(ALIEN), &end(DB), 80));
    let every = ingress("{ namespaceSelector: {} }");
    assert!(tcp(&every, &end(ALIEN), &end(DB), 80));
    assert!(!tcp(&every, &outside("192.0.2.1"), &end(DB), 80), "no pod");
    let block = ingress("{ ipBlock: { cidr: 10.0.1.0/24 } }");
    assert!(tcp(&block, &end(ALIEN), &end(DB), 80));
    assert!(!tcp(&block, &end(OTHER), &end(DB), 80));
    let any = ingress("{ ipBlock: { cidr: 0.0.0.0/0, except: [10.0.1.0/24] } }");
    assert!(tcp(&any, &outside("192.0.2.1"), &end(DB), 80));
    assert!(!tcp(&any, &end(ALIEN), &end(DB), 80));
}

#[test]
fn every_operator() {
    let one = |expression: &str| {
        let world = with(&format!(
            "{{ podSelector: {{}}, ingress: [{{ from: [{{ namespaceSelector: {{}}, podSelector: \
             {{ matchExpressions: [{{ key: role, {expression} }}] }} }}] }}] }}"
        ));
        [FRONT, DB, ALIEN].map(|from| tcp(&world, &end(from), &end(WEB), 80))
    };
    assert_eq!(one("operator: In, values: [frontend, x]"), [true, false, false]);
    assert_eq!(one("operator: NotIn, values: [frontend]"), [false, true, true]);
    assert_eq!(one("operator: Exists"), [true, true, false]);
    assert_eq!(one("operator: DoesNotExist"), [false, false, true]);
}

#[test]
fn ports_by_number_range_and_name() {
    let ingress =
        |port: &str| with(&format!("{{ podSelector: {{}}, ingress: [{{ ports: [{port}] }}] }}"));
    let opens = |port: &str, protocol, number| {
        allowed(&ingress(port), &end(WEB), &end(DB), protocol, number).allowed
    };
    assert!(opens("{ port: 80 }", Protocol::Tcp, 80));
    assert!(!opens("{ port: 80 }", Protocol::Udp, 80));
    assert!(opens("{ protocol: UDP }", Protocol::Udp, 7));
    assert!(!opens("{ protocol: UDP }", Protocol::Tcp, 7));
    assert!(opens("{ port: 32000, endPort: 32768 }", Protocol::Tcp, 32000));
    assert!(opens("{ port: 32000, endPort: 32768 }", Protocol::Tcp, 32768));
    assert!(!opens("{ port: 32000, endPort: 32768 }", Protocol::Tcp, 32769));
    assert!(opens("{ port: http }", Protocol::Tcp, 80));
    assert!(!opens("{ port: http }", Protocol::Tcp, 53));
    assert!(!opens("{ port: http, protocol: UDP }", Protocol::Udp, 80), "another protocol");
    assert!(opens("{ port: dns, protocol: UDP }", Protocol::Udp, 53));
    assert!(opens("{ protocol: SCTP, port: 9 }", Protocol::Sctp, 9));
    let egress = with(
        "{ podSelector: {}, egress: [{ ports: [{ port: http }] }], \
                       policyTypes: [Egress] }",
    );
    assert!(tcp(&egress, &end(WEB), &end(ALIEN), 80), "the peer's");
    assert!(!tcp(&egress, &end(WEB), &outside("192.0.2.1"), 80), "who is no pod has no names");
}

#[test]
fn what_a_policy_is_about_when_it_does_not_say() {
    let asked = |spec: &str| {
        let world = with(spec);
        (tcp(&world, &end(ALIEN), &end(DB), 80), tcp(&world, &end(DB), &end(ALIEN), 80))
    };
    assert_eq!(asked("{ podSelector: {} }"), (false, true));
    assert_eq!(asked("{ podSelector: {}, ingress: [{}] }"), (true, true));
    assert_eq!(asked("{ podSelector: {}, egress: [{}] }"), (false, true));
    assert_eq!(asked("{ podSelector: {}, egress: [] }"), (false, true), "no rule, no type");
    assert_eq!(asked("{ podSelector: {}, egress: [{ ports: [{ port: 1 }] }] }"), (false, false));
    let ignored = "{ podSelector: {}, ingress: [], egress: [{}], policyTypes: [Ingress] }";
    assert_eq!(asked(ignored), (false, true));
}

#[test]
fn policies_add_up_and_belong_to_their_namespace() {
    let deny = "{ podSelector: {} }";
    let open =
        "{ podSelector: { matchLabels: { role: db } }, ingress: [{ ports: [{ port: 80 }] }] }";
    let world = world(&[&policy(deny), &policy(open)]);
    assert!(tcp(&world, &end(ALIEN), &end(DB), 80));
    assert!(!tcp(&world, &end(ALIEN), &end(WEB), 80));
    assert!(tcp(&world, &end(WEB), &end(ALIEN), 80), "of another namespace");
}

#[test]
fn addresses_of_annotations_say_who_it_is() {
    let allow = "{ podSelector: { matchLabels: { role: db } }, ingress: [{ from: [{ podSelector: \
         { matchLabels: { app: web } } }] }] }";
    let mut world = with(allow);
    let annotated = |key: &str, value: &str| {
        format!(", annotations: {{ flock.fritzlab.net/{key}: \"{value}\" }}")
    };
    let from = |name: (&str, &str), ip: &str| End { address: ip.parse().unwrap(), ..end(name) };
    world.pods[0] = pod(WEB, "{ app: web }", &annotated("addresses", "192.0.2.7, 192.0.2.8"));
    assert!(tcp(&world, &from(WEB, "192.0.2.8"), &end(DB), 80));
    world.pods[2] = pod(FRONT, "{ app: x }", &annotated("anycast", "192.0.2.8"));
    assert!(!tcp(&world, &from(WEB, "192.0.2.8"), &end(DB), 80), "it might be either");
    assert!(tcp(&world, &from(WEB, "192.0.2.7"), &end(DB), 80));
    // What Kubernetes says is somebody's is nobody else's.
    world.pods[2] = pod(FRONT, "{ app: x }", &annotated("addresses", "10.0.0.1"));
    assert!(tcp(&world, &end(WEB), &end(DB), 80));
}

#[test]
fn a_pod_on_the_network_of_its_host_is_no_peer() {
    let mut world = with("{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: {} }] }] }");
    world.pods[3]["spec"]["hostNetwork"] = true.into();
    assert!(!tcp(&world, &end(ALIEN), &end(DB), 80));
    assert!(tcp(&world, &end(OTHER), &end(DB), 80));
}
