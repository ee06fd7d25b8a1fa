//! Blocks of addresses, which are for everybody: those beyond, nodes, and pods too.

use super::{Set, play};

const BLOCKS: &[Set] = &[
    (
        "a block beyond",
        &[(
            "back/p",
            "{ podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 203.0.113.0/24 } }, \
             { ipBlock: { cidr: '2001:db8:f00d::/64' } }] }] }",
        )],
        "outside-10 -> back/db-1 TCP/80 yes
         outside-77 -> back/api-1 ICMP yes
         front/web-1 -> back/db-1 TCP/80 no
         node-b -> back/db-1 TCP/80 no",
    ),
    (
        "except",
        &[(
            "back/p",
            "{ podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 203.0.113.0/24, except: [203.0.113.64/26] } }, \
             { ipBlock: { cidr: '2001:db8:f00d::/64', except: ['2001:db8:f00d::70/124'] } }], ports: [{ port: 80 }] }] }",
        )],
        "outside-10 -> back/db-1 TCP/80 yes
         outside-77 -> back/db-1 TCP/80 no
         outside-10 -> back/db-1 TCP/8080 no
         outside-77 -> back/api-1 TCP/80 no",
    ),
    (
        "what one block excepts another may allow",
        &[
            (
                "back/p",
                "{ podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 0.0.0.0/0, except: [203.0.113.0/24, 10.244.2.0/24] } }, \
                 { ipBlock: { cidr: '::/0', except: ['2001:db8:f00d::/64', '2001:db8:a:2::/64'] } }] }] }",
            ),
            (
                "back/q",
                "{ podSelector: { matchLabels: { app: db } }, ingress: [{ from: [{ ipBlock: { cidr: 203.0.113.77/32 } }, \
                 { ipBlock: { cidr: '2001:db8:f00d::77/128' } }] }] }",
            ),
        ],
        "outside-10 -> back/db-1 TCP/80 no
         outside-77 -> back/db-1 TCP/80 yes
         outside-77 -> back/api-1 TCP/80 no
         front/web-1 -> back/db-1 TCP/80 yes
         front/web-2 -> back/db-1 TCP/80 no
         ops/dns-1 -> back/api-1 UDP/53 yes
         node-a -> back/api-1 TCP/80 yes",
    ),
    (
        "blocks within blocks, for different ports",
        &[(
            "back/p",
            "{ podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 203.0.112.0/22 } }, { ipBlock: { cidr: '2001:db8::/32' } }], \
             ports: [{ port: 80 }] }, { from: [{ ipBlock: { cidr: 203.0.113.64/26 } }, \
             { ipBlock: { cidr: '2001:db8:f00d::70/124' } }], ports: [{ port: 8080 }] }] }",
        )],
        "outside-10 -> back/db-1 TCP/80 yes
         outside-77 -> back/db-1 TCP/80 yes
         outside-10 -> back/db-1 TCP/8080 no
         outside-77 -> back/db-1 TCP/8080 yes",
    ),
    (
        "a block of pods",
        &[(
            "back/p",
            "{ podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 10.244.2.0/24 } }, \
             { ipBlock: { cidr: '2001:db8:a:2::/64' } }] }] }",
        )],
        "front/web-2 -> back/db-1 TCP/80 yes
         back/api-1 -> back/db-1 TCP/80 yes
         front/web-1 -> back/db-1 TCP/80 no
         outside-10 -> back/db-1 TCP/80 no
         front/web-2 -> back/plain-1 TCP/80 yes",
    ),
    (
        "egress to a block with an exception",
        &[(
            "front/p",
            "{ podSelector: {}, policyTypes: [Egress], egress: [{ to: [{ ipBlock: { cidr: 0.0.0.0/0, \
             except: [10.0.0.0/8, 203.0.113.77/32] } }, { ipBlock: { cidr: '::/0', \
             except: ['2001:db8:a::/48', '2001:db8:f00d::77/128'] } }] }] }",
        )],
        "front/web-1 -> outside-10 TCP/80 yes
         front/web-1 -> outside-10 ICMP yes
         front/web-1 -> outside-77 TCP/80 no
         front/web-1 -> back/db-1 TCP/80 no
         front/web-1 -> back/api-1 TCP/80 no
         front/web-1 -> node-b TCP/80 yes
         front/web-1 -> ops/probe-1 TCP/80 yes
         front/web-1 -> ops/dns-1+anycast UDP/53 yes",
    ),
    (
        "a selector and a block overlap",
        &[(
            "back/p",
            "{ podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: web } } }], \
             ports: [{ port: 80 }] }, { from: [{ ipBlock: { cidr: 10.244.1.0/24 } }, \
             { ipBlock: { cidr: '2001:db8:a:1::/64' } }], ports: [{ port: 8080 }] }] }",
        )],
        "front/web-1 -> back/db-1 TCP/80 yes
         front/web-1 -> back/db-1 TCP/8080 yes
         front/web-2 -> back/db-1 TCP/80 yes
         front/web-2 -> back/db-1 TCP/8080 no
         ops/dns-1 -> back/db-1 TCP/80 no
         ops/dns-1 -> back/db-1 TCP/8080 yes",
    ),
    (
        "one family alone",
        &[
            (
                "back/p",
                "{ podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 0.0.0.0/0 } }] }] }",
            ),
            (
                "ops/p",
                "{ podSelector: {}, policyTypes: [Egress], egress: [{ to: [{ ipBlock: { cidr: '::/0' } }] }] }",
            ),
        ],
        "",
    ),
    (
        "a single address, and all but one",
        &[
            (
                "back/p",
                "{ podSelector: { matchLabels: { app: db } }, ingress: [{ from: [{ ipBlock: { cidr: 203.0.113.10/32 } }, \
                 { ipBlock: { cidr: '2001:db8:f00d::10/128' } }] }] }",
            ),
            (
                "ops/p",
                "{ podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 0.0.0.0/0, except: [203.0.113.10/32] } }, \
                 { ipBlock: { cidr: '::/0', except: ['2001:db8:f00d::10/128'] } }] }] }",
            ),
        ],
        "outside-10 -> back/db-1 TCP/80 yes
         outside-77 -> back/db-1 TCP/80 no
         outside-10 -> ops/dns-1 TCP/80 no
         outside-77 -> ops/dns-1 TCP/80 yes
         back/api-1 -> ops/dns-1 TCP/80 yes",
    ),
];

#[test]
fn blocks_of_addresses() {
    play(BLOCKS);
}
