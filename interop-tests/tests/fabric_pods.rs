//! Pods on the nodes of a fabric, with the real agent and the real plugin.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use anyhow::ensure;
use rack::fabric::Fabric;
use rack::facts;
use rack::probe::await_ping;
use rack::router::Brand;
use rack::wait::{PATIENCE, until};
use serde_json::json;

/// Bound to the pod's loopback interface.
const ANYCAST: [&str; 2] = ["2001:db8:cafe::1", "192.0.2.1"];

#[test]
fn pods_come_and_go_on_the_nodes_of_a_fabric() {
    let mut fabric = Fabric::builder().tor("tor", Brand::Bird).nodes(2).build().unwrap();
    let config = fabric.node_config_mut(2).unwrap();
    config["spec"]["defaults"] = json!({ "ipv4": false });
    fabric.configure(2).unwrap();
    fabric.start().unwrap();
    let lean = fabric.add_pod(2, "lean", &[]).unwrap();
    assert!(lean.v4.is_none() && lean.addresses().len() == 1);
    fabric.node_config_mut(2).unwrap()["spec"]["defaults"] = json!({});
    fabric.configure(2).unwrap();
    until("a pod with both families", PATIENCE, || {
        let pod = fabric.add_pod(2, "later", &[])?;
        let families = pod.addresses().len();
        fabric.remove_pod(pod)?;
        ensure!(families == 2, "it has {families}");
        Ok(())
    })
    .unwrap();
    let mut web = fabric.add_pod(1, "web", &[("anycast", &ANYCAST.join(","))]).unwrap();
    assert!(web.v6.unwrap().to_string().starts_with("2001:db8:0:1:"));
    assert!(web.v4.unwrap().to_string().starts_with("10.244.1."));
    let node = fabric.node(1).unwrap();
    for address in web.addresses() {
        await_ping(node.netns(), address).unwrap();
    }
    let served = |wanted: bool| {
        until(&format!("the anycast routes to be there: {wanted}"), PATIENCE, || {
            let routes = facts::routes(node.netns())?;
            let there =
                ANYCAST.iter().all(|one| routes.iter().any(|route| route.destination == *one));
            ensure!(there == wanted, "{routes:?}");
            Ok(())
        })
        .unwrap();
    };
    served(true);
    fabric.set_ready(&mut web, false).unwrap();
    served(false);
    fabric.set_ready(&mut web, true).unwrap();
    served(true);
    let bad = fabric.add_pod(1, "bad", &[("anycast", "nonsense")]).unwrap_err();
    assert!(format!("{bad:#}").contains("nonsense"), "{bad:#}");
    assert!(!node.file("standalone/pods/default.bad.yaml").exists());
    fabric.remove_pod(web).unwrap();
    fabric.remove_pod(lean).unwrap();
    for number in [1, 2] {
        fabric.node(number).unwrap().await_no_leftovers().unwrap();
    }
    assert!(!node.file("standalone/pods/default.web.yaml").exists());
}
