//! Where a node dials from: a ToR knows it by one address, whatever others a router or a lease has
//! given to the interface since.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use rack::fabric::Fabric;
use rack::router::Brand;

#[test]
fn an_address_for_a_while_is_not_dialled_from() {
    // The ToR waits: only our own dial brings the session up.
    let wait = |_: &str, config: &mut rack::router::Config| {
        config.peers.iter_mut().for_each(|peer| peer.passive = true);
    };
    let builder = Fabric::builder().tor("tor-a", Brand::Bird).nodes(1).adjust(wait);
    let mut fabric = builder.build().unwrap();
    // The newest of equal addresses is the kernel's choice.
    let lease =
        "address add 2001:db8:f1:1::99/64 dev uplink0 valid_lft 3600 preferred_lft 1800 nodad";
    fabric.node(1).unwrap().netns().ip(lease).unwrap();
    fabric.start().unwrap();
    fabric.await_session(1, "tor-a").unwrap();
    // Nor does one that comes while the session is up move it.
    let more = lease.replace("::99", "::98");
    fabric.node(1).unwrap().netns().ip(&more).unwrap();
    let before = fabric.node(1).unwrap().ended_sessions().unwrap();
    fabric.node_mut(1).unwrap().restart_with(&[]).unwrap();
    fabric.await_session(1, "tor-a").unwrap();
    assert_eq!(fabric.node(1).unwrap().ended_sessions().unwrap(), before);
    let shown = fabric.node(1).unwrap().cli_json(&["bgp", "show", "peers"]).unwrap();
    let local = shown.pointer("/peers/0/localAddress").unwrap();
    assert_eq!(local, "2001:db8:f1:1::2", "{shown}");
}
