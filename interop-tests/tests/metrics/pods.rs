//! Calls, addresses, the state file, the spool.

use rack::fabric::Fabric;
use rack::manifests::{self, Writing};
use rack::node::Node;
use rack::pod::Pod;
use rack::raw::Then;

use crate::page::{PORT, Page};

fn node() -> Node {
    let mut node = Node::new().unwrap();
    node.start_with(&[("FLOCK_HTTP", PORT)]).unwrap();
    node.await_ready().unwrap();
    node
}

/// A pod with an annotation.
fn declared(node: &Node, name: &str, annotation: (&str, &str)) -> Pod {
    node.write_pod(&manifests::pod("default", name, &[annotation]), Writing::Renamed).unwrap();
    Pod::new(name).unwrap()
}

#[test]
fn calls_addresses_and_writes_are_counted() {
    let node = node();
    let plugin = node.plugin().unwrap();
    let before = Page::of(&node).unwrap();
    let pods = ["a", "b", "c"].map(|name| Pod::new(name).unwrap());
    let results = pods.each_ref().map(|pod| plugin.add(pod).unwrap());
    plugin.check(&pods[0], &results[0]).unwrap().unwrap();
    plugin.del(&pods[2]).unwrap();
    // One that is wrong, and one of two that fit into the smallest network.
    let bad = declared(&node, "bad", ("anycast", "here"));
    assert_eq!(plugin.try_add(&bad).unwrap().unwrap_err().code, 7);
    let narrow = ("cidr4", "10.244.1.252/30");
    let [first, second] = ["first", "second"].map(|name| declared(&node, name, narrow));
    plugin.add(&first).unwrap();
    assert_eq!(plugin.try_add(&second).unwrap().unwrap_err().code, 11);
    node.client().bytes(b"hello\n", Then::Stay).unwrap();

    let page = Page::of(&node).unwrap();
    let sum = |name: &str, labels: &[&str]| page.sum(name, labels).unwrap();
    for (op, result, code, times) in [
        ("ADD", "ok", "0", 4.0),
        ("ADD", "error", "7", 1.0),
        ("ADD", "try_again", "11", 1.0),
        ("DEL", "ok", "0", 1.0),
        ("CHECK", "ok", "0", 1.0),
        ("GC", "ok", "0", 0.0),
    ] {
        let [a, b, c] = [("op", op), ("result", result), ("code", code)]
            .map(|(label, value)| format!("{label}=\"{value}\""));
        assert_eq!(sum("flock_cni_calls_total", &[&a, &b, &c]), times, "{op} {result} {code}");
    }
    assert_eq!(sum("flock_cni_call_duration_seconds_count", &["op=\"ADD\""]), 6.0);
    assert!(sum("flock_cni_call_duration_seconds_sum", &["op=\"ADD\""]) > 0.0);
    assert_eq!(sum("flock_cni_calls_in_flight", &[]), 0.0);
    assert_eq!(sum("flock_cni_refused_total", &["reason=\"undecodable\""]), 1.0);
    assert_eq!(sum("flock_ipam_failures_total", &["reason=\"exhausted\""]), 1.0);
    assert_eq!(sum("flock_ipam_failures_total", &[]), 1.0, "for no other reason");
    let pool = ["pool=\"10.244.1.0/24\"", "family=\"ipv4\""];
    assert_eq!(sum("flock_ipam_pool_addresses", &pool), 253.0);
    let taken =
        ["held", "cooling"].map(|how| sum(&format!("flock_ipam_pool_{how}_addresses"), &pool));
    // The one that was detached is held by its link, or cools down.
    assert_eq!(taken.iter().sum::<f64>(), 4.0, "{taken:?}");
    assert_eq!(sum("flock_attachments", &["phase=\"serving\""]), 3.0);
    assert_eq!((sum("flock_attachments", &[]), sum("flock_store_entries", &[])), (3.0, 3.0));
    // pending and committed for each ADD, and one for the DEL.
    let writes =
        sum("flock_store_writes_total", &[]) - before.sum("flock_store_writes_total", &[]).unwrap();
    assert_eq!(writes, 9.0);
    for name in ["flock_store_write_duration_seconds", "flock_store_sync_duration_seconds"] {
        assert_eq!(sum(&format!("{name}_count"), &[]), sum("flock_store_writes_total", &[]));
    }
    let [whole, synced] =
        ["write", "sync"].map(|part| sum(&format!("flock_store_{part}_duration_seconds_sum"), &[]));
    assert!(synced > 0.0 && synced < whole, "{synced} of {whole}");
    assert_eq!(
        (sum("flock_store_write_failures_total", &[]), sum("flock_store_failing", &[])),
        (0.0, 0.0)
    );
    page.has_grown_from(&before);
}

#[test]
fn what_is_left_and_what_was_spooled_is_counted() {
    let mut node = node();
    let plugin = node.plugin().unwrap();
    let [dead, spooled] = ["dead", "spooled"].map(|name| Pod::new(name).unwrap());
    for pod in [&dead, &spooled] {
        plugin.add(pod).unwrap();
    }
    node.kill().unwrap();
    // One goes by a DEL that nobody hears, one with its namespace; and somebody loses the book.
    plugin.del(&spooled).unwrap();
    drop(dead);
    node.start_with(&[("FLOCK_HTTP", PORT)]).unwrap();
    node.await_ready().unwrap();
    let page = Page::of(&node).unwrap();
    let sum = |name: &str, labels: &[&str]| page.sum(name, labels).unwrap();
    assert_eq!(sum("flock_spool_deletes_total", &["result=\"done\""]), 1.0);
    assert_eq!(sum("flock_spool_waiting", &[]), 0.0);
    assert_eq!(sum("flock_leaks_found_total", &["kind=\"attachment_without_link\""]), 1.0);
    assert_eq!(sum("flock_leaks_found_total", &["kind=\"link_without_entry\""]), 0.0);

    let lost = Pod::new("lost").unwrap();
    plugin.add(&lost).unwrap();
    node.kill().unwrap();
    std::fs::remove_file(node.state_dir().join("allocations.json")).unwrap();
    node.start_with(&[("FLOCK_HTTP", PORT)]).unwrap();
    node.await_ready().unwrap();
    let page = Page::of(&node).unwrap();
    let sum = |name: &str, labels: &[&str]| page.sum(name, labels).unwrap();
    assert_eq!(sum("flock_leaks_found_total", &["kind=\"link_without_entry\""]), 1.0);
    assert_eq!((sum("flock_stranger_links", &[]), sum("flock_attachments", &[])), (1.0, 0.0));
}

/// Idle with two peers and a full node, and scraped: how much is resident.
#[test]
fn a_full_node_that_is_scraped_stays_small() {
    let mut fabric: Fabric = crate::running();
    let pods = (0..20).map(|n| fabric.add_pod(1, &format!("pod-{n}"), &[]).unwrap());
    let pods: Vec<_> = pods.collect();
    let resident = |fabric: &Fabric| {
        let page = Page::of(fabric.node(1).unwrap()).unwrap();
        page.sum("process_resident_memory_bytes", &[]).unwrap()
    };
    let first = resident(&fabric);
    for _ in 0..200 {
        resident(&fabric);
    }
    let last = resident(&fabric);
    assert!(last < first + f64::from(4 << 20), "{first} bytes, and after 200 scrapes {last}");
    fabric.node_mut(1).unwrap().agent().unwrap().ensure_alive().unwrap();
    for pod in pods {
        fabric.remove_pod(pod).unwrap();
    }
}
