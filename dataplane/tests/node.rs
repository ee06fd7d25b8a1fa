//! The node's switches: set where they differ, and told where they cannot be.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use flock_dataplane::{Dataplane, Error, NodeSettings};
use lab::on_node;

const WANTED: [&str; 4] = [
    "net/ipv6/conf/all/forwarding",
    "net/ipv6/fib_multipath_hash_policy",
    "net/ipv4/ip_forward",
    "net/ipv4/fib_multipath_hash_policy",
];

#[test]
fn the_nodes_own_switches_are_set() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        for _ in 0..2 {
            dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        }
        node.within(|| {
            for name in WANTED {
                let value = std::fs::read_to_string(format!("/proc/sys/{name}")).unwrap();
                assert_eq!(value.trim(), "1", "{name}");
            }
        });
        assert!(dataplane.rules_present().await.unwrap());
    });
}

fn tree(values: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, value) in values {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, value).unwrap();
    }
    root
}

#[test]
fn a_switch_that_cannot_be_set_is_named_with_its_remedy() {
    on_node(|_node| async move {
        let dataplane = Dataplane::start().unwrap();
        // Right already: nothing is written, so that read-only is no matter.
        let root = tree(&WANTED.map(|name| (name, "1\n")));
        let settings = NodeSettings { proc_sys: root.path().to_path_buf() };
        dataplane.prepare_node(&settings).await.unwrap();
        let kept = std::fs::read_to_string(root.path().join(WANTED[2])).unwrap();
        assert_eq!(kept, "1\n", "a right value was written again");
        // Wrong and read-only. Root writes through permissions, so the tree
        // is mounted read-only.
        let root = tree(&WANTED.map(|name| (name, "0\n")));
        let path = root.path().to_str().unwrap().to_owned();
        lab::run("mount", &["--bind", &path, &path]);
        lab::run("mount", &["-o", "remount,bind,ro", &path]);
        let settings = NodeSettings { proc_sys: root.path().to_path_buf() };
        let error = Dataplane::start().unwrap().prepare_node(&settings).await.unwrap_err();
        lab::run("umount", &[&path]);
        assert!(matches!(error, Error::Sysctl { .. }), "{error}");
        let text = error.to_string();
        for words in ["net.ipv6.conf.all.forwarding", "\"0\"", "\"1\"", "writable /proc/sys"] {
            assert!(text.contains(words), "{text}");
        }
    });
}

#[test]
fn an_advertised_default_route_survives_forwarding() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        node.ip("link add up.0 type veth peer name up1");
        node.ip("link add st0 type veth peer name st1");
        for link in ["up.0", "up1", "st0", "st1"] {
            node.ip(&format!("link set {link} up"));
        }
        node.ip("-6 route add default via fe80::99 dev up.0 proto ra metric 100");
        node.ip("-6 route add default via fe80::98 dev st0 proto static metric 200");
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        node.within(|| {
            let read = |name: &str| {
                std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/accept_ra"))
                    .unwrap()
            };
            assert_eq!(read("up.0").trim(), "2");
            assert_eq!(read("st0").trim(), "1");
        });
        assert_eq!(dataplane.default_uplink().await.unwrap().unwrap().name, "up.0");
    });
}

#[test]
fn our_chains_only_are_touched() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let settings = NodeSettings::default();
        node.nft("add table inet flock");
        node.nft("add chain inet flock filters { type filter hook forward priority 0; }");
        node.nft("add rule inet flock filters tcp dport 7 drop");
        // A chain of our name on a wrong hook, with a rule of somebody's.
        node.nft("add chain inet flock antispoof { type filter hook input priority 0; }");
        node.nft("add rule inet flock antispoof drop");
        node.nft("add table inet flockother");
        dataplane.prepare_node(&settings).await.unwrap();
        let rules = node.nft("list ruleset");
        assert!(rules.contains("tcp dport 7 drop") && rules.contains("flockother"), "{rules}");
        assert!(rules.contains("hook prerouting priority raw"), "{rules}");
        assert_eq!(rules.matches("fib saddr . iif oif").count(), 1, "{rules}");
        assert!(rules.contains("iifname . ip6 saddr @anycast6 return"), "{rules}");
        assert!(rules.contains("iifname . ip saddr @anycast4 return"), "{rules}");
        assert!(!rules.contains("hook input"), "{rules}");
    });
}
