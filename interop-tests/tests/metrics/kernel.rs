//! Repairs, drains, NodeConfigs, requests.

use anyhow::ensure;
use rack::binaries;
use rack::facts;
use rack::manifests::Writing;
use rack::node::Node;
use rack::process::Daemon;

use crate::page::{Page, curl};
use crate::running;

#[test]
fn what_somebody_removes_is_repaired_and_counted() {
    let fabric = running();
    let pod = fabric.add_pod(1, "web", &[("anycast", "192.0.2.1")]).unwrap();
    let node = fabric.node(1).unwrap();
    let learned = |page: &Page| {
        ensure!(page.sum("flock_fib_installed_routes", &["family=\"ipv4\""])? == 1.0);
        Ok(())
    };
    let before = Page::awaited(node, "the default route", learned);
    let (four, netns) = (pod.v4.unwrap(), node.netns());
    let host = facts::interfaces(netns).unwrap().into_iter().map(|link| link.name);
    let host = host.into_iter().find(|name| facts::is_pod_interface(name)).unwrap();
    let commands = [
        ("pod", "route_gone", format!("route del {four}/32 dev {host}")),
        ("route", "route_gone", "route del unreachable 10.244.1.0/24".to_owned()),
        ("learned", "route_gone", "route del default".to_owned()),
    ];
    for (kind, drift, command) in commands {
        netns.ip(&command).unwrap();
        await_repair(node, &before, kind, drift, &command);
    }
    netns.exec("nft", &["delete", "table", "inet", "flock"]).unwrap();
    await_repair(node, &before, "rules", "rules_gone", "nft delete table");
    let page = Page::of(node).unwrap();
    assert_eq!(page.sum("flock_kernel_repair_failures_total", &[]).unwrap(), 0.0);
    assert_eq!(page.sum("flock_kernel_errors_total", &[]).unwrap(), 0.0);
    page.has_grown_from(&before);
    fabric.remove_pod(pod).unwrap();
}

fn await_repair(node: &Node, before: &Page, kind: &str, drift: &str, what: &str) {
    let grew = |page: &Page, name: &str, label: &str| {
        let (then, now) = (before.sum(name, &[label])?, page.sum(name, &[label])?);
        ensure!(now > then, "{name} {label}: {now}");
        Ok(())
    };
    Page::awaited(node, &format!("a repair after {what}"), |page| {
        grew(page, "flock_kernel_repairs_total", &format!("kind=\"{kind}\""))?;
        grew(page, "flock_kernel_drift_total", &format!("kind=\"{drift}\""))
    });
}

#[test]
fn drains_configurations_and_requests_show() {
    let mut fabric = running();
    let state = |node: &Node, name: &str, state: &str| {
        let state = format!("state=\"{state}\"");
        Page::awaited(node, &format!("{name} {state}"), |page| {
            ensure!(page.sum(name, &[&state])? == 1.0, "it is not");
            ensure!(page.sum(name, &[])? == 1.0, "one at a time");
            Ok(())
        });
    };
    let node = fabric.node(1).unwrap();
    state(node, "flock_drain_state", "in_service");
    let mut drain = node.netns().command(binaries::flock_agent().unwrap()).unwrap();
    drain.args(["drain", "--wait", "1h"]).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
    let drain = Daemon::start("the drain", &mut drain, &node.file("drain.log")).unwrap();
    state(node, "flock_drain_state", "draining");
    drain.kill().unwrap();
    node.cli(&["drain", "--wait", "0s"]).unwrap();
    state(node, "flock_drain_state", "drained");
    node.cli(&["drain", "--undo"]).unwrap();
    state(node, "flock_drain_state", "in_service");

    state(node, "flock_nodeconfig_state", "in_force");
    node.write("nodeconfig.yaml", "kind: nonsense", Writing::Renamed).unwrap();
    state(node, "flock_nodeconfig_state", "refused");
    std::fs::remove_file(node.file("standalone/nodeconfig.yaml")).unwrap();
    state(node, "flock_nodeconfig_state", "deleted");
    assert_eq!(Page::of(node).unwrap().sum("flock_ready", &[]).unwrap(), 0.0);
    fabric.configure(1).unwrap();
    let node = fabric.node(1).unwrap();
    state(node, "flock_nodeconfig_state", "in_force");
    node.write("pods/bad.yaml", "nonsense: {", Writing::Renamed).unwrap();
    Page::awaited(node, "the manifest to be counted", |page| {
        ensure!(page.sum("flock_manifest_problems", &[])? == 1.0);
        Ok(())
    });

    let before = Page::of(node).unwrap();
    for path in ["/healthz", "/readyz", "/nothing/here?x=1"] {
        curl(node, path, &[]).unwrap();
    }
    node.cli(&["pods"]).unwrap();
    let page = Page::of(node).unwrap();
    let grew = |name: &str, labels: &[&str]| {
        page.sum(name, labels).unwrap() - before.sum(name, labels).unwrap_or(0.0)
    };
    for (endpoint, code, times) in
        [("metrics", 200, 1.0), ("healthz", 200, 1.0), ("readyz", 200, 1.0), ("other", 404, 1.0)]
    {
        let labels = [format!("endpoint=\"{endpoint}\""), format!("code=\"{code}\"")];
        let labels = labels.each_ref().map(String::as_str);
        assert_eq!(grew("flock_http_requests_total", &labels), times, "{labels:?}");
    }
    assert_eq!(grew("flock_admin_requests_total", &["op=\"pods\"", "result=\"ok\""]), 1.0);
    fabric.node_mut(1).unwrap().agent().unwrap().ensure_alive().unwrap();
}
