//! What a runtime, an operator or an accident may feed the plugin. Each case
//! must give its exact code in JSON on standard output, and never reach an agent.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests: a failure should be loud"
)]

mod support;

use serde_json::{Value, json};
use support::{Place, Plugin};

const CONF: &str = r#"{"cniVersion":"1.1.0","name":"pods","type":"flock","socket":"/nowhere/s"}"#;

fn conf(changes: Value) -> String {
    let mut conf: Value = serde_json::from_str(CONF).unwrap();
    for (key, value) in changes.as_object().unwrap() {
        conf[key] = value.clone();
    }
    conf.to_string()
}

#[test]
fn no_environment_at_all() {
    let outcome = Plugin::new("", "").unset("CNI_COMMAND").run();
    let error = outcome.assert_code(4);
    assert!(error["msg"].as_str().unwrap().contains("CNI_COMMAND"));
}

#[test]
fn each_missing_variable_is_named() {
    let cases = [
        ("ADD", "CNI_CONTAINERID"),
        ("ADD", "CNI_NETNS"),
        ("ADD", "CNI_IFNAME"),
        ("DEL", "CNI_CONTAINERID"),
        ("DEL", "CNI_IFNAME"),
        ("CHECK", "CNI_CONTAINERID"),
        ("CHECK", "CNI_NETNS"),
        ("CHECK", "CNI_IFNAME"),
        ("GC", "CNI_PATH"),
    ];
    for (verb, variable) in cases {
        for plugin in
            [Plugin::new(verb, CONF).unset(variable), Plugin::new(verb, CONF).set(variable, "")]
        {
            let error = plugin.run().assert_code(4);
            let msg = error["msg"].as_str().unwrap();
            assert!(msg.contains(variable) && msg.contains(verb), "{verb} {variable}: {msg}");
        }
    }
    let all = Plugin::new("ADD", CONF).unset("CNI_NETNS").unset("CNI_IFNAME").run().assert_code(4);
    assert!(all["msg"].as_str().unwrap().contains("CNI_NETNS, CNI_IFNAME"));
}

#[test]
fn variables_that_make_no_sense() {
    let bad_ids = ["../../etc/passwd", ".hidden", "-x", "a/b", "a:b", "a b", "a\nb", "é", "_a"];
    let bad_names =
        ["..", ".", "../eth0", "a/b", "a:b", "a b", "a\tb", "sixteen-bytes-xx", "a\u{2003}b"];
    for verb in ["ADD", "DEL", "CHECK"] {
        for id in bad_ids {
            let error = Plugin::new(verb, CONF).set("CNI_CONTAINERID", id).run().assert_code(4);
            assert!(error["msg"].as_str().unwrap().contains("CNI_CONTAINERID"), "{verb} {id:?}");
        }
        for name in bad_names {
            let error = Plugin::new(verb, CONF).set("CNI_IFNAME", name).run().assert_code(4);
            assert!(error["msg"].as_str().unwrap().contains("CNI_IFNAME"), "{verb} {name:?}");
        }
    }
    for verb in ["add", "UPDATE", "ADD ", "VERSION\n"] {
        Plugin::new(verb, CONF).run().assert_code(4);
    }
}

#[test]
fn a_container_id_is_bounded() {
    let place = Place::new();
    for verb in ["ADD", "DEL", "CHECK"] {
        let longer = place.plugin(verb, "1.0.0").set("CNI_CONTAINERID", &"x".repeat(1025)).run();
        let error = longer.assert_code(4);
        assert!(error["msg"].as_str().unwrap().len() < 200, "{error}");
        let details = error["details"].as_str().unwrap();
        assert!(details.contains("1025") && details.contains("1024"), "{details}");
    }
    assert!(!place.spool().exists());
    place.plugin("DEL", "1.0.0").set("CNI_CONTAINERID", &"x".repeat(1024)).run().assert_silent();
    assert_eq!(std::fs::read_dir(place.spool()).unwrap().count(), 1);
}

#[test]
fn standard_input_that_is_no_config() {
    let zeroes = vec![0_u8; 4096];
    let deep = "[".repeat(100_000);
    let cases: Vec<(Vec<u8>, u64)> = vec![
        (b"".to_vec(), 6),
        (b"{".to_vec(), 6),
        (b"[]".to_vec(), 6),
        (b"null".to_vec(), 6),
        (b"\xff\xfe\x00{}".to_vec(), 6),
        (zeroes, 6),
        (deep.into_bytes(), 6),
        (b"{} {}".to_vec(), 6),
        (conf(json!({ "name": 7 })).into_bytes(), 6),
        (conf(json!({ "cniVersion": 1.1 })).into_bytes(), 6),
        (conf(json!({ "dns": [] })).into_bytes(), 6),
        (conf(json!({ "dns": { "nameservers": "x" } })).into_bytes(), 6),
        (conf(json!({ "socket": {} })).into_bytes(), 6),
        (conf(json!({ "name": "" })).into_bytes(), 7),
        (conf(json!({ "name": "../x" })).into_bytes(), 7),
        (conf(json!({ "socket": "relative.sock" })).into_bytes(), 7),
        (conf(json!({ "spool": "../spool" })).into_bytes(), 7),
        (conf(json!({ "spool": "/a\u{0}b" })).into_bytes(), 7),
        (conf(json!({ "cni.dev/valid-attachments": 7 })).into_bytes(), 7),
        (conf(json!({ "cni.dev/valid-attachments": [{ "ifname": "eth0" }] })).into_bytes(), 7),
        (conf(json!({ "cniVersion": "" })).into_bytes(), 1),
        (conf(json!({ "cniVersion": null })).into_bytes(), 1),
        (conf(json!({ "cniVersion": "0.2.0" })).into_bytes(), 1),
        (conf(json!({ "cniVersion": "2.0.0" })).into_bytes(), 1),
        (conf(json!({ "cniVersion": "1.1.0 " })).into_bytes(), 1),
    ];
    for (stdin, code) in cases {
        for verb in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
            let shown = String::from_utf8_lossy(&stdin).chars().take(120).collect::<String>();
            let outcome = Plugin::new(verb, stdin.clone()).run();
            assert_eq!(outcome.json()["code"], code, "{verb} {shown:?} {outcome:?}");
            outcome.assert_code(code);
        }
    }
}

#[test]
fn an_error_is_written_in_the_configs_own_version() {
    let refused = Plugin::new("ADD", conf(json!({ "cniVersion": "0.2.0" }))).run();
    assert_eq!(refused.assert_code(1)["cniVersion"], "0.2.0");
    let misnamed = Plugin::new("ADD", conf(json!({ "cniVersion": "0.4.0", "name": "" }))).run();
    assert_eq!(misnamed.assert_code(7)["cniVersion"], "0.4.0");
    let silly = Plugin::new("ADD", conf(json!({ "cniVersion": "9".repeat(500) }))).run();
    assert_eq!(silly.assert_code(1)["cniVersion"], "1.0.0");
}

#[test]
fn too_much_standard_input() {
    let two_mib = conf(json!({ "padding": "x".repeat(2 << 20) }));
    Plugin::new("ADD", two_mib).run().assert_code(7);
    // Fits the plugin's own limit, and not into one message with its base64.
    let one_mib = conf(json!({ "padding": "x".repeat((1 << 20) - 200) }));
    Plugin::new("ADD", one_mib).run().assert_code(7);
}

#[test]
fn operations_that_the_configs_version_lacks() {
    let cases = [("CHECK", "0.3.1"), ("GC", "1.0.0"), ("STATUS", "1.0.0"), ("STATUS", "0.4.0")];
    for (verb, version) in cases {
        let outcome = Plugin::new(verb, conf(json!({ "cniVersion": version }))).run();
        let error = outcome.assert_code(1);
        assert!(error["msg"].as_str().unwrap().contains(verb), "{verb} {version}");
    }
}

#[test]
fn gc_without_a_list_detaches_nothing() {
    for changes in [json!({}), json!({ "cni.dev/valid-attachments": null })] {
        let error = Plugin::new("GC", conf(changes)).run().assert_code(7);
        assert!(error["msg"].as_str().unwrap().contains("cni.dev/valid-attachments"));
    }
}

#[test]
fn a_bad_earlier_result_is_refused_before_the_agent_is_asked() {
    for earlier in [json!(7), json!([]), json!({ "ips": [{ "address": "10.0.0.1" }] })] {
        let stdin = conf(json!({ "prevResult": earlier }));
        // 7 and not 11: the socket, which nobody serves, was not tried.
        Plugin::new("ADD", stdin).run().assert_code(7);
    }
}

#[test]
fn version_needs_nothing() {
    let outcome = Plugin::new("VERSION", "").unset("CNI_CONTAINERID").unset("CNI_PATH").run();
    assert_eq!(outcome.status, 0);
    let versions = json!(["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]);
    let expected = json!({ "cniVersion": "1.1.0", "supportedVersions": versions });
    assert_eq!(outcome.json(), expected);
}

#[test]
fn people_get_an_explanation() {
    for argument in ["--help", "--version"] {
        let outcome = Plugin::new("", "").unset("CNI_COMMAND").arg(argument).run();
        assert_eq!(outcome.status, 0);
        assert!(outcome.stdout.contains("flock") && outcome.stdout.contains("0.1"), "{outcome:?}");
    }
}

/// The agent knows our own `loopback` of an older version by these words, and replaces it.
#[test]
fn the_binary_carries_the_mark_that_it_is_ours() {
    let mark = b"The CNI plugin of flock";
    let binary = std::fs::read(env!("CARGO_BIN_EXE_flock")).unwrap();
    assert!(binary.windows(mark.len()).any(|part| part == mark));
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert_eq!(Plugin::new("VERSION", "").stdout(full()), 1);
    assert_eq!(Plugin::new("ADD", "{").stdout(full()), 1);
    let place = Place::new();
    let _agent = place.agent_saying(support::line(&support::sample_answer()));
    assert_eq!(place.plugin("ADD", "1.0.0").stdout(full()), 1);
}
