//! What the kernel hears.

use super::*;

fn polled(rib: &mut Rib) -> Vec<(IpNet, Vec<NextHop>)> {
    std::iter::from_fn(|| rib.poll_route()).map(|change| (change.net, change.next_hops)).collect()
}

fn hop(peer: u8) -> NextHop {
    NextHop::V4(Ipv4Addr::new(192, 0, 2, peer))
}

#[test]
fn learned_routes_are_installed_and_removed() {
    let mut rib = rib();
    learn(&mut rib, 1, nth(1), said(1, 1));
    assert_eq!(polled(&mut rib), [(nth(1).into(), vec![hop(1)])]);
    assert_eq!(polled(&mut rib), []);
    // Another path of the same way out is nothing to the kernel.
    learn(&mut rib, 1, nth(1), said(1, 2));
    assert_eq!(polled(&mut rib), []);
    // Neither is one that is back before anybody looked.
    rib.unlearn(key(1), nth(1), 0);
    learn(&mut rib, 1, nth(1), said(1, 2));
    assert_eq!(polled(&mut rib), []);
    rib.unlearn(key(1), nth(1), 0);
    assert_eq!(polled(&mut rib), [(nth(1).into(), vec![])]);
    // Never installed, never removed.
    learn(&mut rib, 1, nth(2), said(1, 2));
    rib.unlearn(key(1), nth(2), 0);
    assert_eq!(polled(&mut rib), []);
    assert_empty(&rib);
}

#[test]
fn equal_paths_share_the_traffic() {
    let mut rib = rib();
    learn(&mut rib, 3, nth(1), said(3, 1));
    learn(&mut rib, 1, nth(1), said(1, 1));
    // Through the same router: no way of its own.
    learn(&mut rib, 2, nth(1), said(1, 1));
    // Longer: not equal.
    let mut long = said(4, 1);
    long.as_path.prepend(65_104, 1);
    learn(&mut rib, 4, nth(1), long);
    assert_eq!(polled(&mut rib), [(nth(1).into(), vec![hop(1), hop(3)])]);
    rib.forget(key(1), Family::Ipv4);
    assert_eq!(polled(&mut rib), []);
    rib.forget(key(2), Family::Ipv4);
    assert_eq!(polled(&mut rib), [(nth(1).into(), vec![hop(3)])]);
    rib.forget(key(3), Family::Ipv4);
    assert_eq!(polled(&mut rib), [(nth(1).into(), vec![hop(4)])]);
}

#[test]
fn our_own_routes_are_not_the_kernels() {
    let mut rib = rib();
    rib.originate(nth(1).into(), Some(&wish(1)));
    assert_eq!(polled(&mut rib), []);
    learn(&mut rib, 1, nth(1), said(1, 1));
    assert_eq!(polled(&mut rib), []);
    rib.originate(nth(1).into(), None);
    assert_eq!(polled(&mut rib), [(nth(1).into(), vec![hop(1)])]);
    rib.originate(nth(1).into(), Some(&wish(1)));
    assert_eq!(polled(&mut rib), [(nth(1).into(), vec![])]);
    let id = rib.intern(said(1, 1));
    rib.refuse(key(1), v4("10.0.0.0/8"), 0, Withheld::Martian, 10);
    rib.release(id);
    assert_eq!(polled(&mut rib), []);
}

/// A stale route is a route; the kernel hears of it when it goes.
#[test]
fn staleness_is_no_news() {
    let mut rib = rib();
    learn(&mut rib, 1, nth(1), said(1, 1));
    learn(&mut rib, 2, nth(1), said(2, 1));
    learn(&mut rib, 1, nth(2), said(1, 1));
    assert_eq!(polled(&mut rib).len(), 2);
    rib.mark_stale(key(1), Family::Ipv4);
    assert_eq!(polled(&mut rib), []);
    learn(&mut rib, 1, nth(1), said(1, 1));
    rib.sweep_stale(key(1), Family::Ipv4);
    assert_eq!(polled(&mut rib), [(nth(2).into(), vec![])]);
}

#[test]
fn routes_are_not_wider_than_the_kernel_takes() {
    let mut rib = Rib::new(1, true);
    for peer in 1..=100 {
        rib.source(key(peer), source(peer, false));
        learn(&mut rib, peer, nth(1), said(peer, 1));
    }
    assert_eq!(polled(&mut rib), [(nth(1).into(), (1..=64).map(hop).collect())]);
}

#[test]
fn nobody_installs_where_nobody_asks() {
    let mut rib = Rib::new(1, false);
    learn(&mut rib, 1, nth(1), said(1, 1));
    assert_eq!(rib.poll_route(), None);
}
