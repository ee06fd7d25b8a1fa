//! Tables for the decisions about node routes.

use std::sync::Arc;

use super::*;
use crate::source::PodKey;
use crate::store::{Allocation, Key};

fn attachment(n: u8, phase: Phase) -> Attachment {
    let key = Key { container_id: format!("c{n}"), ifname: "eth0".into() };
    let mut record = Allocation::new(&key, jiff::Timestamp::UNIX_EPOCH);
    record.namespace = "d".into();
    record.pod_name = format!("p{n}");
    record.ip4 = Some([10, 0, 0, n].into());
    record.host_ifname = Some(format!("flock{n:08x}"));
    record.anycast = vec!["192.0.2.1".parse().unwrap()];
    Attachment { record, phase }
}

fn facts(n: u8, ready: bool, terminating: bool) -> (PodKey, Arc<PodFacts>) {
    let key = PodKey { namespace: "d".into(), name: format!("p{n}") };
    let facts = PodFacts {
        key: key.clone(),
        uid: String::new(),
        annotations: BTreeMap::new(),
        app: String::new(),
        image: String::new(),
        ready,
        terminating,
    };
    (key, Arc::new(facts))
}

fn hops(routes: &Routes) -> Vec<String> {
    routes
        .values()
        .flat_map(|route| match route {
            NodeRoute::Anycast { next_hops, .. } => {
                next_hops.iter().map(|hop| hop.via.to_string()).collect()
            }
            NodeRoute::Blackhole { .. } => vec!["blackhole".to_owned()],
        })
        .collect()
}

#[test]
fn when_an_anycast_address_is_served() {
    for (phase, ready, terminating, served) in [
        (Phase::Serving, true, false, true),
        (Phase::Serving, false, false, false),
        (Phase::Serving, true, true, false),
        (Phase::Wiring, true, false, false),
        (Phase::Leaving, true, false, false),
        (Phase::Orphaned, true, false, false),
    ] {
        let (_, pod) = facts(1, ready, terminating);
        assert_eq!(serves_anycast(phase, Some(&pod)), served, "{phase:?} {ready} {terminating}");
    }
    assert!(serves_anycast(Phase::Serving, None), "a pod without a manifest counts as Ready");
}

#[test]
fn two_ready_pods_are_one_sorted_multipath_route() {
    let attachments = [attachment(2, Phase::Serving), attachment(1, Phase::Serving)];
    let routes = anycast(&attachments, &Pods::new(), &Routes::new(), |_| false);
    assert_eq!(hops(&routes), ["10.0.0.1", "10.0.0.2"]);
}

#[test]
fn a_pod_that_is_not_ready_leaves_the_route_to_the_others_at_once() {
    let attachments = [attachment(1, Phase::Serving), attachment(2, Phase::Serving)];
    let pods: Pods = [facts(1, false, false), facts(2, true, false)].into();
    let before = anycast(&attachments, &Pods::new(), &Routes::new(), |_| false);
    assert_eq!(hops(&anycast(&attachments, &pods, &before, |_| true)), ["10.0.0.2"]);
}

#[test]
fn the_last_route_lingers_only_if_it_was_there_and_its_pod_still_is() {
    let pods: Pods = [facts(1, false, false)].into();
    let there = anycast(&[attachment(1, Phase::Serving)], &Pods::new(), &Routes::new(), |_| false);
    for (phase, installed, lingers, expected) in [
        (Phase::Serving, &there, true, vec!["10.0.0.1"]),
        (Phase::Serving, &there, false, vec![]),
        (Phase::Serving, &Routes::new(), true, vec![]),
        (Phase::Leaving, &there, true, vec![]),
    ] {
        let routes = anycast(&[attachment(1, phase)], &pods, installed, |_| lingers);
        assert_eq!(hops(&routes), expected, "{phase:?} {lingers}");
    }
}

#[test]
fn a_pod_that_never_was_ready_gets_nothing_of_what_lingers() {
    let was_ready = attachment(1, Phase::Serving);
    let never = attachment(2, Phase::Serving);
    let before: Pods = [facts(1, true, false), facts(2, false, false)].into();
    let after: Pods = [facts(1, false, false), facts(2, false, false)].into();
    let both = [was_ready, never.clone()];
    let there = anycast(&both, &before, &Routes::new(), |_| false);
    assert_eq!(hops(&anycast(&both, &after, &there, |_| true)), ["10.0.0.1"]);
    assert!(anycast(&[never], &after, &there, |_| true).is_empty(), "the other was detached");
}

#[test]
fn a_summary_that_is_no_longer_configured_stays_while_it_is_held() {
    let config = crate::config::parse("apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {name: n}\nspec: {cidr4: [10.1.0.0/24]}\n").unwrap();
    let [kept, old]: [IpNet; 2] = ["10.1.0.0/24".parse().unwrap(), "10.0.0.0/24".parse().unwrap()];
    let installed: Routes =
        [kept, old].map(|prefix| (prefix, NodeRoute::Blackhole { prefix })).into();
    assert_eq!(leftover_summaries(Some(&config), &installed), [old]);
    assert_eq!(summaries(Some(&config), &[old]).keys().collect::<Vec<_>>(), [&old, &kept]);
    assert_eq!(summaries(Some(&config), &[]).keys().collect::<Vec<_>>(), [&kept]);
}
