//! The words on the socket and the result in every version, against files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests: a failure should be loud"
)]

use std::fs;
use std::path::Path;

use flock_cni::result::{CniResult, Dns, Interface, IpConfig, Route};
use flock_cni::{CniError, CniVersion, IpCidr, Request, Response};
use serde_json::Value;

fn golden(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)).unwrap()
}

fn value(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn request() -> Request {
    Request {
        op: "ADD".into(),
        container_id: "c0ffee".into(),
        netns: "/run/netns/a".into(),
        ifname: "eth0".into(),
        args: "IgnoreUnknown=1;K8S_POD_NAME=web-0".into(),
        path: "/opt/cni/bin".into(),
        stdin_data: br#"{"cniVersion":"1.0.0","name":"pods","type":"flock"}"#.to_vec(),
    }
}

fn result() -> CniResult {
    let interface = |name: &str, mac: &str, sandbox: Option<&str>| Interface {
        name: name.into(),
        mac: mac.into(),
        mtu: Some(9000),
        sandbox: sandbox.map(Into::into),
    };
    let ip = |address: &str, gateway: &str| IpConfig {
        address: address.parse().unwrap(),
        gateway: Some(gateway.parse().unwrap()),
        interface: Some(1),
    };
    CniResult {
        interfaces: vec![
            interface("flock0badcafe", "02:00:00:00:00:01", None),
            interface("eth0", "02:00:00:00:00:02", Some("/run/netns/a")),
        ],
        ips: vec![ip("2001:db8::7/128", "fe80::1"), ip("10.244.1.7/32", "169.254.1.1")],
        routes: vec![
            Route { dst: "::/0".parse().unwrap(), gw: Some("fe80::1".parse().unwrap()) },
            Route { dst: "169.254.1.1/32".parse().unwrap(), gw: None },
        ],
        dns: Dns {
            nameservers: vec!["10.96.0.10".into()],
            domain: Some("cluster.local".into()),
            search: vec!["svc.cluster.local".into()],
            options: vec!["ndots:5".into()],
        },
    }
}

#[test]
fn our_request_is_byte_for_byte_what_go_would_write() {
    assert_eq!(request().encode().unwrap(), golden("request-add.json"));
    assert_eq!(Request::decode(&golden("request-add.json")).unwrap(), request());
}

#[test]
fn a_go_plugins_requests_are_read() {
    let add = Request::decode(&golden("request-go-add.json")).unwrap();
    assert_eq!(add, Request { args: "IgnoreUnknown=1;NOTE=a<b&c".into(), ..request() });
    let del = Request::decode(&golden("request-go-del-nulls.json")).unwrap();
    assert_eq!(
        del,
        Request {
            op: "DEL".into(),
            container_id: "c0ffee".into(),
            ifname: "eth0".into(),
            ..Request::default()
        }
    );
}

#[test]
fn our_responses_are_as_written() {
    let attached = Response::attached(result());
    let bytes = attached.encode().unwrap();
    assert_eq!(bytes.last(), Some(&b'\n'));
    assert_eq!(value(&bytes), value(&golden("response-add.json")));
    assert_eq!(Response::decode(&golden("response-add.json")).unwrap(), attached);

    let error = CniError::new(7, r#"annotation flock.fritzlab.net/ipv6: "maybe" is not a boolean"#)
        .with_details("say true or false");
    let failed = Response::failed(error.clone());
    assert_eq!(failed.encode().unwrap(), golden("response-failed.json"));
    let read = Response::decode(&golden("response-failed.json")).unwrap();
    assert_eq!(read.into_outcome(), Err(error));
    assert_eq!(Response::done().encode().unwrap(), b"{}\n");
}

#[test]
fn a_go_agents_responses_are_read() {
    let added = Response::decode(&golden("response-go-add.json")).unwrap().into_outcome();
    let added = added.unwrap().expect("a result");
    assert_eq!(added.ips[0].address, IpCidr::host("10.244.1.7".parse().unwrap()));
    assert_eq!(added.ips[0].interface, Some(0));
    assert_eq!(added.routes, []);
    let failed = Response::decode(&golden("response-go-failed.json")).unwrap().into_outcome();
    assert_eq!(failed, Err(CniError::new(100, "pod default/web-0 not in cache")));
    for nothing in ["{}", r#"{"result":null,"error":"","code":0,"details":null}"#] {
        let read = Response::decode(nothing.as_bytes()).unwrap();
        assert_eq!(read.into_outcome(), Ok(None), "{nothing}");
    }
}

#[test]
fn an_error_without_words_is_still_an_error() {
    let told = Response::failed(CniError::new(11, "")).encode().unwrap();
    assert_eq!(Response::decode(&told).unwrap().into_outcome().unwrap_err().code, 11);
}

#[test]
fn what_is_no_request_says_decode() {
    for bytes in ["", "[]", "7", "{", r#"{"op":7}"#, r#"{"op":"ADD","stdin_data":"%%"}"#] {
        let error = Request::decode(bytes.as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("decode: "), "{bytes:?}: {error}");
    }
}

#[test]
fn the_result_in_every_version() {
    for version in CniVersion::ALL {
        let file = golden(&format!("result-{version}.json"));
        assert_eq!(result().to_value(version), value(&file), "{version}");
        assert_eq!(value(result().to_json(version).as_bytes()), value(&file), "{version}");
        let mut expected = result();
        if version < CniVersion::V1_1_0 {
            expected.interfaces.iter_mut().for_each(|interface| interface.mtu = None);
        }
        assert_eq!(CniResult::from_value(&value(&file)).unwrap(), expected, "{version}");
    }
}

#[test]
fn an_empty_result_keeps_only_what_the_spec_wants() {
    let json = CniResult::default().to_value(CniVersion::V0_4_0);
    assert_eq!(json, serde_json::json!({ "cniVersion": "0.4.0", "dns": {} }));
}
