//! Ports: numbers, names, ranges, protocols, and what has none.

use super::{Set, play};

const NUMBERS: &[Set] = &[
    (
        "one port is of TCP",
        &[("back/p", "{ podSelector: {}, ingress: [{ ports: [{ port: 8080 }] }] }")],
        "front/web-1 -> back/db-1 TCP/8080 yes
         front/web-1 -> back/db-1 TCP/80 no
         front/web-1 -> back/db-1 UDP/8080 no
         front/web-1 -> back/db-1 SCTP/8080 no
         front/web-1 -> back/db-1 ICMP no",
    ),
    (
        "UDP",
        &[("back/p", "{ podSelector: {}, ingress: [{ ports: [{ protocol: UDP, port: 5353 }] }] }")],
        "front/web-1 -> back/db-1 UDP/5353 yes
         front/web-1 -> back/db-1 UDP/53 no
         front/web-1 -> back/db-1 TCP/5353 no",
    ),
    (
        "TCP and UDP at one port",
        &[(
            "ops/p",
            "{ podSelector: {}, ingress: [{ ports: [{ protocol: UDP, port: 53 }, { protocol: TCP, port: 53 }] }] }",
        )],
        "front/web-1 -> ops/dns-1 UDP/53 yes
         front/web-1 -> ops/dns-2 TCP/53 yes
         front/web-1 -> ops/dns-1 SCTP/53 no
         front/web-1 -> ops/dns-1 UDP/5353 no",
    ),
    (
        "SCTP",
        &[("back/p", "{ podSelector: {}, ingress: [{ ports: [{ protocol: SCTP, port: 80 }] }] }")],
        "front/web-1 -> back/db-1 SCTP/80 yes
         front/web-1 -> back/api-1 SCTP/80 yes
         front/web-1 -> back/db-1 SCTP/81 no
         front/web-1 -> back/db-1 TCP/80 no
         front/web-1 -> back/db-1 UDP/80 no",
    ),
    (
        "a protocol without a port is all of its ports",
        &[
            ("back/p", "{ podSelector: {}, ingress: [{ ports: [{ protocol: UDP }] }] }"),
            (
                "ops/p",
                "{ podSelector: {}, ingress: [{ ports: [{ protocol: TCP }, { protocol: SCTP }] }] }",
            ),
        ],
        "front/web-1 -> back/db-1 UDP/53 yes
         front/web-1 -> back/api-1 UDP/9005 yes
         front/web-1 -> back/db-1 TCP/53 no
         front/web-1 -> ops/dns-1 TCP/9010 yes
         front/web-1 -> ops/dns-1 SCTP/7 yes
         front/web-1 -> ops/dns-1 UDP/53 no
         front/web-1 -> ops/dns-1 ICMP no",
    ),
    (
        "a range, at both of its ends",
        &[("back/p", "{ podSelector: {}, ingress: [{ ports: [{ port: 9000, endPort: 9005 }] }] }")],
        "front/web-1 -> back/db-1 TCP/9000 yes
         front/web-1 -> back/db-1 TCP/9005 yes
         front/web-1 -> back/db-1 TCP/9010 no
         front/web-1 -> back/db-1 TCP/8080 no
         front/web-1 -> back/db-1 UDP/9000 no",
    ),
    (
        "ranges that overlap, of several protocols",
        &[
            (
                "back/p",
                "{ podSelector: {}, ingress: [{ ports: [{ port: 1, endPort: 100 }, { port: 50, endPort: 8999 }, \
                 { protocol: UDP, port: 5353, endPort: 65535 }] }] }",
            ),
            (
                "back/q",
                "{ podSelector: { matchLabels: { app: db } }, ingress: [{ from: [{ namespaceSelector: \
                 { matchLabels: { team: web } } }], ports: [{ port: 80, endPort: 9006 }] }] }",
            ),
        ],
        "ops/dns-1 -> back/db-1 TCP/80 yes
         ops/dns-1 -> back/db-1 TCP/8080 yes
         ops/dns-1 -> back/db-1 TCP/9005 no
         front/web-1 -> back/db-1 TCP/9005 yes
         front/web-1 -> back/db-1 TCP/9010 no
         front/web-1 -> back/api-1 TCP/9005 no
         ops/dns-1 -> back/db-1 UDP/5353 yes
         ops/dns-1 -> back/db-1 UDP/53 no",
    ),
    (
        "no ports: everything passes, ICMP too",
        &[(
            "back/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: web } } }] }] }",
        )],
        "front/web-1 -> back/db-1 ICMP yes
         front/web-2 -> back/db-1 SCTP/80 yes
         front/web-2 -> back/db-1 UDP/443 yes
         ops/dns-1 -> back/db-1 ICMP no",
    ),
    (
        "every port of every protocol is still not ICMP",
        &[(
            "back/p",
            "{ podSelector: {}, ingress: [{ ports: [{ protocol: TCP }, { protocol: UDP }, { protocol: SCTP }] }] }",
        )],
        "front/web-1 -> back/db-1 ICMP no
         outside-10 -> back/api-1 ICMP no
         outside-10 -> back/api-1 TCP/443 yes",
    ),
];

const NAMES: &[Set] = &[
    (
        "a name is a number of each selected pod",
        &[
            ("front/p", "{ podSelector: {}, ingress: [{ ports: [{ port: http }] }] }"),
            ("back/p", "{ podSelector: {}, ingress: [{ ports: [{ port: http }] }] }"),
        ],
        "ops/dns-1 -> front/web-1 TCP/80 yes
         ops/dns-1 -> front/web-1 TCP/8080 no
         ops/dns-1 -> front/web-2 TCP/8080 yes
         ops/dns-1 -> front/web-2 TCP/80 no
         outside-10 -> back/db-1 TCP/8080 yes
         outside-10 -> back/api-1 TCP/80 yes
         outside-10 -> back/plain-1 TCP/80 no",
    ),
    (
        "a name is of a protocol",
        &[
            (
                "front/p",
                "{ podSelector: {}, ingress: [{ ports: [{ port: metrics, protocol: UDP }] }] }",
            ),
            (
                "ops/p",
                "{ podSelector: {}, ingress: [{ ports: [{ port: names, protocol: UDP }, { port: names-tcp }] }] }",
            ),
        ],
        "ops/dns-1 -> front/web-2 UDP/9000 yes
         ops/dns-1 -> front/web-1 UDP/9000 no
         ops/dns-1 -> front/web-1 TCP/9000 no
         front/web-1 -> ops/dns-1 UDP/53 yes
         front/web-1 -> ops/dns-1 UDP/5353 no
         front/web-1 -> ops/dns-2 UDP/5353 yes
         front/web-1 -> ops/dns-2 TCP/53 yes
         front/web-1 -> ops/dns-2 UDP/53 no",
    ),
    (
        "egress: the name is the peer's",
        &[(
            "ops/p",
            "{ podSelector: {}, policyTypes: [Egress], egress: [{ to: [{ namespaceSelector: {} }], \
             ports: [{ port: http }] }] }",
        )],
        "ops/dns-1 -> front/web-1 TCP/80 yes
         ops/dns-1 -> front/web-1 TCP/8080 no
         ops/dns-1 -> front/web-2 TCP/8080 yes
         ops/dns-1 -> back/db-1 TCP/8080 yes
         ops/dns-2 -> back/api-1 TCP/80 yes
         ops/dns-2 -> ops/probe-1 TCP/443 yes
         ops/dns-2 -> ops/probe-1+extra TCP/443 yes
         ops/dns-2 -> back/plain-1 TCP/80 no",
    ),
    (
        "egress: also of peers that are a block, or everybody",
        &[
            (
                "ops/p",
                "{ podSelector: { matchLabels: { app: dns } }, policyTypes: [Egress], egress: [{ to: \
                 [{ ipBlock: { cidr: 10.244.0.0/16 } }, { ipBlock: { cidr: '2001:db8:a::/48' } }], ports: [{ port: http }] }] }",
            ),
            (
                "ops/q",
                "{ podSelector: { matchLabels: { app: probe } }, policyTypes: [Egress], egress: [{ ports: [{ port: http }] }] }",
            ),
        ],
        "ops/dns-1 -> front/web-1 TCP/80 yes
         ops/dns-1 -> front/web-1 TCP/8080 no
         ops/dns-1 -> front/web-2 TCP/8080 yes
         ops/dns-1 -> outside-10 TCP/80 no
         ops/dns-1 -> ops/probe-1 TCP/443 no
         ops/probe-1 -> back/api-1 TCP/80 yes
         ops/probe-1 -> back/db-1 TCP/8080 yes
         ops/probe-1 -> outside-10 TCP/80 no",
    ),
    (
        "a name of nobody opens nothing",
        &[("back/p", "{ podSelector: {}, ingress: [{ ports: [{ port: nothing }] }] }")],
        "front/web-1 -> back/db-1 TCP/80 no
         front/web-1 -> back/db-1 TCP/8080 no",
    ),
    (
        "names and numbers side by side",
        &[(
            "back/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: web } } }], \
             ports: [{ port: http }, { port: 9005 }] }, { ports: [{ port: names, protocol: UDP }] }] }",
        )],
        "front/web-1 -> back/db-1 TCP/8080 yes
         front/web-1 -> back/db-1 TCP/9005 yes
         front/web-1 -> back/db-1 TCP/80 no
         front/web-1 -> back/api-1 TCP/80 yes
         ops/dns-1 -> back/db-1 TCP/8080 no
         ops/dns-1 -> back/db-1 UDP/5353 yes
         ops/dns-1 -> back/api-1 UDP/53 yes
         ops/dns-1 -> back/api-1 UDP/5353 no",
    ),
    (
        "egress to name servers alone",
        &[(
            "front/p",
            "{ podSelector: {}, policyTypes: [Egress], egress: [{ to: [{ namespaceSelector: \
             { matchLabels: { kubernetes.io/metadata.name: ops } }, podSelector: { matchLabels: { app: dns } } }], \
             ports: [{ protocol: UDP, port: 53 }, { protocol: TCP, port: 53 }] }] }",
        )],
        "front/web-1 -> ops/dns-1 UDP/53 yes
         front/web-1 -> ops/dns-2 UDP/53 yes
         front/web-2 -> ops/dns-1 TCP/53 yes
         front/web-1 -> ops/dns-1+anycast UDP/53 yes
         front/web-1 -> ops/dns-1 TCP/80 no
         front/web-1 -> ops/dns-1 ICMP no
         front/web-1 -> ops/probe-1 UDP/53 no
         front/web-1 -> outside-10 UDP/53 no
         front/web-1 -> back/db-1 TCP/80 no
         outside-10 -> front/web-1 TCP/80 yes",
    ),
];

#[test]
fn ports_by_number() {
    play(NUMBERS);
}

#[test]
fn ports_by_name() {
    play(NAMES);
}
