//! flock first in a conflist, with portmap, bandwidth and tuning after it, run
//! as libcni runs a list.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::net::{IpAddr, SocketAddr};

use rack::chain::Chain;
use rack::network::{self, PluginUnderTest};
use rack::node::{NODE_V4, NODE_V6, Node, OUTSIDE_V4, OUTSIDE_V6};
use rack::pod::{self, Pod};
use rack::{facts, probe};
use serde_json::{Value, json};

const HOST_PORT: u16 = 18080;
const POD_PORT: u16 = 8080;

/// flock, portmap, bandwidth and tuning, with wishes for each.
fn chain(node: &Node, network: &PluginUnderTest) -> Chain {
    node.install_plugins().unwrap();
    chain_of(node, network, &[network::portmap(), network::bandwidth(), tuning()])
}

/// The same without portmap, whose own CHECK looks for the IPv4 rules among the
/// IPv6 ones and so always fails.
fn checkable(node: &Node, network: &PluginUnderTest) -> Chain {
    chain_of(node, network, &[network::bandwidth(), tuning()])
}

fn tuning() -> Value {
    network::tuning("net.core.somaxconn", "321")
}

fn chain_of(node: &Node, network: &PluginUnderTest, chained: &[Value]) -> Chain {
    let mapping = json!([{ "hostPort": HOST_PORT, "containerPort": POD_PORT, "protocol": "tcp" }]);
    let rate = json!({
        "ingressRate": 100_000_000, "ingressBurst": 10_000_000,
        "egressRate": 100_000_000, "egressBurst": 10_000_000,
    });
    Chain::new(node.netns(), &node.file("bin"), network.conflist("rack", chained))
        .unwrap()
        .wish("portMappings", mapping)
        .wish("bandwidth", rate)
}

/// The interface of a result that is on the node.
fn host_interfaces(result: &Value) -> Vec<String> {
    let interfaces = result.get("interfaces").and_then(Value::as_array).unwrap();
    let on_host = |interface: &&Value| {
        interface.get("sandbox").and_then(Value::as_str).unwrap_or_default().is_empty()
    };
    let name = |interface: &Value| interface.get("name").unwrap().as_str().unwrap().to_owned();
    interfaces.iter().filter(on_host).map(name).collect()
}

fn everything_works(node: &Node, pod: &Pod, result: &Value) {
    let addresses = pod::addresses(result).unwrap();
    assert_eq!(addresses.len(), 2, "both families: {addresses:?}");
    for address in &addresses {
        probe::await_ping(node.netns(), *address).unwrap();
    }

    let _greeter =
        probe::Greeter::start(&pod.netns, SocketAddr::new("::".parse().unwrap(), POD_PORT))
            .unwrap();
    for (target, client) in [(NODE_V4, OUTSIDE_V4), (NODE_V6, OUTSIDE_V6)] {
        let target = SocketAddr::new(target.parse().unwrap(), HOST_PORT);
        let seen = probe::await_greeting(node.outside().unwrap(), target).unwrap();
        let client: IpAddr = client.parse().unwrap();
        assert_eq!(seen.to_canonical(), client, "the pod sees the client, not the node");
    }

    for interface in host_interfaces(result) {
        let queues = node.netns().exec("tc", &["qdisc", "show", "dev", &interface]).unwrap();
        assert!(queues.contains("tbf"), "{interface} is not shaped: {queues}");
    }

    let somaxconn = pod.netns.exec("cat", &["/proc/sys/net/core/somaxconn"]).unwrap();
    assert_eq!(somaxconn.trim(), "321");
}

#[test]
fn portmap_bandwidth_and_tuning_work_after_flock() {
    let node = Node::running().unwrap();
    let chain = chain(&node, &node.flock_network());
    let pod = Pod::new("pod").unwrap();
    let result = chain.add(&pod).unwrap();
    everything_works(&node, &pod, &result);
    checkable(&node, &node.flock_network()).check(&pod, &result).unwrap().unwrap();

    chain.del(&pod, Some(&result)).unwrap();
    node.await_no_leftovers().unwrap();
    chain.del(&pod, None).unwrap();
}

#[test]
fn check_names_what_is_missing_in_the_middle_of_a_chain() {
    let node = Node::running().unwrap();
    let chain = chain(&node, &node.flock_network());
    let pod = Pod::new("pod").unwrap();
    let result = chain.add(&pod).unwrap();
    let (address, length) = facts::global_addresses(&pod.netns, "eth0")
        .unwrap()
        .into_iter()
        .find(|(address, _)| address.is_ipv4())
        .unwrap();
    pod.netns.ip(&format!("address del {address}/{length} dev eth0")).unwrap();
    let chain_to_check = checkable(&node, &node.flock_network());
    let complaint = chain_to_check.check(&pod, &result).unwrap().unwrap_err();
    assert!(complaint.to_string().contains(&address.to_string()), "{complaint}");

    chain.del(&pod, Some(&result)).unwrap();
    node.await_no_leftovers().unwrap();
}

#[test]
fn a_pod_that_is_attached_again_gets_the_same_result() {
    let node = Node::running().unwrap();
    let chain = chain(&node, &node.flock_network());
    let pod = Pod::new("pod").unwrap();
    let first = chain.add(&pod).unwrap();
    chain.del(&pod, Some(&first)).unwrap();
    let second = chain.add(&pod).unwrap();
    everything_works(&node, &pod, &second);
    let plugin = node.plugin().unwrap();
    let again = plugin.add(&pod).unwrap();
    assert_eq!(pod::addresses(&again).unwrap(), pod::addresses(&second).unwrap());
    chain.del(&pod, Some(&second)).unwrap();
    node.await_no_leftovers().unwrap();
}
