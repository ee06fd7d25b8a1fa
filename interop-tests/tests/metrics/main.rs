//! `/metrics` of a running agent: figures that are true of what was done to a rack, names that are
//! what the documents, the alerts and the dashboard say, and a real Prometheus that reads it all.
//!
//! | module | what it shows |
//! |---|---|
//! | `page` | a scrape, read as a stranger would |
//! | `sessions` | peers up, down and restarted; prefixes; how fast they hear |
//! | `pods` | calls, addresses, the state file, the spool |
//! | `kernel` | repairs, drains, NodeConfigs, requests |
//! | `names` | docs, alerts and dashboard against a scrape, by promtool where it can |
//! | `prometheus` | a real one, with the alerts loaded |
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

mod kernel;
mod names;
mod page;
mod pods;
mod prometheus;
mod sessions;

use rack::fabric::Fabric;
use rack::router::Brand;
use serde_json::{Value, json};

use page::PORT;

/// BIRD, FRR, and a node that also has a peer where nobody is.
fn fabric() -> Fabric {
    let builder = Fabric::builder().tor("tor-a", Brand::Bird).tor("tor-b", Brand::Frr);
    let mut fabric = builder.nodes(1).build().unwrap();
    let nobody = json!({
        "name": "gone", "address": "2001:db8:f1:1::77", "asn": 65000, "connectRetry": "1s",
    });
    peers(&mut fabric).push(nobody);
    fabric.configure(1).unwrap();
    fabric
}

fn peers(fabric: &mut Fabric) -> &mut Vec<Value> {
    fabric.node_config_mut(1).unwrap()["spec"]["bgp"]["peers"].as_array_mut().unwrap()
}

/// The same with its agent, and both sessions up.
fn running() -> Fabric {
    let mut fabric = fabric();
    let node = fabric.node_mut(1).unwrap();
    node.start_with(&[("FLOCK_HTTP", PORT)]).unwrap();
    node.await_ready().unwrap();
    fabric.await_sessions().unwrap();
    fabric
}
