//! What is refused in a NodeConfig, and the words: path, value, remedy.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says that something is wrong by panicking"
)]

use flock_agent::config::parse;

fn with_spec(spec: &str) -> String {
    format!(
        "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {{name: a}}\nspec: {spec}\n"
    )
}

fn with_peer(peer: &str) -> String {
    with_spec(&format!("{{bgp: {{asn: 65001, peers: [{{{peer}}}]}}}}"))
}

fn problems(yaml: &str) -> Vec<String> {
    let error = parse(yaml).expect_err(yaml);
    let lines: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
    assert_eq!(error.to_string(), lines.join("\n"));
    lines
}

#[test]
fn a_wrong_shape_names_path_and_value() {
    let table = [
        (
            with_peer("holdtime: 3"),
            "spec.bgp.peers[0].holdtime: unknown field `holdtime`, expected one of `name`",
        ),
        (
            with_peer("holdTime: true"),
            "spec.bgp.peers[0].holdTime: \"true\": invalid type: boolean `true`, expected a duration such as 90s or 300ms, or whole seconds",
        ),
        (
            with_peer("holdTime: 1.5"),
            "spec.bgp.peers[0].holdTime: \"1.5\": invalid type: floating point `1.5`",
        ),
        (
            with_peer("asn: [1]"),
            "spec.bgp.peers[0].asn: \"[1]\": invalid type: sequence, expected an AS number, external or internal",
        ),
        (
            with_peer("port: many"),
            "spec.bgp.peers[0].port: \"many\": invalid type: string \"many\", expected i64",
        ),
        (
            with_peer("passive: maybe"),
            "spec.bgp.peers[0].passive: \"maybe\": invalid type: string \"maybe\", expected a boolean",
        ),
        (
            with_peer("password: {secretRef: {nme: x}}"),
            "spec.bgp.peers[0].password.secretRef.nme: unknown field `nme`, expected `name` or `key`",
        ),
        (
            with_spec("{cidr6: 2001:db8::/64}"),
            "spec.cidr6: \"2001:db8::/64\": invalid type: string",
        ),
        (with_spec("{mtuu: 1}"), "spec.mtuu: unknown field `mtuu`"),
        ("apiVersion: x\nkind: y\nspec: {}".into(), "missing field `metadata`"),
        ("apiVersion: x\nkind: y\nmetadata: {}\nspec: {}".into(), "metadata: missing field `name`"),
        ("[]".into(), "not a NodeConfig; write an object with apiVersion"),
        (String::new(), "not a NodeConfig"),
        ("a: [".into(), "not readable as YAML: "),
        ("a: 1\na: 2".into(), "not readable as YAML: "),
    ];
    for (yaml, wanted) in table {
        let found = problems(&yaml);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(wanted), "{yaml}\n  found {}\n wanted {wanted}", found[0]);
    }
}

#[test]
fn what_is_refused_in_spec() {
    let table = [
        (
            "{cidr6: [10.0.0.0/24]}",
            "spec.cidr6[0]: \"10.0.0.0/24\": this is an IPv4 network, and here belongs an IPv6 network; write for example 2001:db8:a::/64",
        ),
        (
            "{cidr4: ['2001:db8::/64']}",
            "spec.cidr4[0]: \"2001:db8::/64\": this is an IPv6 network, and here belongs an IPv4 network; write for example 10.244.1.0/24",
        ),
        (
            "{cidr4: [10.244.1.5/24]}",
            "spec.cidr4[0]: \"10.244.1.5/24\": bits are set beyond the prefix length; the network is 10.244.1.0/24",
        ),
        (
            "{cidr6: ['2001:db8::1/64']}",
            "spec.cidr6[0]: \"2001:db8::1/64\": bits are set beyond the prefix length; the network is 2001:db8::/64",
        ),
        (
            "{cidr4: [10.0.0.0/31]}",
            "spec.cidr4[0]: \"10.0.0.0/31\": too small for pods: the smallest pool is a /30",
        ),
        (
            "{cidr6: ['2001:db8::/125']}",
            "spec.cidr6[0]: \"2001:db8::/125\": too small for pods: the smallest pool is a /124",
        ),
        (
            "{cidr6: ['ff05::/64']}",
            "spec.cidr6[0]: \"ff05::/64\": multicast (ff00::/8) cannot be used here; use unicast address space of your own",
        ),
        (
            "{cidr6: ['fe80::/64']}",
            "spec.cidr6[0]: \"fe80::/64\": link-local (fe80::/10) cannot be used here; use unicast address space of your own",
        ),
        (
            "{cidr6: ['::/0']}",
            "spec.cidr6[0]: \"::/0\": unspecified (::) cannot be used here; use unicast address space of your own",
        ),
        (
            "{cidr6: ['::ffff:0:0/96']}",
            "spec.cidr6[0]: \"::ffff:0:0/96\": IPv4-mapped (::ffff:0:0/96) cannot be used here; use unicast address space of your own",
        ),
        (
            "{cidr4: [127.0.0.0/24]}",
            "spec.cidr4[0]: \"127.0.0.0/24\": loopback (127.0.0.0/8) cannot be used here; use unicast address space of your own",
        ),
        (
            "{cidr4: [169.254.0.0/16]}",
            "spec.cidr4[0]: \"169.254.0.0/16\": link-local (169.254.0.0/16) cannot be used here; use unicast address space of your own",
        ),
        (
            "{cidr4: [10.0.0.0]}",
            "spec.cidr4[0]: \"10.0.0.0\": not an IPv4 network; write for example 10.244.1.0/24",
        ),
        (
            "{cidr4: [10.0.0.0/24, 10.0.0.128/25]}",
            "spec.cidr4[1]: \"10.0.0.128/25\": it overlaps 10.0.0.0/24; keep one of the two",
        ),
        (
            "{cidr4: [10.0.0.0/24, 10.0.0.0/24]}",
            "spec.cidr4[1]: \"10.0.0.0/24\": it is listed twice; list it once",
        ),
        ("{mtu: 1279}", "spec.mtu: \"1279\": out of range; write a number from 1280 to 65535"),
        ("{mtu: 65536}", "spec.mtu: \"65536\": out of range; write a number from 1280 to 65535"),
        ("{mtu: -1}", "spec.mtu: \"-1\": out of range; write a number from 1280 to 65535"),
        (
            "{readiness: {sessions: 0, timeout: 2h}}",
            "spec.readiness.timeout: \"2h\": out of range; write a duration from 1s to 3600s",
        ),
        ("{bgp: {}}", "spec.bgp.asn: it is missing; write the AS number of this node"),
        (
            "{bgp: {asn: 0}}",
            "spec.bgp.asn: \"0\": AS 0 is nobody's (RFC 7607); write the AS number in use, for example 65001",
        ),
        (
            "{bgp: {asn: 23456}}",
            "spec.bgp.asn: \"23456\": AS 23456 is AS_TRANS, a placeholder (RFC 6793); write the AS number in use, for example 65001",
        ),
        (
            "{bgp: {asn: 65535}}",
            "spec.bgp.asn: \"65535\": the last AS number of its size is reserved (RFC 7300); write the AS number in use, for example 65001",
        ),
        (
            "{bgp: {asn: 4294967295}}",
            "spec.bgp.asn: \"4294967295\": the last AS number of its size is reserved (RFC 7300); write the AS number in use, for example 65001",
        ),
        (
            "{bgp: {asn: 4294967296}}",
            "spec.bgp.asn: \"4294967296\": out of range; write a number from 1 to 4294967295",
        ),
        (
            "{bgp: {asn: 1, routerId: 0.0.0.0}}",
            "spec.bgp.routerId: \"0.0.0.0\": zero is no identifier; leave it out to have one derived",
        ),
        (
            "{bgp: {asn: 1, routerId: a}}",
            "spec.bgp.routerId: \"a\": not a BGP identifier; write it like an IPv4 address, or leave it out",
        ),
        (
            "{bgp: {asn: 1, listenPort: 65536}}",
            "spec.bgp.listenPort: \"65536\": out of range; write a number from 0 to 65535",
        ),
        (
            "{bgp: {asn: 1, communities: ['1:65536']}}",
            "spec.bgp.communities[0]: \"1:65536\": both parts of a community are numbers from 0 to 65535; write for example 65001:100, or a large community 4200000000:1:2",
        ),
        (
            "{bgp: {asn: 1, communities: ['1:2:+3']}}",
            "spec.bgp.communities[0]: \"1:2:+3\": the three parts of a large community are numbers from 0 to 4294967295; write for example 65001:1:2",
        ),
        (
            "{bgp: {asn: 1, communities: ['65001:1', '65001:1']}}",
            "spec.bgp.communities[1]: \"65001:1\": it is listed twice; list it once",
        ),
        (
            "{bgp: {asn: 1, communities: [none]}}",
            "spec.bgp.communities[0]: \"none\": not a community; write for example 65001:100, 65001:1:2, or one of graceful-shutdown, blackhole, no-export, no-advertise, no-export-subconfed, no-peer",
        ),
    ];
    for (spec, wanted) in table {
        assert_eq!(problems(&with_spec(spec)), [wanted], "{spec}");
    }
}

#[test]
fn what_is_refused_in_a_peer() {
    let at = "spec.bgp.peers[0]";
    let table = [
        ("holdTime: 2s", ".holdTime: \"2s\": a hold time is 0 or at least 3s (RFC 4271 §4.2)"),
        ("holdTime: 2", ".holdTime: \"2\": a hold time is 0 or at least 3s (RFC 4271 §4.2)"),
        (
            "holdTime: 65536",
            ".holdTime: \"65536\": out of range; write a duration from 0s to 65535s",
        ),
        (
            "holdTime: -1",
            ".holdTime: \"-1\": not a duration; write for example 90s, 300ms, or whole seconds",
        ),
        (
            "holdTime: 3500ms",
            ".holdTime: \"3500ms\": the protocol counts in seconds; write whole seconds",
        ),
        (
            "keepalive: 31s",
            ".keepalive: \"31s\": longer than the hold time of 30s; write at most a third of it",
        ),
        (
            "holdTime: 0, keepalive: 3",
            ".keepalive: \"3\": with a holdTime of 0 there are no keepalives; leave it out",
        ),
        (
            "connectRetry: 0",
            ".connectRetry: \"0\": out of range; write a duration from 100ms to 3600s",
        ),
        (
            "gracefulRestart: {time: 4096s}",
            ".gracefulRestart.time: \"4096s\": out of range; write a duration from 1s to 4095s",
        ),
        (
            "bfd: {enabled: true, interval: 1ms}",
            ".bfd.interval: \"1ms\": out of range; write a duration from 10ms to 60s",
        ),
        (
            "bfd: {enabled: true, multiplier: 0}",
            ".bfd.multiplier: \"0\": out of range; write a number from 1 to 255",
        ),
        ("port: 0", ".port: \"0\": out of range; write a number from 1 to 65535"),
        (
            "ttlSecurity: true, multihop: 4",
            ".multihop: \"4\": it excludes ttlSecurity; keep one of the two",
        ),
        ("multihop: 256", ".multihop: \"256\": out of range; write a number from 1 to 255"),
        ("interface: eth0", ": it has an address and an interface; keep one of the two"),
        (
            "localAddress: 2001:db8::1",
            ".localAddress: \"2001:db8::1\": of another family than the peer's 192.0.2.1; write one of the same",
        ),
        (
            "families: []",
            ".families: it is empty; name a family, or leave it out to have what the node has",
        ),
        (
            "families: [ipv4]",
            ".families[0]: \"ipv4\": not a family; write ipv6-unicast or ipv4-unicast",
        ),
        (
            "families: [ipv4-unicast, ipv4-unicast]",
            ".families[1]: \"ipv4-unicast\": it is listed twice; list it once",
        ),
        (
            "password: {}",
            ".password: it names nothing; write secretRef or file, or leave password out",
        ),
        (
            "password: {secretRef: {name: a, key: b}, file: /c}",
            ".password: it has a secretRef and a file; keep one of the two",
        ),
        (
            "password: {secretRef: {name: a}}",
            ".password.secretRef.key: it is missing; write the Secret's name and the key in its data",
        ),
        ("password: {file: c}", ".password.file: not an absolute path; write it from the root"),
        (
            "import: {accept: [10.0.0.0/8 le 33]}",
            ".import.accept[0]: \"10.0.0.0/8 le 33\": lengths go from 8 (its own) to 32, and ge is at most le",
        ),
        (
            "import: {accept: [10.0.0.1/8]}",
            ".import.accept[0]: \"10.0.0.1/8\": bits are set beyond the prefix length; the network is 10.0.0.0/8",
        ),
        (
            "import: {accept: [10.0.0.0/8, 10.0.0.0/8]}",
            ".import.accept[1]: \"10.0.0.0/8\": it is listed twice; list it once",
        ),
        (
            "import: {maxPrefixes: 0}",
            ".import.maxPrefixes: \"0\": out of range; write a number from 1 to 4294967295",
        ),
        (
            "export: {localPref: -1}",
            ".export.localPref: \"-1\": out of range; write a number from 0 to 4294967295",
        ),
        (
            "export: {prepend: 33}",
            ".export.prepend: \"33\": out of range; write a number from 0 to 32",
        ),
        (
            "role: tor",
            ".role: \"tor\": not a role of RFC 9234; write provider, rs, rs-client, customer or peer",
        ),
        (
            "nextHop: {ipv6: 192.0.2.9}",
            ".nextHop.ipv6: \"192.0.2.9\": not a next hop here; write an IPv6 address",
        ),
        (
            "nextHop: {ipv6: 'fe80::1'}",
            ".nextHop.ipv6: \"fe80::1\": link-local (fe80::/10) cannot be used here; use unicast address space of your own",
        ),
    ];
    for (more, wanted) in table {
        let found =
            problems(&with_peer(&format!("name: t, address: 192.0.2.1, asn: 65000, {more}")));
        assert_eq!(found, [format!("{at}{wanted}")], "{more}");
    }
    let table = [
        (
            "name: t, asn: 1",
            ": it has no address; write address, or interface for an unnumbered peer",
        ),
        (
            "name: t, asn: 1, interface: a/b",
            ".interface: \"a/b\": not the name of an interface; write for example eth0",
        ),
        (
            "name: t, asn: 1, interface: a, localAddress: 10.0.0.1",
            ".localAddress: \"10.0.0.1\": an unnumbered session has link-local addresses; leave it out",
        ),
        (
            "address: 10.0.0.1, asn: 1",
            ".name: it is missing; give the peer a name, for example tor-a",
        ),
        (
            "name: t, address: 10.0.0.1",
            ".asn: it is missing; write an AS number, external or internal",
        ),
        (
            "name: t, address: 10.0.0.1, asn: ibgp",
            ".asn: \"ibgp\": write an AS number, external or internal",
        ),
        (
            "name: t, address: tor, asn: 1",
            ".address: \"tor\": not an IP address; write for example 2001:db8::1; for a peer on the link write interface",
        ),
        (
            "name: t, address: 'fe80::1', asn: 1",
            ".address: \"fe80::1\": link-local (fe80::/10) cannot be used here; use unicast address space of your own; for a peer on the link write interface",
        ),
    ];
    for (peer, wanted) in table {
        assert_eq!(problems(&with_peer(peer)), [format!("{at}{wanted}")], "{peer}");
    }
}

#[test]
fn peers_are_told_apart() {
    let peers = "name: t, address: 192.0.2.1, asn: 1}, {name: t, address: 192.0.2.1, asn: 1}, \
                 {name: u, interface: a, asn: 1}, {name: v, interface: a, asn: 1";
    assert_eq!(
        problems(&with_peer(peers)),
        [
            "spec.bgp.peers[1].name: \"t\": another peer has this name; names are unique",
            "spec.bgp.peers[1].address: \"192.0.2.1\": peer \"t\" has it already; one session each",
            "spec.bgp.peers[3].interface: \"a\": peer \"u\" has it already; one session each",
        ]
    );
}

#[test]
fn all_problems_at_once_in_order() {
    let yaml = "apiVersion: flock.fritzlab.net/v1\nkind: Config\nmetadata: {name: ''}\n\
                spec: {cidr4: [x], mtu: 1, bgp: {asn: 0, peers: [{asn: 0, port: 0}]}}";
    let found = problems(yaml);
    let paths: Vec<&str> = found.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(
        paths,
        [
            "apiVersion",
            "kind",
            "metadata.name",
            "spec.cidr4[0]",
            "spec.mtu",
            "spec.bgp.asn",
            "spec.bgp.peers[0].name",
            "spec.bgp.peers[0]",
            "spec.bgp.peers[0].asn",
            "spec.bgp.peers[0].port"
        ]
    );
}

/// People write a password where a reference belongs, misspell its key, or forget a quote. Whatever
/// is said about it ends in logs and tickets.
#[test]
fn a_password_is_never_repeated() {
    const SECRET: &str = "hunter2-SeCrEt";
    let peer = |text: &str| with_peer(&format!("name: a, {}", text.replace("SECRET", SECRET)));
    let spec = |text: &str| with_spec(&text.replace("SECRET", SECRET));
    let table = [
        (peer("password: SECRET"), "spec.bgp.peers[0].password: not a reference to a password"),
        (peer("password: 'SECRET'"), "never the password itself"),
        (peer("password: [SECRET]"), "never the password itself"),
        (peer("password: {SECRET: x}"), "spec.bgp.peers[0].password: not a reference"),
        (peer("password: {value: SECRET}"), "never the password itself"),
        (peer("password: {file: [SECRET]}"), "never the password itself"),
        (peer("password: {file: SECRET}"), "password.file: not an absolute path"),
        (peer("password: {secretRef: SECRET}"), "never the password itself"),
        (peer("password: {secretRef: {name: {a: SECRET}}}"), "never the password itself"),
        (peer("password: {secretRef: {value: SECRET}}"), "unknown field `value`"),
        (peer("passwd: SECRET"), "peers[0].passwd: unknown field `passwd`"),
        (peer("md5: {key: SECRET}"), "peers[0].md5: unknown field `md5`"),
        (spec("{bgp: {asn: 65001, password: SECRET}}"), "spec.bgp.password: unknown field"),
        (
            spec("{bgp: {asn: 65001, peers: {name: a, password: SECRET}}}"),
            "spec.bgp.peers: invalid type",
        ),
        (spec("{bgp: [{password: SECRET}]}"), "invalid type"),
        (spec("[{bgp: {peers: [{password: SECRET}]}}]"), "invalid type"),
        (peer("password: \"SECRET"), "not readable as YAML"),
        (peer("password: *SECRET"), "not readable as YAML"),
        (peer("password: @SECRET"), "not readable as YAML"),
        (peer("password: SECRET, password: SECRET"), "not readable as YAML"),
        (peer("password: !SECRET x"), "never the password itself"),
        (peer("password: |SECRET\n"), "not readable as YAML"),
        (peer("password: SECRET}: x"), ""),
    ];
    for (yaml, wanted) in table {
        let found = parse(&yaml).map(|config| panic!("{yaml}: {config:?}")).unwrap_err();
        let text = format!("{found}\n{found:?}");
        assert!(text.contains(wanted), "{yaml}\n  found {found}\n wanted {wanted}");
        assert!(!text.contains("hunter2") && !text.contains("SeCrEt"), "{yaml}\n  {text}");
    }
}
