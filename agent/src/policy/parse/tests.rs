use serde_json::json;

use super::*;
use crate::policy::model::{PortMatch, Protocol};

fn good(spec: &str) -> Policy {
    from_manifest(&format!("metadata: {{name: p}}\nspec: {spec}\n")).unwrap().remove(0)
}

fn bad(spec: &str) -> String {
    let error = from_manifest(&format!("metadata: {{name: p}}\nspec: {spec}\n")).unwrap_err();
    error.strip_prefix("default/p: ").unwrap_or(&error).to_owned()
}

fn api(spec: Value) -> Result<Policy, String> {
    from_parts("shop", "p", &serde_json::from_value(spec).unwrap())
}

fn within(key: &str, values: &[&str]) -> Requirement {
    Requirement::In(key.into(), values.iter().map(|value| (*value).into()).collect())
}

#[test]
fn everything_that_can_be_said() {
    let text = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop, labels: {a: b}, annotations: {x: y}}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress, Egress]
  ingress:
    - from:
        - podSelector: {matchExpressions: [{key: role, operator: NotIn, values: [a, b]}]}
        - namespaceSelector: {matchExpressions: [{key: x, operator: Exists}]}
        - namespaceSelector: {}
          podSelector: {matchExpressions: [{key: example.com/y, operator: DoesNotExist}]}
        - ipBlock: {cidr: 10.1.2.3/8, except: [10.1.0.0/16, 10.2.3.4/32]}
      ports:
        - {port: 80}
        - {port: http, protocol: UDP}
        - {port: 1000, endPort: 2000, protocol: SCTP}
        - {protocol: TCP}
  egress:
    - {}
    - to: []
      ports: null
    - to: [{ipBlock: {cidr: '::/0', except: null}}]
---
metadata: {name: other}
spec: {podSelector: {}}
";
    let policies = from_manifest(text).unwrap();
    let [web, other] = policies.as_slice() else { panic!("{policies:?}") };
    assert_eq!(
        (web.key.to_string(), other.key.to_string()),
        ("shop/web".into(), "default/other".into())
    );
    assert_eq!(web.pods.requirements, [within("app", &["web"])]);
    let ingress = web.ingress.as_deref().unwrap();
    let pods = |requirement: Requirement| Selector { requirements: vec![requirement] };
    let not_in = Requirement::NotIn("role".into(), vec!["a".into(), "b".into()]);
    assert_eq!(
        ingress[0].peers.as_deref().unwrap(),
        [
            Peer::Pods { namespaces: None, pods: pods(not_in) },
            Peer::Pods {
                namespaces: Some(pods(Requirement::Exists("x".into()))),
                pods: Selector::default()
            },
            Peer::Pods {
                namespaces: Some(Selector::default()),
                pods: pods(Requirement::DoesNotExist("example.com/y".into()))
            },
            Peer::Block {
                cidr: "10.0.0.0/8".parse().unwrap(),
                except: vec!["10.1.0.0/16".parse().unwrap(), "10.2.3.4/32".parse().unwrap()],
            },
        ]
    );
    let wish = |protocol, ports| PortWish { protocol, ports };
    assert_eq!(
        ingress[0].ports.as_deref().unwrap(),
        [
            wish(Protocol::Tcp, PortMatch::Numbers(80, 80)),
            wish(Protocol::Udp, PortMatch::Named("http".into())),
            wish(Protocol::Sctp, PortMatch::Numbers(1000, 2000)),
            wish(Protocol::Tcp, PortMatch::All),
        ]
    );
    let anything = Rule { peers: None, ports: None };
    let egress = web.egress.as_deref().unwrap();
    assert_eq!(egress[..2], [anything.clone(), anything]);
    assert_eq!(egress.len(), 3);
    assert_eq!((&other.ingress, &other.egress), (&Some(vec![]), &None));
}

#[test]
fn what_a_policy_speaks_of() {
    let rules = Some(1);
    let cases = [
        ("{podSelector: {}}", Some(0), None),
        ("{podSelector: {}, policyTypes: []}", Some(0), None),
        ("{podSelector: {}, policyTypes: null, egress: [{}]}", Some(0), rules),
        ("{podSelector: {}, egress: []}", Some(0), None),
        ("{podSelector: {}, ingress: [{}]}", rules, None),
        ("{podSelector: {}, policyTypes: [Egress]}", None, Some(0)),
        ("{podSelector: {}, policyTypes: [Egress], ingress: [{}], egress: [{}]}", None, rules),
        ("{podSelector: {}, policyTypes: [Ingress], egress: [{}]}", Some(0), None),
        ("{podSelector: {}, policyTypes: [Egress, Ingress], egress: [{}]}", Some(0), rules),
    ];
    for (spec, ingress, egress) in cases {
        let policy = good(spec);
        assert_eq!(policy.ingress.map(|rules| rules.len()), ingress, "{spec}");
        assert_eq!(policy.egress.map(|rules| rules.len()), egress, "{spec}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let peer = |peer: &str| bad(&format!("{{podSelector: {{}}, ingress: [{{from: [{peer}]}}]}}"));
    let port =
        |port: &str| bad(&format!("{{podSelector: {{}}, egress: [{{}}, {{ports: [{port}]}}]}}"));
    let select =
        |expression: &str| bad(&format!("{{podSelector: {{matchExpressions: [{expression}]}}}}"));
    let cases = [
        (bad("{}"), "spec.podSelector is missing; {} selects every pod"),
        (
            bad("{podSelector: {}, policyTypes: [Ingress, Foo]}"),
            "spec.policyTypes[1]: \"Foo\" is neither Ingress nor Egress",
        ),
        (
            bad("{podSelector: {}, ingress: [{form: []}]}"),
            "spec.ingress[0].form: there is no such field; look for a slip of the pen",
        ),
        (
            bad("{podSelector: {}, egres: []}"),
            "spec.egres: there is no such field; look for a slip of the pen",
        ),
        (
            bad("{podSelector: {matchLabels: {app: 1}}}"),
            "spec.podSelector.matchLabels.app: invalid type: integer `1`, expected a string",
        ),
        (
            bad("{podSelector: {matchLabels: {'a b': c}}}"),
            "spec.podSelector.matchLabels: \"a b\" is not the key of a label",
        ),
        (
            bad("{podSelector: {matchLabels: {a: '-'}}}"),
            "spec.podSelector.matchLabels[a]: \"-\" is not the value of a label",
        ),
        (
            select("{key: a, operator: Gt, values: [b]}"),
            "spec.podSelector.matchExpressions[0].operator: \"Gt\" is none of In, NotIn, Exists and DoesNotExist",
        ),
        (
            select("{key: a, operator: Exists}, {key: a, operator: In}"),
            "spec.podSelector.matchExpressions[1].values: is empty; In needs a value",
        ),
        (
            select("{key: a, operator: NotIn, values: []}"),
            "spec.podSelector.matchExpressions[0].values: is empty; NotIn needs a value",
        ),
        (
            select("{key: a, operator: DoesNotExist, values: [x]}"),
            "spec.podSelector.matchExpressions[0].values: has \"x\"; DoesNotExist has no values",
        ),
        (
            select("{operator: Exists}"),
            "spec.podSelector.matchExpressions[0].key: \"\" is not the key of a label",
        ),
        (
            select("{key: a, operator: In, values: ['?']}"),
            "spec.podSelector.matchExpressions[0].values[0]: \"?\" is not the value of a label",
        ),
        (
            peer("{}"),
            "spec.ingress[0].from[0]: must specify a peer: podSelector, namespaceSelector or ipBlock",
        ),
        (
            peer("{podSelector: {}}, {podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}"),
            "spec.ingress[0].from[1]: has ipBlock and a selector; a peer is one or the other",
        ),
        (
            peer("{ipBlock: {}}"),
            "spec.ingress[0].from[0].ipBlock.cidr: \"\" is not a network such as 10.0.0.0/8 or 2001:db8::/32",
        ),
        (
            peer("{ipBlock: {cidr: 10.0.0.1}}"),
            "spec.ingress[0].from[0].ipBlock.cidr: \"10.0.0.1\" is not a network such as 10.0.0.0/8 or 2001:db8::/32",
        ),
        (
            peer("{podSelector: {}}, {ipBlock: {cidr: 10.0.0.0/24, except: [10.1.0.0/16]}}"),
            "spec.ingress[0].from[1].ipBlock.except[0]: 10.1.0.0/16 is not inside 10.0.0.0/24",
        ),
        (
            peer("{ipBlock: {cidr: 10.0.0.0/24, except: [10.0.0.9/24]}}"),
            "spec.ingress[0].from[0].ipBlock.except[0]: 10.0.0.0/24 is all of 10.0.0.0/24; nothing would be left",
        ),
        (
            peer("{ipBlock: {cidr: 10.0.0.0/24, except: ['2001:db8::/64']}}"),
            "spec.ingress[0].from[0].ipBlock.except[0]: 2001:db8::/64 is not inside 10.0.0.0/24",
        ),
        (
            port("{port: 0}"),
            "spec.egress[1].ports[0].port: 0 is not a port; write 1 to 65535, or a name",
        ),
        (
            port("{port: 80}, {port: 65536}"),
            "spec.egress[1].ports[1].port: 65536 is not a port; write 1 to 65535, or a name",
        ),
        (
            port("{port: true}"),
            "spec.egress[1].ports[0].port: true is not a port; write 1 to 65535, or a name",
        ),
        (
            port("{port: '80'}"),
            "spec.egress[1].ports[0].port: \"80\" is not the name of a port; write a number without quotes",
        ),
        (
            port("{port: Http}"),
            "spec.egress[1].ports[0].port: \"Http\" is not the name of a port; it has up to 15 of a-z, 0-9 and single -, with a letter among them",
        ),
        (
            port("{port: 80, endPort: 79}"),
            "spec.egress[1].ports[0].endPort: 79 is not between 80 and 65535",
        ),
        (
            port("{port: 80, endPort: 65536}"),
            "spec.egress[1].ports[0].endPort: 65536 is not between 80 and 65535",
        ),
        (
            port("{port: http, endPort: 90}"),
            "spec.egress[1].ports[0].endPort: 90 needs a port that is a number",
        ),
        (
            port("{endPort: 90}"),
            "spec.egress[1].ports[0].endPort: 90 needs a port that is a number",
        ),
        (
            port("{port: 80, protocol: tcp}"),
            "spec.egress[1].ports[0].protocol: \"tcp\" is none of TCP, UDP and SCTP",
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(error, expected);
    }
}

#[test]
fn names_of_ports() {
    for name in ["http", "a", "8080a", "a-b-c", "abcdefghijklmno"] {
        let policy =
            good(&format!("{{podSelector: {{}}, ingress: [{{ports: [{{port: {name}}}]}}]}}"));
        let rules = policy.ingress.unwrap();
        assert_eq!(rules[0].ports.as_ref().unwrap()[0].ports, PortMatch::Named(name.into()));
    }
    for name in ["-a", "a-", "a--b", "abcdefghijklmnop", "a_b", "''", "'1-2'"] {
        let error =
            bad(&format!("{{podSelector: {{}}, ingress: [{{ports: [{{port: {name}}}]}}]}}"));
        assert!(error.contains("is not the name of a port"), "{name}: {error}");
    }
}

#[test]
fn files_that_are_no_policies() {
    let cases = [
        ("", "is empty: it has no policy; remove the file if none is meant"),
        ("kind: Pod\nmetadata: {name: a}", "kind is \"Pod\", expected \"NetworkPolicy\""),
        (
            "apiVersion: extensions/v1beta1\nmetadata: {name: a}",
            "apiVersion is \"extensions/v1beta1\", expected \"networking.k8s.io/v1\"",
        ),
        ("metadata: {name: ''}", "metadata.name is empty"),
        ("metadata: {}", "metadata: missing field `name`"),
        ("metadata: {name: a}", "default/a: spec is missing"),
        (
            "metadata: {name: a}\nspec: 5",
            "default/a: spec: invalid type: integer `5`, expected struct PolicySpec",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(from_manifest(text).unwrap_err(), expected, "{text}");
    }
    assert_eq!(
        from_manifest("metadata: {name: a}\nspec: {podSelector: {}, ingress: [[]]}").unwrap_err(),
        "default/a: spec.ingress[0]: there is no such field; look for a slip of the pen"
    );
    assert!(from_manifest("a: &x [*x").is_err());
    let twice = "metadata: {name: a}\nspec: {podSelector: {}, ingress: [], ingress: [{}]}";
    assert!(from_manifest(twice).is_err(), "which of the two is meant?");
}

#[test]
fn too_much_is_refused_with_words() {
    let ports: Vec<Value> = (1..=10_001).map(|port| json!({"port": port})).collect();
    let error = api(json!({"podSelector": {}, "ingress": [{"ports": ports}]})).unwrap_err();
    assert_eq!(error, "spec has more than 10000 rules, peers, ports and values; split the policy");
    let values: Vec<String> = (0..10_001).map(|n| n.to_string()).collect();
    let expression = json!([{"key": "a", "operator": "In", "values": values}]);
    let error = api(json!({"podSelector": {"matchExpressions": expression}})).unwrap_err();
    assert_eq!(error, "spec has more than 10000 rules, peers, ports and values; split the policy");
}

#[test]
fn what_the_api_server_has_is_read_as_far_as_it_can_be() {
    let policy = api(json!({
        "futureField": 1,
        "ingress": [{"from": [{"serviceSelector": {}}, {}, {"podSelector": {}, "new": 1}], "new": 1}],
    }))
    .unwrap();
    assert_eq!(policy.key.to_string(), "shop/p");
    assert!(policy.pods.requirements.is_empty(), "no selector is every pod");
    let everybody = Peer::Pods { namespaces: None, pods: Selector::default() };
    let ingress = policy.ingress.unwrap();
    assert_eq!(ingress[0].peers.as_deref().unwrap(), [Peer::Nobody, Peer::Nobody, everybody]);
    let old = api(json!({"podSelector": {"matchLabels": {"a": "not a value"}}})).unwrap();
    assert_eq!(old.pods.requirements, [within("a", &["not a value"])]);
    api(json!({"podSelector": {}, "policyTypes": ["Foo"]})).unwrap_err();
}

#[test]
fn a_spec_is_written_as_it_was_read() {
    let spec = json!({
        "podSelector": {"matchLabels": {"a": "b"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 80, "endPort": 90}]}],
    });
    let read: PolicySpec = serde_json::from_value(spec.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), spec);
}

#[test]
fn namespaces_have_their_names_as_labels() {
    let text = "
kind: Namespace
apiVersion: v1
metadata: {name: shop, labels: {team: a, kubernetes.io/metadata.name: wrong}}
---
metadata: {name: other}
";
    let namespaces = namespaces_from_manifest(text).unwrap();
    assert_eq!(
        format!("{namespaces:?}"),
        r#"[("shop", {"kubernetes.io/metadata.name": "shop", "team": "a"}), ("other", {"kubernetes.io/metadata.name": "other"})]"#
    );
    let bad = |text: &str| namespaces_from_manifest(text).unwrap_err();
    assert_eq!(bad("kind: Pod\nmetadata: {name: a}"), "kind is \"Pod\", expected \"Namespace\"");
    assert_eq!(
        bad("metadata: {name: a, labels: {b: 'c d'}}"),
        "a: metadata.labels[b]: \"c d\" is not the value of a label"
    );
    assert_eq!(bad(""), "is empty: it has no namespace; remove the file if none is meant");
}

#[test]
fn what_cannot_be_used_is_closed() {
    let closed = |spec: Value| {
        let spec: PolicySpec = serde_json::from_value(spec).unwrap();
        super::closed("shop", "a", Some(&spec))
    };
    let bad = json!([{"ports": [{"protocol": "QUIC"}]}]);
    let policy = closed(json!({"podSelector": {"matchLabels": {"a": "b"}}, "egress": bad}));
    assert_eq!(policy.pods.requirements, [within("a", &["b"])]);
    assert_eq!((policy.ingress, policy.egress), (Some(vec![]), Some(vec![])));
    let policy = closed(json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": bad}));
    assert_eq!((policy.ingress, policy.egress), (Some(vec![]), None));
    // Whom and what it isolates cannot be read either: everybody, both ways.
    let odd = json!({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]});
    let policy = closed(json!({"podSelector": odd, "policyTypes": ["Sideways"]}));
    assert!(policy.pods.requirements.is_empty());
    assert_eq!((policy.ingress, policy.egress), (Some(vec![]), Some(vec![])));
    let policy = super::closed("shop", "a", None);
    assert_eq!((policy.ingress, policy.egress), (Some(vec![]), Some(vec![])));
}
