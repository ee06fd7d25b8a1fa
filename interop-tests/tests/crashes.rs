//! The agent dies at a fail point in the middle of a call, or of its own start;
//! the next start repairs what is left, and the runtime's next attempt succeeds.
//!
//! The points are in the debug build only. `@2` is the second time that a point
//! is passed, for those that a start passes too.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use rack::node::Node;
use rack::pod::{Pod, addresses};
use rack::probe;
use serde_json::Value;

fn armed(point: &str) -> String {
    let (name, pass) = point.split_once('@').unwrap_or((point, "1"));
    format!("{name}=kill@{pass}")
}

fn answers(node: &Node, result: &Value) {
    for address in addresses(result).unwrap() {
        probe::await_ping(node.netns(), address).unwrap();
    }
}

/// ADD with the agent dying on the way. kubelet's runtime may ask for the removal
/// of what failed first, or simply try again.
fn in_add(point: &str) {
    for removed_first in [true, false] {
        let mut node = Node::new().unwrap();
        node.restart_with(&[("FLOCK_FAULT", &armed(point))]).unwrap();
        let plugin = node.plugin().unwrap();
        let pod = Pod::new("pod").unwrap();
        plugin.try_add(&pod).unwrap().unwrap_err();
        node.await_death().unwrap();

        node.start().unwrap();
        node.await_ready().unwrap();
        if removed_first {
            plugin.del(&pod).unwrap();
            node.await_no_leftovers().unwrap();
        }
        let result = plugin.add(&pod).unwrap();
        answers(&node, &result);
        plugin.check(&pod, &result).unwrap().unwrap();
        plugin.del(&pod).unwrap();
        node.await_no_leftovers().unwrap();
    }
}

/// DEL with the agent dying on the way; its first answer may be either, because
/// a deletion that the agent did not confirm may be spooled.
fn in_del(point: &str) {
    let mut node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let (goes, stays) = (Pod::new("goes").unwrap(), Pod::new("stays").unwrap());
    let kept = plugin.add(&stays).unwrap();
    plugin.add(&goes).unwrap();
    node.restart_with(&[("FLOCK_FAULT", &armed(point))]).unwrap();
    let _either = plugin.del(&goes);
    node.await_death().unwrap();

    node.start().unwrap();
    node.await_ready().unwrap();
    plugin.del(&goes).unwrap();
    plugin.check(&stays, &kept).unwrap().unwrap();
    answers(&node, &kept);
    plugin.del(&stays).unwrap();
    node.await_no_leftovers().unwrap();
}

/// A start that dies on the way, with a pod that is there already.
fn in_start(point: &str) {
    let mut node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let pod = Pod::new("pod").unwrap();
    let result = plugin.add(&pod).unwrap();
    node.kill().unwrap();
    // A restart finds its routes in place; without them it has work to do.
    for cidr in [rack::node::POD_CIDR4, rack::node::POD_CIDR6] {
        let family = if cidr.contains(':') { "-6" } else { "-4" };
        let _of_either_kind = node.netns().ip(&format!("{family} route flush exact {cidr}"));
    }
    node.start_with(&[("FLOCK_FAULT", &armed(point))]).unwrap();
    node.await_death().unwrap();

    node.start().unwrap();
    node.await_ready().unwrap();
    answers(&node, &result);
    plugin.check(&pod, &result).unwrap().unwrap();
    plugin.del(&pod).unwrap();
    node.await_no_leftovers().unwrap();
}

/// ADD with one step failing, while the agent lives: undone at once, and the next one succeeds.
fn fails_in_add(point: &str) {
    let mut node = Node::new().unwrap();
    node.restart_with(&[("FLOCK_FAULT", &format!("{point}=error"))]).unwrap();
    let plugin = node.plugin().unwrap();
    let pod = Pod::new("pod").unwrap();
    let refusal = plugin.try_add(&pod).unwrap().unwrap_err();
    assert!(refusal.msg.contains(point), "{refusal}");
    node.await_no_leftovers().unwrap();
    let result = plugin.add(&pod).unwrap();
    answers(&node, &result);
    plugin.del(&pod).unwrap();
    node.await_no_leftovers().unwrap();
}

/// DEL with one step failing: an error, and the runtime's next attempt finishes it.
fn fails_in_del(point: &str) {
    let mut node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let pod = Pod::new("pod").unwrap();
    plugin.add(&pod).unwrap();
    node.restart_with(&[("FLOCK_FAULT", &format!("{point}=error"))]).unwrap();
    assert!(plugin.del(&pod).is_err(), "{point}");
    plugin.del(&pod).unwrap();
    node.await_no_leftovers().unwrap();
}

/// One test for each point, so that a failure names it.
macro_rules! dies {
    ($($test:ident: $act:ident at $point:literal;)*) => {
        $(#[test] fn $test() { $act($point); })*

        /// Every point that is tested above.
        const TESTED: &[&str] = &[$($point),*];
    };
}

/// A new point in the sources needs a test here; those of policies have theirs in `policy_faults`.
#[test]
fn every_point_is_tested() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files: Vec<_> = ["agent/src", "dataplane/src"].map(|dir| root.join(dir)).into();
    let mut found = std::collections::BTreeSet::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let named = text.split("fault::point(\"").skip(1).filter_map(|rest| rest.split('"').next());
        found.extend(named.filter(|name| !name.starts_with("policy.")).map(str::to_owned));
    }
    let tested: std::collections::BTreeSet<_> =
        TESTED.iter().map(|point| point.split('@').next().unwrap().to_owned()).collect();
    assert_eq!(found, tested);
}

dies! {
    before_it_is_wired: in_add at "add.pending";
    before_the_link_is_made: in_add at "attach.before-create";
    after_the_link_is_made: in_add at "attach.after-create";
    after_the_pod_side_is_done: in_add at "attach.after-pod";
    after_the_host_side_is_done: in_add at "attach.after-host";
    before_it_is_committed: in_add at "add.wired";
    after_it_is_committed: in_add at "add.committed";
    before_it_is_answered: in_add at "add.published";
    when_a_pod_begins_to_leave: in_del at "del.leaving";
    before_the_routes_go: in_del at "retire.before";
    after_the_routes_went: in_del at "retire.after";
    before_the_entry_goes: in_del at "del.retired";
    after_the_entry_went: in_del at "del.removed";
    before_the_link_goes: in_del at "reap.before@2";
    after_the_link_went: in_del at "reap.after@2";
    before_a_start_sweeps: in_start at "reap.before";
    after_a_start_swept: in_start at "reap.after";
    before_a_start_sets_routes: in_start at "set-route.before";
    after_a_start_set_routes: in_start at "set-route.after";
    failing_before_it_is_wired: fails_in_add at "add.pending";
    failing_before_the_link_is_made: fails_in_add at "attach.before-create";
    failing_after_the_link_is_made: fails_in_add at "attach.after-create";
    failing_after_the_pod_side_is_done: fails_in_add at "attach.after-pod";
    failing_after_the_host_side_is_done: fails_in_add at "attach.after-host";
    failing_before_it_is_committed: fails_in_add at "add.wired";
    failing_after_it_is_committed: fails_in_add at "add.committed";
    failing_when_a_pod_begins_to_leave: fails_in_del at "del.leaving";
    failing_before_the_routes_go: fails_in_del at "retire.before";
    failing_after_the_routes_went: fails_in_del at "retire.after";
    failing_before_the_entry_goes: fails_in_del at "del.retired";
    failing_after_the_entry_went: fails_in_del at "del.removed";
}
