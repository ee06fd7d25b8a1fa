//! What is made of what the API server tells: tables. The API server itself is in `make e2e`.

use std::collections::BTreeMap;

use flock_bgp::Secret;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::objects::{Node, Pod};
use super::picture::Picture;
use super::watch::Told;
use crate::source::{Behind, NodeState, SecretSeen, Standing};
use crate::store::{Allocation, Key};

fn picture() -> Picture {
    Picture::new("node-a", "flock-system", "https://api/", None)
}

fn config(generation: i64, spec: Value) -> DynamicObject {
    let metadata = json!({"name": "node-a", "uid": "u", "generation": generation});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn good(generation: i64) -> DynamicObject {
    config(generation, json!({"cidr4": ["10.0.0.0/24"]}))
}

fn node(cidrs: &[&str]) -> Node {
    let json = json!({"metadata": {"name": "node-a"}, "spec": {"podCIDRs": cidrs}});
    serde_json::from_value(json).unwrap()
}

fn pod(name: &str, uid: &str, ready: bool) -> Pod {
    let status = if ready { "True" } else { "False" };
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "d", "uid": uid},
        "spec": {},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
    }))
    .unwrap()
}

fn standing(picture: &Picture) -> String {
    match picture.world().node {
        NodeState::Unknown { reason } => format!("unknown: {reason}"),
        NodeState::Known { standing: Standing::InForce, config } => {
            format!("in force: {}", config.generation.unwrap_or_default())
        }
        NodeState::Known { standing: Standing::Refused(why), config } => {
            format!("refused, {} stays: {why}", config.generation.unwrap_or_default())
        }
        NodeState::Known { standing: Standing::Deleted, config } => {
            format!("deleted, {} stays", config.generation.unwrap_or_default())
        }
    }
}

fn names(picture: &Picture) -> Vec<String> {
    let mut names: Vec<String> =
        picture.world().pods.iter().map(|pod| pod.key.name.to_string()).collect();
    names.sort();
    names
}

#[test]
fn a_bad_config_and_a_deleted_one_leave_the_last_good_one() {
    let mut picture = picture();
    assert!(standing(&picture).starts_with("unknown: https://api/ has not answered"));
    picture.hear_config(Told::All(vec![]));
    assert!(standing(&picture).contains("no NodeConfig named node-a"), "{}", standing(&picture));
    let bad = || config(2, json!({"cidr4": ["10.0.0.0/33"]}));
    picture.hear_config(Told::Changed(bad()));
    assert!(standing(&picture).starts_with("unknown: NodeConfig node-a: spec.cidr4[0]"));
    picture.hear_config(Told::Changed(good(3)));
    assert_eq!(standing(&picture), "in force: 3");
    picture.hear_config(Told::Changed(bad()));
    assert!(standing(&picture).starts_with("refused, 3 stays: spec.cidr4[0]"));
    assert_eq!(picture.world().object.unwrap().generation, 2, "reports are about what is there");
    picture.hear_config(Told::Gone(good(3)));
    assert_eq!(standing(&picture), "deleted, 3 stays");
    picture.hear_config(Told::Changed(good(1)));
    assert_eq!(standing(&picture), "in force: 1");
    picture.hear_config(Told::All(vec![]));
    assert_eq!(standing(&picture), "deleted, 1 stays", "a list without it says the same");
}

#[test]
fn the_same_config_again_is_the_same_value() {
    let mut picture = picture();
    picture.hear_config(Told::All(vec![good(1)]));
    let before = picture.world().node.config().cloned().unwrap();
    picture.hear_config(Told::Changed(good(1)));
    picture.hear_config(Told::All(vec![good(1)]));
    let now = picture.world().node.config().cloned().unwrap();
    assert!(std::sync::Arc::ptr_eq(&before, &now), "our own status is no news to the speaker");
}

#[test]
fn without_networks_of_its_own_a_config_has_the_nodes() {
    let mut picture = picture();
    picture.hear_config(Told::All(vec![config(1, json!({}))]));
    assert!(standing(&picture).contains("the Node is not known yet"), "{}", standing(&picture));
    picture.hear_node(Told::All(vec![]));
    assert!(standing(&picture).starts_with("unknown"), "not registered yet");
    picture.hear_node(Told::Changed(node(&["10.1.0.0/24", "2001:db8::/64"])));
    let networks = |picture: &Picture| {
        let world = picture.world();
        let config = world.node.config().unwrap();
        (config.cidr4.len(), config.cidr6.len(), config.cidr4[0].to_string())
    };
    assert_eq!(networks(&picture), (1, 1, "10.1.0.0/24".to_owned()));
    picture.hear_config(Told::Changed(good(2)));
    assert_eq!(networks(&picture), (1, 0, "10.0.0.0/24".to_owned()), "its own come first");
    picture.hear_node(Told::Changed(node(&["10.9.0.0/24"])));
    assert_eq!(networks(&picture), (1, 0, "10.0.0.0/24".to_owned()));
    picture.hear_config(Told::Changed(config(3, json!({}))));
    assert_eq!(networks(&picture), (1, 0, "10.9.0.0/24".to_owned()));
    picture.hear_node(Told::Changed(node(&[])));
    assert_eq!(networks(&picture), (1, 0, "10.9.0.0/24".to_owned()), "a Node made anew");
    picture.hear_node(Told::Changed(node(&["10.9.0.0/99"])));
    assert!(standing(&picture).contains("of the Node: spec.podCIDRs[0]"), "{}", standing(&picture));
}

#[test]
fn networks_are_not_given_up_for_a_node_that_is_not_known() {
    let mut picture = picture();
    picture.hear_config(Told::All(vec![good(1)]));
    picture.hear_config(Told::Changed(config(2, json!({}))));
    assert_eq!(standing(&picture), "in force: 1");
    picture.hear_node(Told::All(vec![node(&["10.9.0.0/24"])]));
    assert_eq!(standing(&picture), "in force: 2");
}

#[test]
fn a_list_replaces_pods_as_a_whole_and_a_silence_takes_none() {
    let mut picture = picture();
    picture.hear_pods(Told::All(vec![pod("a", "1", true), pod("b", "2", true)]));
    picture.hear_pods(Told::Changed(pod("c", "3", true)));
    assert_eq!(names(&picture), ["a", "b", "c"]);
    picture.hear_pods(Told::Silent("connection refused".into()));
    picture.hear_pods(Told::Answers);
    assert_eq!(names(&picture), ["a", "b", "c"]);
    let before = picture.world().pods;
    picture.hear_pods(Told::All(vec![
        pod("c", "3", true),
        pod("a", "1", true),
        pod("b", "2", true),
    ]));
    assert!(picture.world().pods.differing(&before).is_empty(), "told again is no news");
    picture.hear_pods(Told::All(vec![pod("b", "2", false), pod("d", "4", true)]));
    assert_eq!(names(&picture), ["b", "d"]);
    picture.hear_pods(Told::Gone(pod("d", "4", true)));
    assert_eq!(names(&picture), ["b"]);
}

#[test]
fn a_name_that_is_another_pods_now_is_not_this_one() {
    let mut picture = picture();
    picture.hear_pods(Told::All(vec![pod("web-0", "new", true)]));
    let pods = picture.world().pods;
    let mut record = Allocation::new(
        &Key { container_id: "c".into(), ifname: "eth0".into() },
        jiff::Timestamp::UNIX_EPOCH,
    );
    (record.namespace, record.pod_name) = ("d".into(), "web-0".into());
    record.owner_uid = "old".into();
    assert_eq!(pods.behind(&record), Behind::Gone);
    record.owner_uid = "new".into();
    assert!(pods.behind(&record).is_ready());
    record.pod_name = "web-1".into();
    assert_eq!(pods.behind(&record), Behind::Gone, "every pod is known here");
}

#[test]
fn the_api_server_is_away_until_all_is_told_and_when_any_kind_is_silent() {
    let mut picture = picture();
    let away = |picture: &Picture| picture.world().away.map(|away| away.reason);
    assert!(away(&picture).is_some());
    picture.hear_config(Told::All(vec![good(1)]));
    picture.hear_pods(Told::All(vec![]));
    assert!(away(&picture).is_some(), "nothing is told of the Node");
    picture.hear_node(Told::All(vec![]));
    assert_eq!(away(&picture), None);
    picture.hear_pods(Told::Silent("refused".into()));
    picture.hear_config(Told::Silent("refused".into()));
    assert_eq!(away(&picture).as_deref(), Some("Pods: refused"), "what was silent first");
    picture.hear_pods(Told::All(vec![]));
    assert_eq!(away(&picture).as_deref(), Some("NodeConfigs: refused"));
    picture.hear_config(Told::Answers);
    assert_eq!(away(&picture), None);
    assert_eq!(standing(&picture), "in force: 1");
}

#[test]
fn a_restart_begins_with_what_was_known() {
    let mut before = picture();
    before.hear_config(Told::All(vec![config(4, json!({}))]));
    before.hear_node(Told::All(vec![node(&["10.1.0.0/24"])]));
    before.hear_pods(Told::All(vec![pod("a", "1", true)]));
    before.hear_config(Told::Changed(config(5, json!({"cidr4": ["x"]}))));
    let now = Picture::new("node-a", "flock-system", "https://api/", Some(before.past()));
    assert_eq!(standing(&now), "in force: 4", "the last good one");
    assert_eq!(now.world().node.config().unwrap().cidr4.len(), 1);
    assert_eq!(names(&now), ["a"]);
    assert!(now.world().away.is_some());
    before.hear_config(Told::Gone(good(5)));
    let mut now = Picture::new("node-a", "flock-system", "https://api/", Some(before.past()));
    assert_eq!(standing(&now), "deleted, 4 stays");
    // The Node is told of before NodeConfigs are, or these never are.
    now.hear_node(Told::All(vec![node(&["10.1.0.0/24"])]));
    assert_eq!(standing(&now), "deleted, 4 stays");
    assert!(now.past().deleted && now.past().good.is_some());
}

#[test]
fn passwords_are_followed_as_the_config_names_them() {
    let mut picture = picture();
    let with = |secrets: &[(&str, &str)]| {
        let peers: Vec<Value> = secrets
            .iter()
            .enumerate()
            .map(|(n, (name, key))| {
                json!({"name": format!("t{n}"), "address": format!("192.0.2.{}", n + 1), "asn": 65000,
                       "password": {"secretRef": {"name": name, "key": key}}})
            })
            .collect();
        config(1, json!({"cidr4": ["10.0.0.0/24"], "bgp": {"asn": 65001, "peers": peers}}))
    };
    picture.hear_config(Told::All(vec![with(&[("tor", "a"), ("tor", "b"), ("other", "a")])]));
    let wanted = picture.wanted_secrets();
    assert_eq!(wanted.keys().collect::<Vec<_>>(), ["other", "tor"]);
    assert_eq!(wanted["tor"].len(), 2);
    let keys = BTreeMap::from([("a".to_owned(), Secret(b"x".as_slice().into()))]);
    picture.hear_secret("tor", SecretSeen::There(keys));
    picture.hear_secret("tor", SecretSeen::Untold("refused".into()));
    assert!(picture.world().secrets.value("tor", "a").is_ok(), "kept while nobody answers");
    picture.hear_secret("other", SecretSeen::Untold("forbidden".into()));
    assert!(picture.world().secrets.value("other", "a").unwrap_err().contains("forbidden"));
    picture.hear_secret("tor", SecretSeen::Missing);
    assert!(picture.world().secrets.value("tor", "a").is_err(), "never the old one");
    picture.hear_config(Told::Changed(with(&[("other", "a")])));
    picture.wanted_secrets();
    assert!(!picture.world().secrets.seen().contains_key("tor"), "forgotten with its peer");
}
