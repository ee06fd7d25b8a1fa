//! The plugin against an agent that answers, refuses, hangs, dies or babbles.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests: a failure should be loud"
)]

mod support;

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use std::time::Duration;

use flock_cni::{NetnsId, Request, spool};
use serde_json::{Value, json};
use support::{Outcome, Place, Plugin, line, sample_answer};

/// What a machine under load may add to a time limit that is tested.
const GENEROUS: Duration = Duration::from_secs(10);

fn assert_spooled(place: &Place, outcome: &Outcome, case: &str) {
    assert_eq!((outcome.status, outcome.stdout.as_str()), (0, ""), "{case}: {outcome:?}");
    assert!(outcome.took < GENEROUS, "{case}: {outcome:?}");
    let contents = spool::read_all(&place.spool()).unwrap();
    assert_eq!(contents.entries.len(), 1, "{case}: {contents:?}");
    let entry = &contents.entries[0];
    assert_eq!((entry.container_id.as_str(), entry.ifname.as_str()), ("c0ffee", "eth0"), "{case}");
    // The child's own namespace is the test's, seen through another /proc entry.
    let here = NetnsId::of_path("/proc/self/ns/net".as_ref()).unwrap();
    assert_eq!(entry.netns, Some(here), "{case}");
    assert!(entry.spooled_at_unix_ms > 1_700_000_000_000, "{case}");
}

#[test]
fn the_agent_gets_the_whole_call() {
    let place = Place::new();
    let (tell, told) = mpsc::channel();
    let agent = place.agent(move |request, mut stream| {
        tell.send(request).unwrap();
        stream.write_all(&line(&sample_answer())).unwrap();
    });
    let args = "IgnoreUnknown=1;K8S_POD_NAME=web-0";
    let outcome = place.plugin("ADD", "1.0.0").set("CNI_ARGS", args).run();
    assert_eq!(outcome.status, 0, "{outcome:?}");
    agent.join().unwrap();
    let expected = Request {
        op: "ADD".into(),
        container_id: "c0ffee".into(),
        netns: "/proc/self/ns/net".into(),
        ifname: "eth0".into(),
        args: args.into(),
        path: "/opt/cni/bin".into(),
        stdin_data: place.conf("1.0.0").to_string().into_bytes(),
    };
    assert_eq!(told.recv().unwrap(), expected);
}

#[test]
fn add_prints_the_result_in_the_version_asked_for() {
    for version in ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let place = Place::new();
        let _agent = place.agent_saying(line(&sample_answer()));
        let outcome = place.plugin("ADD", version).run();
        assert_eq!(outcome.status, 0, "{outcome:?}");
        let mut expected = sample_answer()["result"].clone();
        expected["cniVersion"] = version.into();
        if version != "1.1.0" {
            for interface in expected["interfaces"].as_array_mut().unwrap() {
                interface.as_object_mut().unwrap().remove("mtu");
            }
        }
        if version < "1.0.0" {
            expected["ips"][0]["version"] = "6".into();
            expected["ips"][1]["version"] = "4".into();
        }
        assert_eq!(outcome.json(), expected, "{version}");
    }
}

#[test]
fn add_after_another_plugin_keeps_what_that_one_said() {
    let place = Place::new();
    let _agent = place.agent_saying(line(&sample_answer()));
    let mut conf = place.conf("0.4.0");
    conf["prevResult"] = json!({
        "cniVersion": "0.4.0",
        "interfaces": [{ "name": "dummy0", "mac": "", "pciID": "0000:00:1f.6" }],
        "ips": [{ "version": "4", "address": "192.0.2.1/24", "interface": 0 }],
        "dns": { "nameservers": ["192.0.2.53"] },
        "vendor": { "x": 1.5 },
    });
    let merged = Plugin::new("ADD", conf.to_string()).run();
    let merged = merged.json();
    assert_eq!(merged["interfaces"].as_array().unwrap().len(), 3);
    assert_eq!(merged["interfaces"][0], conf["prevResult"]["interfaces"][0]);
    assert_eq!(merged["interfaces"][2]["name"], "eth0");
    assert_eq!(merged["ips"][0], conf["prevResult"]["ips"][0]);
    assert_eq!(merged["ips"][1]["interface"], 2, "eth0 is the third now");
    assert_eq!(merged["ips"][1]["version"], "6");
    assert_eq!(merged["routes"], sample_answer()["result"]["routes"]);
    assert_eq!(merged["dns"], conf["prevResult"]["dns"]);
    assert_eq!(merged["vendor"], conf["prevResult"]["vendor"]);
    assert_eq!(merged["cniVersion"], "0.4.0");
}

#[test]
fn an_agents_error_is_passed_on_whole() {
    for verb in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
        let place = Place::new();
        let answer = json!({ "error": "it is broken", "code": 51, "details": "mend it" });
        let _agent = place.agent_saying(line(&answer));
        let mut conf = place.conf("1.1.0");
        conf["cni.dev/valid-attachments"] = json!([]);
        let error = Plugin::new(verb, conf.to_string()).run().assert_code(51);
        let expected = json!({
            "cniVersion": "1.1.0", "code": 51, "msg": "it is broken", "details": "mend it",
        });
        assert_eq!(error, expected, "{verb}");
        assert!(!place.spool().exists(), "{verb}");
    }
    let place = Place::new();
    let _agent = place.agent_saying(line(&json!({ "error": "a Go agent gives no code" })));
    place.plugin("ADD", "1.0.0").run().assert_code(100);
}

#[test]
fn success_of_all_but_add_is_silent() {
    for verb in ["DEL", "CHECK", "GC", "STATUS"] {
        let place = Place::new();
        let _agent = place.agent_saying("{}\n");
        let mut conf = place.conf("1.1.0");
        conf["cni.dev/valid-attachments"] = json!([{ "containerID": "a", "ifname": "eth0" }]);
        let plugin = Plugin::new(verb, conf.to_string());
        let plugin =
            if verb == "DEL" { plugin.unset("CNI_NETNS").unset("CNI_PATH") } else { plugin };
        plugin.run().assert_silent();
        assert!(!place.spool().exists(), "{verb}");
    }
    let place = Place::new();
    let _agent = place.agent_saying("{}\n");
    place.plugin("ADD", "1.0.0").run().assert_code(100);
}

#[test]
fn check_compares_the_record_with_what_the_runtime_kept() {
    let check = |last: Value| {
        let place = Place::new();
        let _agent = place.agent_saying(line(&sample_answer()));
        let mut conf = place.conf("1.0.0");
        conf["prevResult"] = last;
        Plugin::new("CHECK", conf.to_string()).run()
    };
    let mut tuned = sample_answer()["result"].clone();
    tuned["interfaces"][1]["mac"] = "02:00:00:00:00:99".into();
    tuned["routes"] = json!([]);
    check(tuned).assert_silent();
    let mut other = sample_answer()["result"].clone();
    other["ips"][1]["address"] = "10.244.1.8/32".into();
    let error = check(other).assert_code(101);
    assert!(error["msg"].as_str().unwrap().contains("10.244.1.7/32"), "{error}");
}

#[test]
fn without_an_agent_every_operation_says_so_at_once() {
    for (verb, code) in [("ADD", 11), ("CHECK", 11), ("GC", 11), ("STATUS", 50)] {
        let place = Place::new();
        let mut conf = place.conf("1.1.0");
        conf["cni.dev/valid-attachments"] = json!([]);
        let missing = Plugin::new(verb, conf.to_string()).run();
        drop(UnixListener::bind(place.socket()).unwrap());
        let refused = Plugin::new(verb, conf.to_string()).run();
        for outcome in [missing, refused] {
            let error = outcome.assert_code(code);
            let msg = error["msg"].as_str().unwrap();
            assert!(msg.contains(place.socket().to_str().unwrap()), "{msg}");
            assert!(error["details"].as_str().unwrap().contains("flock-agent"), "{error}");
            assert!(outcome.took < Duration::from_secs(5), "{verb}: {outcome:?}");
        }
        assert!(!place.spool().exists(), "{verb}");
    }
}

#[test]
fn an_agent_that_dies_or_babbles_fails_add() {
    let cases: [(&str, Vec<u8>, u64); 6] = [
        ("closed without a word", Vec::new(), 11),
        ("closed within a word", br#"{"result":{"#.to_vec(), 11),
        ("not JSON", b"HTTP/1.1 400 Bad Request\r\n".to_vec(), 6),
        ("not an answer", b"[]\n".to_vec(), 6),
        ("a result of another shape", b"{\"result\":{\"ips\":7}}\n".to_vec(), 6),
        ("two MiB", vec![b'x'; 2 << 20], 6),
    ];
    for (case, answer, code) in cases {
        let place = Place::new();
        let _agent = place.agent_saying(answer);
        let outcome = place.plugin("ADD", "1.0.0").run();
        assert_eq!(outcome.json()["code"], code, "{case}: {outcome:?}");
        outcome.assert_code(code);
    }
}

#[test]
fn del_is_spooled_whenever_no_agent_answers() {
    let cases: [(&str, Option<Vec<u8>>); 6] = [
        ("no socket", None),
        ("closed without a word", Some(Vec::new())),
        ("closed within a word", Some(b"{".to_vec())),
        ("babble", Some(b"HTTP/1.1 400 Bad Request\r\n".to_vec())),
        ("two MiB", Some(vec![b'x'; 2 << 20])),
        ("try again later", Some(b"{\"error\":\"starting\",\"code\":11}\n".to_vec())),
    ];
    for (case, answer) in cases {
        let place = Place::new();
        let _agent = answer.map(|answer| place.agent_saying(answer));
        let outcome = place.plugin("DEL", "1.0.0").run();
        assert_spooled(&place, &outcome, case);
    }
    let place = Place::new();
    drop(UnixListener::bind(place.socket()).unwrap());
    assert_spooled(&place, &place.plugin("DEL", "1.0.0").run(), "nobody listens");
    let place = Place::new();
    fs::write(place.socket(), "not a socket").unwrap();
    assert_spooled(&place, &place.plugin("DEL", "1.0.0").run(), "not a socket");
}

#[test]
fn del_does_not_wait_for_an_agent_that_hangs() {
    let place = Place::new();
    let (let_go, hold) = mpsc::channel::<()>();
    let agent = place.agent(move |_, stream| {
        let _ = hold.recv_timeout(Duration::from_secs(60));
        drop(stream);
    });
    let outcome = place.plugin("DEL", "1.0.0").run();
    assert!(outcome.took >= Duration::from_millis(900), "it must get its chance: {outcome:?}");
    assert_spooled(&place, &outcome, "hangs");
    let_go.send(()).unwrap();
    agent.join().unwrap();
}

#[test]
fn del_does_not_wait_for_a_full_backlog() {
    let place = Place::new();
    let listener = UnixListener::bind(place.socket()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _waiting = std::os::unix::net::UnixStream::connect(place.socket()).unwrap();
    assert_spooled(&place, &place.plugin("DEL", "1.0.0").run(), "backlog");
    let add = place.plugin("ADD", "1.0.0").run();
    add.assert_code(11);
    assert!(add.took < GENEROUS, "{add:?}");
}

#[test]
fn a_trickling_agent_does_not_stretch_the_limit() {
    let place = Place::new();
    let _agent = place.agent(|_, mut stream| {
        // Longer than the test allows, and not for ever.
        for _ in 0..150 {
            if stream.write_all(b" ").is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    assert_spooled(&place, &place.plugin("DEL", "1.0.0").run(), "trickle");
}

#[test]
fn del_twice_is_one_entry_with_the_later_time() {
    let place = Place::new();
    place.plugin("DEL", "1.0.0").run().assert_silent();
    let first = spool::read_all(&place.spool()).unwrap().entries.remove(0);
    std::thread::sleep(Duration::from_millis(5));
    // As containerd does: the second DEL comes when the namespace is gone.
    place.plugin("DEL", "1.0.0").unset("CNI_NETNS").run().assert_silent();
    let mut second = spool::read_all(&place.spool()).unwrap().entries;
    assert_eq!(second.len(), 1);
    assert!(second.remove(0).spooled_at_unix_ms > first.spooled_at_unix_ms);
}

#[test]
fn a_spool_that_cannot_be_written_is_named() {
    let place = Place::new();
    fs::write(place.path().join("state"), "a file in the way").unwrap();
    let error = place.plugin("DEL", "1.0.0").run().assert_code(5);
    assert!(error["msg"].as_str().unwrap().contains(place.spool().to_str().unwrap()), "{error}");
    assert!(error["details"].as_str().unwrap().contains("flock.sock"), "{error}");
}
