//! The network config: defaults, what is ignored, and GC's list under its two names.
#![allow(clippy::unwrap_used, reason = "tests: a failure should be loud")]

use std::path::Path;

use flock_cni::netconf::{NetConf, ValidAttachment};
use flock_cni::{CniVersion, names};
use serde_json::{Value, json};

fn parse(changes: Value) -> NetConf {
    let mut conf = json!({ "cniVersion": "1.1.0", "name": "pods", "type": "flock" });
    conf.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    NetConf::parse(conf.to_string().as_bytes()).unwrap()
}

#[test]
fn defaults_and_what_is_none_of_our_business() {
    let conf = parse(json!({
        "runtimeConfig": { "portMappings": [] },
        "args": { "cni": {} },
        "capabilities": { "portMappings": true },
        "ipam": {},
        "dns": { "nameservers": ["10.96.0.10"], "search": null },
        "prevResult": null,
        "socket": "",
    }));
    assert_eq!(conf.cni_version, CniVersion::V1_1_0);
    assert_eq!((conf.name.as_str(), conf.plugin.as_str()), ("pods", "flock"));
    assert_eq!(conf.socket, Path::new("/run/flock/flock.sock"));
    assert_eq!(conf.spool, Path::new("/var/lib/flock/spool"));
    assert_eq!(conf.dns.nameservers, ["10.96.0.10"]);
    assert_eq!((conf.prev_result, conf.valid_attachments), (None, None));
}

#[test]
fn the_list_for_gc_has_two_names_and_none_is_not_empty() {
    let one = json!([{ "containerID": "a", "ifname": "eth0" }]);
    let expected = ValidAttachment { container_id: "a".into(), ifname: "eth0".into() };
    for changes in [
        json!({ "cni.dev/valid-attachments": one }),
        json!({ "cni.dev/attachments": one }),
        json!({ "cni.dev/valid-attachments": one, "cni.dev/attachments": [] }),
        json!({ "cni.dev/valid-attachments": null, "cni.dev/attachments": one }),
    ] {
        let conf = parse(changes.clone());
        assert_eq!(
            conf.required_valid_attachments().unwrap(),
            std::slice::from_ref(&expected),
            "{changes}"
        );
    }
    let empty = parse(json!({ "cni.dev/valid-attachments": [] }));
    assert_eq!(empty.required_valid_attachments().unwrap(), []);
    assert_eq!(parse(json!({})).required_valid_attachments().unwrap_err().code, 7);
}

#[test]
fn names_at_their_limits() {
    for good in ["a", "0", "A_b.c-d", &"x".repeat(300)] {
        assert!(names::check_container_id(good).is_ok(), "{good}");
        assert!(names::check_network_name(good).is_ok(), "{good}");
    }
    for good in ["a", "fifteen-bytes-x", "...", "eth0.100", "-", "ünï"] {
        assert!(names::check_ifname(good).is_ok(), "{good}");
    }
    for bad in ["", "sixteen-bytes-xx", "a\0", "a\u{a0}"] {
        assert_eq!(names::check_ifname(bad).unwrap_err().code, 4, "{bad:?}");
    }
}
