//! Books and kernels that do not agree.

use std::sync::Arc;

use flock_dataplane::NextHop;

use super::*;
use crate::cli::check::Status;
use crate::source::{PodFacts, PodKey};
use crate::store::{Allocation, Key};

fn attachment(n: u8, anycast: &[&str]) -> Attachment {
    let key = Key { container_id: format!("c{n}"), ifname: "eth0".into() };
    let mut record = Allocation::new(&key, jiff::Timestamp::UNIX_EPOCH);
    record.namespace = "shop".into();
    record.pod_name = format!("web-{n}");
    record.ip4 = Some([10, 0, 0, n].into());
    record.host_ifname = Some(name(n));
    record.anycast = anycast.iter().map(|ip| ip.parse().unwrap()).collect();
    Attachment { record, phase: Phase::Serving, wired: true }
}

fn name(n: u8) -> String {
    format!("flock{n:08x}")
}

fn link(n: u8, doomed: bool) -> HostLink {
    HostLink {
        name: name(n),
        index: n.into(),
        mac: [0; 6],
        mtu: 1500,
        up: true,
        doomed,
        peer: None,
    }
}

fn pod_route(destination: &str, n: u8, ours: bool) -> PodRoute {
    PodRoute { destination: destination.parse().unwrap(), ifname: name(n), ours }
}

fn anycast(address: &str, hops: &[u8]) -> NodeRoute {
    let hop = |n: &u8| Arc::new(NextHop { via: [10, 0, 0, *n].into(), dev: name(*n) });
    NodeRoute::Anycast {
        address: address.parse().unwrap(),
        next_hops: hops.iter().map(hop).collect(),
    }
}

fn summary(prefix: &str) -> NodeRoute {
    NodeRoute::Blackhole { prefix: prefix.parse().unwrap() }
}

fn well() -> (Vec<Attachment>, Kernel, Expected) {
    let book = vec![attachment(1, &["192.0.2.1"]), attachment(2, &[])];
    let (network, shared) = (summary("10.0.0.0/24"), anycast("192.0.2.1", &[1]));
    let kernel = Kernel {
        links: vec![link(1, false), link(2, false), link(9, true)],
        pod_routes: vec![
            pod_route("10.0.0.1/32", 1, true),
            pod_route("10.0.0.2/32", 2, true),
            pod_route("10.9.9.9/32", 2, false),
        ],
        node_routes: vec![network.clone(), shared.clone()],
    };
    let expected = [network, shared].map(|route| (destination(&route), Some(route)));
    (book, kernel, expected.into())
}

#[test]
fn what_agrees_has_no_differences() {
    let (book, kernel, mut expected) = well();
    assert_eq!(compare(&book, &kernel, &expected), Differences::default());
    // A pod that is not Ready: its route may linger, or never have been.
    expected.insert("192.0.2.7/32".parse().unwrap(), None);
    expected.insert("192.0.2.1/32".parse().unwrap(), None);
    assert_eq!(compare(&book, &kernel, &expected), Differences::default());
    let findings = judge(&Differences::default(), 2, 2);
    assert!(findings.iter().all(|finding| finding.status == Status::Ok), "{findings:?}");
}

#[test]
fn each_difference_is_named() {
    type Change = fn(&mut Vec<Attachment>, &mut Kernel, &mut Expected);
    let table: [(Change, [&str; 3]); 8] = [
        (|_, kernel, _| kernel.links.push(link(7, false)), ["flock00000007", "", ""]),
        (
            // With a route of its own: told once.
            |_, kernel, _| {
                kernel.links.push(link(7, false));
                kernel.pod_routes.push(pod_route("10.0.0.7/32", 7, true));
            },
            ["flock00000007", "", ""],
        ),
        (
            |_, kernel, _| kernel.pod_routes.push(pod_route("10.0.0.7/32", 1, true)),
            ["", "10.0.0.7/32 dev flock00000001", ""],
        ),
        (
            |_, kernel, _| kernel.node_routes.push(summary("10.7.0.0/24")),
            ["", "unreachable 10.7.0.0/24", ""],
        ),
        (|_, kernel, _| drop(kernel.node_routes.remove(0)), ["", "", "unreachable 10.0.0.0/24"]),
        (
            |_, kernel, _| drop(kernel.node_routes.pop()),
            ["", "", "192.0.2.1 via 10.0.0.1 dev flock00000001"],
        ),
        (
            |_, kernel, _| kernel.node_routes[1] = anycast("192.0.2.1", &[2]),
            ["", "", "192.0.2.1 via 10.0.0.1 dev flock00000001, but 192.0.2.1 via 10.0.0.2"],
        ),
        (
            |_, _, expected| drop(expected.remove(&"192.0.2.1/32".parse().unwrap())),
            ["", "192.0.2.1 via 10.0.0.1", ""],
        ),
    ];
    for (change, wanted) in table {
        let (mut book, mut kernel, mut expected) = well();
        change(&mut book, &mut kernel, &mut expected);
        let found = compare(&book, &kernel, &expected);
        let sets = [&found.strangers, &found.unexplained, &found.missing];
        for (set, words) in sets.into_iter().zip(wanted) {
            assert_eq!(set.len(), usize::from(!words.is_empty()), "{found:?}");
            assert!(set.iter().all(|one| one.contains(words)), "{found:?} {words}");
        }
        let findings = judge(&found, 2, 2);
        let bad: Vec<_> = findings.iter().filter(|f| f.status != Status::Ok).collect();
        assert!(bad.len() == 1 && !bad[0].remedy.is_empty(), "{findings:?}");
    }
}

#[test]
fn only_what_lasts_counts() {
    let of = |names: &[&str]| Differences {
        strangers: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Differences::default()
    };
    assert_eq!(of(&["b", "c"]).lasting(&of(&["a", "b"])), of(&["b"]));
    assert_eq!(of(&["a"]).lasting(&of(&[])), of(&[]));
}

#[test]
fn an_address_of_two_is_told_with_both() {
    let mut book = vec![attachment(1, &["192.0.2.1"]), attachment(2, &["192.0.2.1"])];
    assert_eq!(held_twice(&book).status, Status::Ok, "anycast is for sharing");
    book[1].record.addresses = vec!["10.0.0.1".parse().unwrap()];
    let finding = held_twice(&book);
    assert_eq!(finding.status, Status::Fail);
    assert!(finding.message.contains("10.0.0.1 by shop/web-1 and shop/web-2"), "{finding:?}");
}

#[test]
fn a_leak_is_a_pod_that_was_known() {
    let book = [attachment(1, &["192.0.2.1"]), attachment(2, &[])];
    let mut pods = Pods::default();
    let known = |n: u8| PodKey { namespace: "shop".into(), name: format!("web-{n}").into() };
    let facts = |n: u8| PodFacts {
        key: known(n),
        uid: String::new(),
        static_uid: None,
        annotations: BTreeMap::new(),
        app: Arc::default(),
        image: Arc::default(),
        ready: true,
        terminating: false,
        labels: Arc::default(),
        ports: Arc::default(),
    };
    let finding = leaked(&book, &pods, false);
    assert!(finding.message.contains("1 pod(s)") && finding.message.contains("shop/web-1"));
    assert!(leaked(&book, &pods, true).message.contains("2 pod(s)"), "with Kubernetes");
    pods.set(&known(1), Some(Arc::new(facts(1))));
    assert_eq!(leaked(&book, &pods, false).status, Status::Ok, "web-2 may never have had one");
    let mut leaving = book;
    leaving[1].phase = Phase::Leaving;
    assert_eq!(leaked(&leaving, &pods, true).status, Status::Ok);
}
