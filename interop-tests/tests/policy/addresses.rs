//! Who a peer is by its address: addresses of annotations, one that two pods share, pods without a network
//! of their own, and somebody who claims what is another's.

use rack::manifests::PREFIX;
use rack::policy::people::{self, on_host_network, placed};
use rack::policy::rig::Rig;
use serde_json::json;

use super::{Set, play, play_in};

const ANNOTATED: &[Set] = &[
    (
        "a peer by addresses of its annotation",
        &[(
            "back/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: {}, podSelector: { matchLabels: { app: probe } } }] }] }",
        )],
        "ops/probe-1 -> back/db-1 TCP/80 yes
         ops/probe-1+extra -> back/db-1 TCP/80 yes
         ops/probe-1+extra -> back/api-1 UDP/53 yes
         ops/dns-1 -> back/db-1 TCP/80 no",
    ),
    (
        "egress to addresses of an annotation",
        &[(
            "front/p",
            "{ podSelector: {}, policyTypes: [Egress], egress: [{ to: [{ namespaceSelector: {}, podSelector: \
             { matchLabels: { app: probe } } }], ports: [{ port: http }] }] }",
        )],
        "front/web-1 -> ops/probe-1 TCP/443 yes
         front/web-2 -> ops/probe-1+extra TCP/443 yes
         front/web-2 -> ops/probe-1+extra TCP/80 no",
    ),
    (
        "a subject at every address that it has",
        &[("ops/p", "{ podSelector: {}, ingress: [{ ports: [{ port: 80 }] }] }")],
        "front/web-1 -> ops/probe-1 TCP/80 yes
         front/web-1 -> ops/probe-1+extra TCP/80 yes
         front/web-1 -> ops/probe-1+extra TCP/8080 no
         front/web-1 -> ops/dns-1+anycast TCP/80 yes
         front/web-1 -> ops/dns-1+anycast TCP/8080 no
         outside-10 -> ops/dns-1+anycast UDP/53 no
         front/web-2 -> ops/dns-2+anycast TCP/8080 no",
    ),
    (
        "a subject sends from every address that it has",
        &[(
            "ops/p",
            "{ podSelector: {}, policyTypes: [Egress], egress: [{ ports: [{ port: 80 }] }] }",
        )],
        "ops/probe-1+extra -> back/db-1 TCP/80 yes
         ops/probe-1+extra -> back/db-1 TCP/8080 no
         ops/dns-1+anycast -> back/db-1 TCP/80 yes
         ops/dns-1+anycast -> back/db-1 UDP/53 no
         ops/dns-2+anycast -> back/api-1 TCP/8080 no",
    ),
    (
        "a shared address, when all who share it are allowed",
        &[(
            "back/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: {}, podSelector: { matchLabels: { app: dns } } }] }] }",
        )],
        "ops/dns-1 -> back/db-1 TCP/80 yes
         ops/dns-1+anycast -> back/db-1 TCP/80 yes
         ops/dns-2+anycast -> back/api-1 TCP/80 yes
         ops/probe-1 -> back/db-1 TCP/80 no",
    ),
    (
        "a shared address, when only one of them is",
        &[(
            "back/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: {}, podSelector: { matchLabels: { zone: a } } }] }] }",
        )],
        "ops/dns-1 -> back/db-1 TCP/80 yes
         ops/dns-1+anycast -> back/db-1 TCP/80 no
         ops/dns-2 -> back/api-1 TCP/80 no",
    ),
    (
        "a shared address in a block",
        &[(
            "back/p",
            "{ podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 192.0.2.53/32 } }, \
             { ipBlock: { cidr: '2001:db8:53::/48' } }] }] }",
        )],
        "ops/dns-1 -> back/db-1 TCP/80 no
         ops/dns-1+anycast -> back/db-1 TCP/80 yes
         ops/dns-2+anycast -> back/api-1 ICMP yes",
    ),
    (
        "egress to a shared address by a name that differs",
        &[(
            "front/p",
            "{ podSelector: {}, policyTypes: [Egress], egress: [{ to: [{ namespaceSelector: {} }], \
             ports: [{ port: names, protocol: UDP }, { port: names-tcp }] }] }",
        )],
        "front/web-1 -> ops/dns-1 UDP/53 yes
         front/web-1 -> ops/dns-2 UDP/5353 yes
         front/web-1 -> ops/dns-1+anycast TCP/53 yes
         front/web-1 -> ops/dns-1+anycast UDP/53 no
         front/web-2 -> ops/dns-2+anycast UDP/5353 no",
    ),
];

#[test]
fn addresses_of_annotations() {
    play(ANNOTATED);
}

/// A pod on the network of its node has that node's address, and is no peer of any selector.
#[test]
fn a_pod_without_a_network_of_its_own() {
    let mut rig = Rig::start().unwrap();
    let node = rig.spot("node-b").unwrap().clone();
    let name = rig.node(node.home.unwrap()).name().to_owned();
    let host = on_host_network("ops/host-1", &[("app", "web")]);
    rig.describe(placed(&host, &name, &node.addresses)).unwrap();
    play_in(
        &mut rig,
        &[
            (
                "by label and namespace",
                &[(
                    "back/p",
                    "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: {}, podSelector: \
                     { matchLabels: { app: web } } }] }] }",
                )],
                "node-b -> back/db-1 TCP/80 no
                 front/web-2 -> back/db-1 TCP/80 yes
                 node-b -> back/api-1 TCP/80 yes",
            ),
            (
                "by its address",
                &[(
                    "back/p",
                    "{ podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 198.18.2.2/32 } }, \
                     { ipBlock: { cidr: '2001:db8:1:2::/64' } }] }] }",
                )],
                "node-b -> back/db-1 TCP/80 yes
                 node-a -> back/api-1 TCP/80 no",
            ),
        ],
    );
}

/// A pod of elsewhere writes into its annotation what Kubernetes says is another's: it gains nothing, and
/// the other loses nothing.
#[test]
fn a_claim_on_the_address_of_another() {
    let mut rig = Rig::start().unwrap();
    let victim = rig.spot("front/web-2").unwrap().addresses;
    let claimed = victim.map(|address| address.to_string()).join(",");
    let mut liar = people::pod("ops/liar-1", &[("app", "liar")], &[]);
    let annotations = json!({ format!("{PREFIX}addresses"): claimed });
    people::put(&mut liar, "/metadata", "annotations", annotations);
    let own = ["10.244.2.200", "2001:db8:a:2::200"].map(|address| address.parse().unwrap());
    let name = rig.node(rack::policy::people::Home::B).name().to_owned();
    rig.describe(placed(&liar, &name, &own)).unwrap();
    play_in(
        &mut rig,
        &[(
            "the victim is who it was",
            &[
                (
                    "back/p",
                    "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: {}, podSelector: \
                     { matchLabels: { version: v2 } } }] }] }",
                ),
                (
                    "ops/p",
                    "{ podSelector: {}, ingress: [{ from: [{ podSelector: { matchLabels: { app: liar } } }] }] }",
                ),
            ],
            "front/web-2 -> back/db-1 TCP/80 yes
             front/web-2 -> ops/dns-1 TCP/80 no",
        )],
    );
}
