//! `spec.bgp` is taken out of a NodeConfig, and put back: nothing of it stays, and everything returns.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use anyhow::ensure;
use rack::fabric::Fabric;
use rack::router::Brand;
use rack::wait::{PATIENCE, until};

#[test]
fn what_was_learned_and_announced_goes_with_spec_bgp_and_comes_back_with_it() {
    let mut fabric = Fabric::builder().tor("tor-a", Brand::Bird).nodes(1).build().unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    let ways_out = |fabric: &Fabric, wanted: bool| {
        until(&format!("learned routes: {wanted}"), PATIENCE, || {
            for family in ["-4", "-6"] {
                let shown = fabric.node(1)?.netns().ip(&format!("{family} route show default"))?;
                ensure!(shown.contains("proto 241") == wanted, "{shown}");
            }
            Ok(())
        })
        .unwrap();
    };
    ways_out(&fabric, true);
    fabric.await_tellers("10.244.1.0/24", &[1]).unwrap();

    let spec = fabric.node_config_mut(1).unwrap().get_mut("spec").unwrap().as_object_mut().unwrap();
    let bgp = spec.remove("bgp").unwrap();
    fabric.configure(1).unwrap();
    ways_out(&fabric, false);
    fabric.await_tellers("10.244.1.0/24", &[]).unwrap();
    let shown = fabric.node(1).unwrap().cli(&["bgp", "show"]).unwrap();
    assert!(shown.contains("does not speak BGP"), "{shown}");

    // So does a start without it, whatever the kernel still had.
    let spec = fabric.node_config_mut(1).unwrap().get_mut("spec").unwrap().as_object_mut().unwrap();
    spec.insert("bgp".to_owned(), bgp);
    fabric.configure(1).unwrap();
    ways_out(&fabric, true);
    fabric.await_tellers("10.244.1.0/24", &[1]).unwrap();
    fabric.node_mut(1).unwrap().kill().unwrap();
    let spec = fabric.node_config_mut(1).unwrap().get_mut("spec").unwrap().as_object_mut().unwrap();
    spec.remove("bgp");
    fabric.configure(1).unwrap();
    ways_out(&fabric, true);
    fabric.node_mut(1).unwrap().start().unwrap();
    ways_out(&fabric, false);
}
