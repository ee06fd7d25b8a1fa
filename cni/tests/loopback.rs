//! The same binary as the plugin `loopback`, in real network namespaces. Needs
//! root and iproute2, and fails without them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests: a failure should be loud"
)]

mod support;

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use support::Plugin;

/// A namespace for one test, removed with it.
struct Netns {
    name: String,
}

impl Netns {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("flock-cni-{}-{count}", std::process::id());
        ip(&["netns", "add", &name]);
        Self { name }
    }

    fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    fn lo(&self) -> String {
        ip(&["-n", &self.name, "-o", "link", "show", "lo"])
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().expect("iproute2 is needed");
    assert!(output.status.success(), "ip {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn loopback(verb: &str, netns: &str, version: &str) -> Plugin {
    let conf = json!({ "cniVersion": version, "name": "cni-loopback", "type": "loopback" });
    Plugin::new(verb, conf.to_string())
        .named("/opt/cni/bin/loopback")
        .set("CNI_IFNAME", "lo")
        .set("CNI_NETNS", netns)
}

#[test]
fn add_brings_lo_up_and_check_sees_it() {
    let netns = Netns::new();
    assert!(!netns.lo().contains(",UP"), "{}", netns.lo());
    let down = loopback("CHECK", &netns.path(), "0.4.0").run().assert_code(101);
    assert!(down["msg"].as_str().unwrap().contains("lo is down"), "{down}");

    let added = loopback("ADD", &netns.path(), "0.3.1").run();
    assert_eq!(added.status, 0, "{added:?}");
    assert!(netns.lo().contains(",UP"), "{}", netns.lo());
    let expected = json!({
        "cniVersion": "0.3.1",
        "interfaces": [{ "name": "lo", "mac": "00:00:00:00:00:00", "sandbox": netns.path() }],
        "ips": [
            { "version": "4", "interface": 0, "address": "127.0.0.1/8" },
            { "version": "6", "interface": 0, "address": "::1/128" },
        ],
        "dns": {},
    });
    assert_eq!(added.json(), expected);
    loopback("CHECK", &netns.path(), "0.4.0").run().assert_silent();
    loopback("ADD", &netns.path(), "1.1.0").run().json();
    loopback("DEL", &netns.path(), "1.0.0").run().assert_silent();
}

#[test]
fn an_anycast_address_on_lo_is_none_of_its_business() {
    let netns = Netns::new();
    ip(&["-n", &netns.name, "address", "add", "192.0.2.1/32", "dev", "lo"]);
    let added = loopback("ADD", &netns.path(), "1.0.0").run().json();
    let addresses: Vec<_> = added["ips"].as_array().unwrap().iter().collect();
    assert!(addresses.iter().all(|ip| ip["address"] != "192.0.2.1/32"), "{added}");
    assert!(addresses.iter().any(|ip| ip["address"] == "127.0.0.1/8"), "{added}");
}

#[test]
fn an_earlier_result_is_passed_on_as_it_is() {
    let netns = Netns::new();
    let earlier = json!({
        "cniVersion": "1.0.0",
        "interfaces": [{ "name": "eth0", "mac": "", "more": true }],
        "dns": {},
    });
    let conf = json!({
        "cniVersion": "1.0.0", "name": "n", "type": "loopback", "prevResult": earlier,
    });
    let added = Plugin::new("ADD", conf.to_string())
        .named("loopback")
        .set("CNI_NETNS", &netns.path())
        .run();
    assert_eq!(added.json(), earlier);
    assert!(netns.lo().contains(",UP"), "{}", netns.lo());
}

#[test]
fn del_succeeds_whatever_is_left() {
    loopback("DEL", "", "1.0.0").run().assert_silent();
    loopback("DEL", "", "1.0.0").unset("CNI_NETNS").run().assert_silent();
    loopback("DEL", "/run/netns/never-was", "1.0.0").run().assert_silent();
    for verb in ["GC", "STATUS"] {
        loopback(verb, "", "1.1.0").run().assert_silent();
    }
    assert_eq!(loopback("VERSION", "", "1.1.0").run().json()["cniVersion"], "1.1.0");
}

#[test]
fn what_is_no_namespace_is_named() {
    for netns in ["/run/netns/never-was", "/etc/hostname", "/", "/proc/self/ns/mnt"] {
        for verb in ["ADD", "CHECK"] {
            let error = loopback(verb, netns, "1.0.0").run().assert_code(4);
            assert!(error["msg"].as_str().unwrap().contains(netns), "{error}");
        }
    }
}
