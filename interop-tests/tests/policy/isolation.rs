//! Who is isolated at all: default denials, what a policy is about, several policies of one pod, the pod
//! itself and its node.

use super::{Set, play};

const DENIALS: &[Set] = &[
    (
        "default deny ingress",
        &[("front/deny", "{ podSelector: {}, policyTypes: [Ingress] }")],
        "back/db-1 -> front/web-1 TCP/80 no
         front/web-2 -> front/web-1 TCP/80 no
         outside-10 -> front/web-1 TCP/80 no
         outside-10 -> front/web-2 ICMP no
         front/web-1 -> back/db-1 TCP/80 yes
         front/web-1 -> back/api-1 UDP/53 yes
         node-a -> front/web-1 TCP/80 yes
         node-b -> front/web-1 TCP/80 no
         node-b -> front/web-2 UDP/53 yes
         front/web-1 -> front/web-1 TCP/80 yes
         front/web-1 -> outside-77 ICMP yes",
    ),
    (
        "default deny egress",
        &[("front/deny", "{ podSelector: {}, policyTypes: [Egress] }")],
        "front/web-1 -> back/db-1 TCP/80 no
         front/web-1 -> front/web-2 UDP/53 no
         front/web-2 -> outside-10 ICMP no
         back/db-1 -> front/web-1 TCP/80 yes
         back/db-1 -> front/web-2 UDP/53 yes
         outside-77 -> front/web-1 SCTP/80 yes
         front/web-1 -> node-a TCP/80 yes
         front/web-1 -> node-b TCP/80 no
         front/web-2 -> node-b ICMP yes
         front/web-1 -> front/web-1 UDP/53 yes",
    ),
    (
        "default deny both",
        &[("ops/deny", "{ podSelector: {}, policyTypes: [Ingress, Egress] }")],
        "ops/probe-1 -> ops/dns-1 UDP/53 no
         ops/dns-1 -> ops/dns-2 TCP/80 no
         ops/dns-1 -> back/db-1 TCP/80 no
         back/db-1 -> ops/dns-1 TCP/80 no
         ops/dns-1 -> node-a TCP/80 yes
         node-b -> ops/dns-2 ICMP yes
         ops/probe-1 -> ops/probe-1+extra TCP/80 yes
         ops/dns-2 -> ops/dns-2+anycast UDP/53 yes",
    ),
    (
        "allow all beside default deny",
        &[
            ("front/deny", "{ podSelector: {}, policyTypes: [Ingress, Egress] }"),
            ("front/all-in", "{ podSelector: {}, ingress: [{}], policyTypes: [Ingress] }"),
            ("front/all-out", "{ podSelector: {}, egress: [{}], policyTypes: [Egress] }"),
        ],
        "outside-10 -> front/web-1 TCP/80 yes
         outside-10 -> front/web-1 ICMP yes
         front/web-1 -> back/api-1 SCTP/80 yes
         node-b -> front/web-1 TCP/80 yes",
    ),
    (
        "only the selected pods are isolated",
        &[("back/db", "{ podSelector: { matchLabels: { app: db } } }")],
        "front/web-1 -> back/db-1 TCP/80 no
         front/web-1 -> back/api-1 TCP/80 yes
         front/web-1 -> back/plain-1 TCP/80 yes",
    ),
    (
        "a policy that selects nobody",
        &[
            ("back/none", "{ podSelector: { matchLabels: { app: nobody } } }"),
            ("elsewhere/deny", "{ podSelector: {}, policyTypes: [Ingress, Egress] }"),
        ],
        "front/web-1 -> back/db-1 TCP/80 yes
         outside-10 -> ops/dns-2 UDP/53 yes",
    ),
    (
        "answers of a pod that may not begin anything",
        &[
            ("back/mute", "{ podSelector: {}, policyTypes: [Egress] }"),
            ("front/deaf", "{ podSelector: {}, policyTypes: [Ingress] }"),
        ],
        "front/web-1 -> back/db-1 TCP/80 yes
         front/web-1 -> back/api-1 UDP/53 yes
         front/web-2 -> back/db-1 SCTP/80 yes
         front/web-2 -> back/api-1 ICMP yes
         back/db-1 -> front/web-1 TCP/80 no
         back/api-1 -> front/web-1 ICMP no",
    ),
];

const TYPES: &[Set] = &[
    (
        "policyTypes left out: nothing but a selector",
        &[("back/p", "{ podSelector: {} }")],
        "front/web-1 -> back/db-1 TCP/80 no
         back/db-1 -> front/web-1 TCP/80 yes",
    ),
    (
        "policyTypes left out: ingress rules",
        &[("back/p", "{ podSelector: {}, ingress: [{ ports: [{ port: 80 }] }] }")],
        "front/web-1 -> back/db-1 TCP/80 yes
         front/web-1 -> back/db-1 TCP/8080 no
         back/db-1 -> front/web-1 TCP/8080 yes",
    ),
    (
        "policyTypes left out: egress rules are about both",
        &[("back/p", "{ podSelector: {}, egress: [{ ports: [{ port: 80 }] }] }")],
        "front/web-1 -> back/db-1 TCP/80 no
         back/db-1 -> front/web-1 TCP/80 yes
         back/db-1 -> front/web-1 TCP/8080 no",
    ),
    (
        "policyTypes left out: an empty list of egress rules is none",
        &[("back/p", "{ podSelector: {}, egress: [], ingress: [{ ports: [{ port: 80 }] }] }")],
        "front/web-1 -> back/db-1 TCP/80 yes
         front/web-1 -> back/db-1 UDP/53 no
         back/db-1 -> front/web-1 TCP/8080 yes",
    ),
    (
        "policyTypes left out: rules for both",
        &[(
            "back/p",
            "{ podSelector: {}, ingress: [{ ports: [{ port: 80 }] }], egress: [{ ports: [{ port: 8080 }] }] }",
        )],
        "front/web-1 -> back/db-1 TCP/80 yes
         front/web-1 -> back/db-1 TCP/8080 no
         back/db-1 -> front/web-1 TCP/8080 yes
         back/db-1 -> front/web-1 TCP/80 no",
    ),
    (
        "policyTypes written: rules of the other direction are ignored",
        &[
            (
                "back/p",
                "{ podSelector: {}, policyTypes: [Ingress], egress: [{ ports: [{ port: 1 }] }] }",
            ),
            ("front/p", "{ podSelector: {}, policyTypes: [Egress], ingress: [], egress: [{}] }"),
        ],
        "back/db-1 -> front/web-1 TCP/80 yes
         front/web-1 -> back/db-1 TCP/80 no
         front/web-1 -> ops/dns-1 TCP/80 yes",
    ),
    (
        "policies add up",
        &[
            ("back/deny", "{ podSelector: {} }"),
            (
                "back/web",
                "{ podSelector: { matchLabels: { app: db } }, ingress: [{ ports: [{ port: 80 }], \
                 from: [{ namespaceSelector: { matchLabels: { team: web } } }] }] }",
            ),
            (
                "back/ops",
                "{ podSelector: { matchLabels: { tier: back } }, ingress: [{ ports: [{ port: 8080 }] }] }",
            ),
        ],
        "front/web-2 -> back/db-1 TCP/80 yes
         front/web-2 -> back/db-1 TCP/8080 yes
         ops/dns-1 -> back/db-1 TCP/80 no
         ops/dns-1 -> back/db-1 TCP/8080 yes
         front/web-2 -> back/api-1 TCP/80 no
         front/web-2 -> back/api-1 TCP/8080 yes
         front/web-2 -> back/plain-1 TCP/8080 no",
    ),
    (
        "both ends have a say",
        &[
            (
                "front/out",
                "{ podSelector: {}, policyTypes: [Egress], egress: [{ ports: [{ port: 80 }, { port: 8080 }] }] }",
            ),
            (
                "back/in",
                "{ podSelector: {}, ingress: [{ ports: [{ port: 80 }, { port: 9005 }] }] }",
            ),
        ],
        "front/web-1 -> back/api-1 TCP/80 yes
         front/web-1 -> back/api-1 TCP/8080 no
         front/web-1 -> back/api-1 TCP/9005 no
         front/web-1 -> back/db-1 TCP/80 yes
         front/web-1 -> ops/dns-1 TCP/8080 yes
         ops/dns-1 -> back/db-1 TCP/9005 yes",
    ),
];

#[test]
fn default_denials() {
    play(DENIALS);
}

#[test]
fn what_a_policy_is_about() {
    play(TYPES);
}
