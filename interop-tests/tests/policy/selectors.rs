//! Whom selectors select, as subjects and as peers.

use rack::policy::people::{namespace, namespaces};
use rack::policy::rig::Rig;

use super::{Set, play, play_in};

const PEERS: &[Set] = &[
    (
        "podSelector is of the policy's own namespace",
        &[(
            "front/p",
            "{ podSelector: {}, ingress: [{ from: [{ podSelector: { matchLabels: { app: web } } }] }] }",
        )],
        "front/web-1 -> front/web-2 TCP/80 yes
         front/web-2 -> front/web-1 ICMP yes
         back/api-1 -> front/web-1 TCP/80 no
         ops/dns-1 -> front/web-1 TCP/80 no
         outside-10 -> front/web-1 TCP/80 no",
    ),
    (
        "namespaceSelector is every pod of those namespaces",
        &[(
            "ops/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: data } } }] }] }",
        )],
        "back/db-1 -> ops/dns-1 TCP/80 yes
         back/plain-1 -> ops/dns-1 SCTP/80 yes
         back/api-1 -> ops/dns-2 UDP/53 yes
         front/web-1 -> ops/dns-1 TCP/80 no
         ops/dns-1 -> ops/dns-2 TCP/80 no",
    ),
    (
        "both selectors in one entry: and",
        &[(
            "ops/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchLabels: { env: prod } }, \
             podSelector: { matchLabels: { version: v1 } } }] }] }",
        )],
        "front/web-1 -> ops/dns-2 TCP/80 yes
         back/api-1 -> ops/dns-1 TCP/80 yes
         front/web-2 -> ops/dns-1 TCP/80 no
         back/db-1 -> ops/dns-1 TCP/80 no",
    ),
    (
        "two entries: or",
        &[(
            "ops/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: web } } }, \
             { podSelector: { matchLabels: { app: dns } } }] }] }",
        )],
        "front/web-1 -> ops/probe-1 TCP/80 yes
         ops/dns-2 -> ops/probe-1 TCP/80 yes
         ops/probe-1 -> ops/dns-1 TCP/80 no
         back/db-1 -> ops/dns-1 TCP/80 no",
    ),
    (
        "two rules: or, each with its own ports",
        &[(
            "ops/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: web } } }], \
             ports: [{ port: 80 }] }, { from: [{ namespaceSelector: { matchLabels: { team: data } } }], \
             ports: [{ port: 8080 }] }] }",
        )],
        "front/web-1 -> ops/dns-2 TCP/80 yes
         front/web-1 -> ops/dns-2 TCP/8080 no
         back/api-1 -> ops/dns-2 TCP/80 no
         back/api-1 -> ops/dns-2 TCP/8080 yes",
    ),
    (
        "an empty podSelector is the namespace",
        &[("back/p", "{ podSelector: {}, ingress: [{ from: [{ podSelector: {} }] }] }")],
        "back/plain-1 -> back/db-1 TCP/80 yes
         back/db-1 -> back/api-1 UDP/53 yes
         front/web-1 -> back/db-1 TCP/80 no",
    ),
    (
        "an empty namespaceSelector is every pod, and nobody else",
        &[("back/p", "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: {} }] }] }")],
        "front/web-1 -> back/db-1 TCP/80 yes
         ops/probe-1+extra -> back/db-1 TCP/80 yes
         outside-10 -> back/db-1 TCP/80 no
         node-b -> back/db-1 TCP/80 no",
    ),
    (
        "an empty list of peers is everybody",
        &[("back/p", "{ podSelector: {}, ingress: [{ from: [], ports: [{ port: 80 }] }] }")],
        "outside-10 -> back/db-1 TCP/80 yes
         outside-10 -> back/db-1 TCP/8080 no",
    ),
    (
        "egress to selected pods",
        &[(
            "front/p",
            "{ podSelector: {}, policyTypes: [Egress], egress: [{ to: [{ namespaceSelector: {}, \
             podSelector: { matchLabels: { tier: back } } }] }] }",
        )],
        "front/web-1 -> back/db-1 TCP/80 yes
         front/web-1 -> back/api-1 ICMP yes
         front/web-1 -> back/plain-1 TCP/80 no
         front/web-2 -> front/web-1 TCP/80 no
         front/web-2 -> outside-10 TCP/80 no",
    ),
];

const OPERATORS: &[Set] = &[
    (
        "In",
        &[(
            "ops/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: {}, podSelector: \
             { matchExpressions: [{ key: app, operator: In, values: [web, db] }] } }] }] }",
        )],
        "front/web-1 -> ops/dns-2 TCP/80 yes
         back/db-1 -> ops/dns-1 TCP/80 yes
         back/api-1 -> ops/dns-1 TCP/80 no
         back/plain-1 -> ops/dns-1 TCP/80 no",
    ),
    (
        "NotIn, also without the key",
        &[(
            "ops/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: {}, podSelector: \
             { matchExpressions: [{ key: app, operator: NotIn, values: [web, db] }] } }] }] }",
        )],
        "front/web-1 -> ops/dns-2 TCP/80 no
         back/db-1 -> ops/dns-1 TCP/80 no
         back/api-1 -> ops/dns-1 TCP/80 yes
         back/plain-1 -> ops/dns-1 TCP/80 yes",
    ),
    (
        "Exists",
        &[(
            "ops/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: {}, podSelector: \
             { matchExpressions: [{ key: version, operator: Exists }] } }] }] }",
        )],
        "front/web-2 -> ops/dns-2 TCP/80 yes
         back/api-1 -> ops/dns-1 TCP/80 yes
         back/db-1 -> ops/dns-1 TCP/80 no",
    ),
    (
        "DoesNotExist",
        &[(
            "ops/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: {}, podSelector: \
             { matchExpressions: [{ key: version, operator: DoesNotExist }] } }] }] }",
        )],
        "front/web-2 -> ops/dns-2 TCP/80 no
         back/plain-1 -> ops/dns-1 TCP/80 yes
         back/db-1 -> ops/dns-1 TCP/80 yes",
    ),
    (
        "several requirements at once",
        &[(
            "back/p",
            "{ podSelector: { matchLabels: { tier: back }, matchExpressions: [{ key: version, operator: \
             DoesNotExist }] }, ingress: [{ from: [{ namespaceSelector: { matchExpressions: \
             [{ key: team, operator: In, values: [web, data] }, { key: open, operator: DoesNotExist }] } }] }] }",
        )],
        "front/web-1 -> back/db-1 TCP/80 yes
         back/api-1 -> back/db-1 TCP/80 no
         ops/dns-1 -> back/db-1 TCP/80 no
         ops/dns-1 -> back/api-1 TCP/80 yes",
    ),
    (
        "operators about namespaces, and the label that each has of itself",
        &[
            (
                "front/p",
                "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchExpressions: \
                 [{ key: team, operator: DoesNotExist }] } }] }] }",
            ),
            (
                "back/p",
                "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchLabels: \
                 { kubernetes.io/metadata.name: ops } } }] }] }",
            ),
            (
                "ops/p",
                "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchExpressions: \
                 [{ key: kubernetes.io/metadata.name, operator: NotIn, values: [ops, back] }] } }] }] }",
            ),
        ],
        "ops/dns-2 -> front/web-1 TCP/80 yes
         back/db-1 -> front/web-1 TCP/80 no
         ops/dns-2 -> back/db-1 TCP/80 yes
         front/web-1 -> back/db-1 TCP/80 no
         front/web-1 -> ops/dns-1 TCP/80 yes
         back/db-1 -> ops/dns-1 TCP/80 no",
    ),
];

#[test]
fn peers_by_selector() {
    play(PEERS);
}

#[test]
fn every_operator() {
    play(OPERATORS);
}

/// Labels of pods and namespaces change while policies stay.
#[test]
fn labels_come_and_go() {
    let mut rig = Rig::start().unwrap();
    let by_pod = (
        "back/pods",
        "{ podSelector: { matchLabels: { tier: back } }, ingress: [{ from: [{ namespaceSelector: {}, \
         podSelector: { matchLabels: { app: web } } }], ports: [{ port: 80 }] }] }",
    );
    let by_namespace = (
        "ops/namespaces",
        "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: data } } }] }] }",
    );
    let policies = [by_pod, by_namespace];
    let agree = |rig: &mut Rig, what: &str, lines: &str| {
        rig.try_set(what, &policies, lines).unwrap_or_else(|error| panic!("{error:#}"));
    };
    agree(
        &mut rig,
        "before",
        "front/web-2 -> back/db-1 TCP/80 yes\nops/dns-1 -> back/db-1 TCP/80 no",
    );
    rig.relabel("front/web-2", &[("app", "other")]).unwrap();
    rig.relabel("ops/dns-1", &[("app", "web")]).unwrap();
    agree(
        &mut rig,
        "peers",
        "front/web-2 -> back/db-1 TCP/80 no\nops/dns-1 -> back/db-1 TCP/80 yes",
    );
    rig.relabel("back/db-1", &[]).unwrap();
    rig.relabel("back/plain-1", &[("tier", "back")]).unwrap();
    agree(
        &mut rig,
        "subjects",
        "front/web-2 -> back/db-1 TCP/80 yes
         front/web-1 -> back/plain-1 TCP/80 yes
         front/web-1 -> back/plain-1 TCP/8080 no",
    );
    rig.set_namespaces(&[namespace("front", &[("team", "data")]), namespace("ops", &[])]).unwrap();
    agree(
        &mut rig,
        "namespaces",
        "front/web-1 -> ops/dns-2 TCP/80 yes\nback/db-1 -> ops/dns-2 TCP/80 no",
    );
    rig.set_namespaces(&namespaces()).unwrap();
    rig.relabel("front/web-2", &[("app", "web")]).unwrap();
    play_in(&mut rig, &[]);
}
