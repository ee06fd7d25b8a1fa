//! Whatever bytes come: an answer or an error, never a panic; and what was
//! written is what is read.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests: a failure should be loud"
)]

use std::net::IpAddr;

use flock_cni::args::PodArgs;
use flock_cni::netconf::stated_version;
use flock_cni::result::{CniResult, Dns, Interface, IpConfig, Route};
use flock_cni::{CniVersion, IpCidr, NetConf, Request, Response};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

/// JSON that is nearly right, which reaches further than random bytes do.
fn nearly_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 4.0)),
        "[0-9a-f:./]{0,20}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        prop_oneof![Just("1.1.0"), Just("0.4.0"), Just("pods"), Just("/run/x")]
            .prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("cniVersion".to_owned()),
        Just("name".to_owned()),
        Just("prevResult".to_owned()),
        Just("cni.dev/valid-attachments".to_owned()),
        Just("containerID".to_owned()),
        Just("result".to_owned()),
        Just("error".to_owned()),
        Just("code".to_owned()),
        Just("stdin_data".to_owned()),
        Just("op".to_owned()),
        Just("interfaces".to_owned()),
        Just("ips".to_owned()),
        Just("address".to_owned()),
        Just("interface".to_owned()),
        Just("routes".to_owned()),
        Just("dst".to_owned()),
        Just("dns".to_owned()),
        Just("search".to_owned()),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((key.clone(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn cidr() -> impl Strategy<Value = IpCidr> {
    (any::<IpAddr>(), any::<u8>()).prop_map(|(address, length)| {
        let width = if address.is_ipv4() { 33 } else { 129 };
        IpCidr::new(address, (u32::from(length) % width).try_into().unwrap()).unwrap()
    })
}

fn result() -> impl Strategy<Value = CniResult> {
    let interface = (any::<String>(), any::<String>(), option::of(1..=u32::MAX), option::of(".+"))
        .prop_map(|(name, mac, mtu, sandbox)| Interface { name, mac, mtu, sandbox });
    let ip = (cidr(), any::<Option<IpAddr>>(), any::<Option<u32>>())
        .prop_map(|(address, gateway, interface)| IpConfig { address, gateway, interface });
    let route = (cidr(), any::<Option<IpAddr>>()).prop_map(|(dst, gw)| Route { dst, gw });
    let texts = || vec(any::<String>(), 0..3);
    let dns = (texts(), option::of(".+"), texts(), texts()).prop_map(
        |(nameservers, domain, search, options)| Dns { nameservers, domain, search, options },
    );
    (vec(interface, 0..4), vec(ip, 0..4), vec(route, 0..4), dns)
        .prop_map(|(interfaces, ips, routes, dns)| CniResult { interfaces, ips, routes, dns })
}

fn read_with_everything(bytes: &[u8]) {
    let _ = Request::decode(bytes);
    let _ = Response::decode(bytes).map(Response::into_outcome);
    let _ = NetConf::parse(bytes);
    let _ = stated_version(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = PodArgs::parse(text);
        let _ = text.parse::<IpCidr>();
        let _ = CniVersion::parse(Some(text));
    }
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        let _ = CniResult::from_value(&value);
        let _ = CniResult::default().append_to(&value, CniVersion::V0_4_0);
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..300)) {
        read_with_everything(&bytes);
    }

    #[test]
    fn anything_nearly_right(value in nearly_json()) {
        read_with_everything(value.to_string().as_bytes());
        let answer = json!({ "result": value, "error": value, "code": value });
        read_with_everything(answer.to_string().as_bytes());
        let conf = json!({ "cniVersion": "1.1.0", "name": "pods", "prevResult": value });
        let conf = NetConf::parse(conf.to_string().as_bytes()).unwrap();
        prop_assert_eq!(conf.prev_result.unwrap_or(Value::Null), value);
    }

    #[test]
    fn a_result_survives_every_version(result in result()) {
        for version in CniVersion::ALL {
            let mut expected = result.clone();
            if version < CniVersion::V1_1_0 {
                expected.interfaces.iter_mut().for_each(|interface| interface.mtu = None);
            }
            let json: Value = serde_json::from_str(&result.to_json(version)).unwrap();
            prop_assert_eq!(CniResult::from_value(&json).unwrap(), expected);
        }
        let sent = Response::attached(result.clone()).encode().unwrap();
        prop_assert_eq!(sent.iter().filter(|byte| **byte == b'\n').count(), 1);
        let received = Response::decode(&sent).unwrap();
        prop_assert_eq!(received.into_outcome(), Ok(Some(result)));
    }

    #[test]
    fn appending_keeps_both(first in result(), second in result()) {
        let version = CniVersion::V1_1_0;
        let both = second.append_to(&first.to_value(version), version).unwrap();
        let both = CniResult::from_value(&both).unwrap();
        let split = first.interfaces.len();
        let before = u32::try_from(split).unwrap();
        prop_assert_eq!(&both.interfaces[..split], &first.interfaces);
        prop_assert_eq!(&both.interfaces[split..], &second.interfaces);
        prop_assert_eq!(both.ips.len(), first.ips.len() + second.ips.len());
        for (ours, then) in second.ips.iter().zip(&both.ips[first.ips.len()..]) {
            let shifted = ours.interface.map(|at| at.saturating_add(before));
            prop_assert_eq!(then.interface, shifted);
            prop_assert_eq!(then.address, ours.address);
        }
        prop_assert!(second.missing_from(&both).is_empty());
    }

    #[test]
    fn a_request_survives(texts in vec(any::<String>(), 6), stdin_data in vec(any::<u8>(), 0..99)) {
        let mut texts = texts.into_iter();
        let mut next = || texts.next().unwrap();
        let request = Request {
            op: next(),
            container_id: next(),
            netns: next(),
            ifname: next(),
            args: next(),
            path: next(),
            stdin_data,
        };
        prop_assert_eq!(Request::decode(&request.encode().unwrap()).unwrap(), request);
    }
}

#[test]
fn pod_args_by_the_book() {
    let args = [
        "IgnoreUnknown=1",
        "K8S_POD_NAMESPACE=shop",
        "K8S_POD_NAME=web-0",
        "K8S_POD_UID=u=1",
        "K8S_POD_INFRA_CONTAINER_ID=c0ffee",
        "OTHER=1",
        "",
    ];
    let parsed = PodArgs::parse(&args.join(";")).unwrap();
    assert_eq!(parsed.namespace.as_deref(), Some("shop"));
    assert_eq!(parsed.name.as_deref(), Some("web-0"));
    assert_eq!(parsed.uid.as_deref(), Some("u=1"));
    assert_eq!(parsed.infra_container_id.as_deref(), Some("c0ffee"));
    assert_eq!(PodArgs::parse("").unwrap(), PodArgs::default());
    assert_eq!(PodArgs::parse("K8S_POD_NAME=").unwrap().name, None);
    for (bad, named) in [
        ("OTHER=1", "OTHER"),
        ("IgnoreUnknown=false;OTHER=1", "OTHER"),
        ("IgnoreUnknown=maybe", "maybe"),
        ("IgnoreUnknown=1;nonsense", "nonsense"),
    ] {
        let error = PodArgs::parse(bad).unwrap_err();
        assert_eq!(error.code, 4);
        assert!(error.msg.contains(named), "{bad}: {error}");
    }
}

#[test]
fn cidrs_by_the_book() {
    for good in ["10.0.0.7/32", "10.0.0.7/8", "0.0.0.0/0", "2001:db8::7/128", "::/0"] {
        assert_eq!(good.parse::<IpCidr>().unwrap().to_string(), good);
    }
    for bad in ["", "10.0.0.7", "10.0.0.7/33", "::/129", "10.0.0.7/+8", "10.0.0.7/", "/8", "::/-1"]
    {
        assert!(bad.parse::<IpCidr>().is_err(), "{bad}");
    }
}
