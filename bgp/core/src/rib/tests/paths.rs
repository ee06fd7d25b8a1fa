//! Paths in: counts, refused ones, staleness, several of one peer, our own.

use super::*;

fn counts(rib: &Rib, peer: u16) -> (u32, u32) {
    let counts = rib.counts(key(peer), Family::Ipv4);
    (counts.received, counts.accepted)
}

#[test]
fn paths_are_counted() {
    let mut rib = rib();
    for n in 0..10 {
        learn(&mut rib, 1, nth(n), said(1, n));
        learn(&mut rib, 2, nth(n), said(2, n));
    }
    learn(&mut rib, 1, nth(0), said(1, 99));
    assert_eq!(counts(&rib, 1), (10, 10));
    rib.refuse(key(1), nth(0), 0, Withheld::AsLoop, 100);
    assert_eq!(counts(&rib, 1), (10, 9));
    rib.unlearn(key(1), nth(1), 0);
    rib.unlearn(key(1), nth(1), 0);
    rib.unlearn(key(1), nth(1_000), 0);
    assert_eq!(counts(&rib, 1), (9, 8));
    assert_eq!(rib.counts(key(1), Family::Ipv6), Counts::default());
    assert_eq!(rib.counts(key(999), Family::Ipv4), Counts::default());
    rib.forget(key(1), Family::Ipv4);
    assert_eq!((counts(&rib, 1), counts(&rib, 2)), ((0, 0), (10, 10)));
}

#[test]
fn few_refused_paths_are_kept() {
    let mut rib = rib();
    rib.refuse(key(1), nth(1), 0, Withheld::Martian, 0);
    assert_empty(&rib);
    for n in 0..10 {
        rib.refuse(key(1), nth(n), 0, Withheld::Martian, 3);
    }
    assert_eq!((counts(&rib, 1), rib.ipv4.prefixes.len()), ((3, 0), 3));
    // One that was used and is refused now is not used, kept or not.
    learn(&mut rib, 1, nth(20), said(1, 1));
    rib.refuse(key(1), nth(20), 0, Withheld::Martian, 3);
    assert_eq!(counts(&rib, 1), (3, 0));
    assert!(rib.route(nth(20).into()).is_none());
    assert_eq!(rib.shared.sets.len(), 0);
    // Accepted after all.
    learn(&mut rib, 1, nth(0), said(1, 1));
    assert_eq!(counts(&rib, 1), (3, 1));
    rib.forget(key(1), Family::Ipv4);
    while rib.poll_route().is_some() {}
    assert_empty(&rib);
}

/// What overlaps the node's networks is kept when there is no room for the rest, and what is beside
/// a route of our own always.
#[test]
fn refused_paths_that_people_look_for_are_kept_longer() {
    let mut rib = rib();
    rib.originate(nth(100).into(), Some(&wish(1)));
    rib.originate(nth(101).into(), Some(&wish(1)));
    for n in 0..10 {
        rib.refuse(key(1), nth(n), 0, Withheld::AsLoop, 3);
    }
    for n in 10..20 {
        rib.refuse(key(1), nth(n), 0, Withheld::OwnPods, 3);
    }
    assert_eq!(counts(&rib, 1), (6, 0));
    assert!(rib.counts(key(1), Family::Ipv4).overflowed);
    for n in [100, 101] {
        rib.refuse(key(1), nth(n), 0, Withheld::AsLoop, 3);
        let route = rib.route(nth(n).into()).unwrap();
        let withheld: Vec<_> = route.paths.iter().map(|path| path.withheld).collect();
        assert_eq!(withheld, [None, Some(Withheld::AsLoop)]);
    }
    assert_eq!(counts(&rib, 1), (8, 0));
    rib.forget(key(1), Family::Ipv4);
    assert!(!rib.counts(key(1), Family::Ipv4).has_refused());
    rib.originate_all(&[]);
    while rib.poll_route().is_some() {}
    assert_empty(&rib);
}

#[test]
fn who_tells_what_we_originate_is_noticed() {
    let mut rib = rib();
    let tallies = |rib: &mut Rib| {
        let mut found: Vec<_> = std::iter::from_fn(|| rib.take_contested()).collect();
        found.sort_by_key(|(peer, _)| *peer);
        found
    };
    let of = |nets: &[u32]| {
        let mut tally = Tally::default();
        for n in nets {
            tally.add(nth(*n).into());
        }
        tally
    };
    learn(&mut rib, 1, nth(1), said(1, 1));
    learn(&mut rib, 2, nth(1), said(2, 1));
    rib.refuse(key(2), nth(2), 0, Withheld::AsLoop, 9);
    assert_eq!(tallies(&mut rib), [], "it is not ours");
    for n in 1..4 {
        rib.originate(nth(n).into(), Some(&wish(1)));
    }
    assert_eq!(tallies(&mut rib), [(key(1), of(&[1])), (key(2), of(&[1, 2]))]);
    rib.originate(nth(1).into(), Some(&wish(2)));
    assert_eq!(tallies(&mut rib), [], "it was ours before");
    learn(&mut rib, 3, nth(3), said(3, 1));
    learn(&mut rib, 3, nth(2), said(3, 1));
    rib.refuse(key(4), nth(3), 0, Withheld::AsLoop, 0);
    learn(&mut rib, 4, nth(4), said(4, 1));
    assert_eq!(tallies(&mut rib), [(key(3), of(&[2, 3])), (key(4), of(&[3]))]);
    rib.mark_stale(key(3), Family::Ipv4);
    rib.forget(key(3), Family::Ipv4);
    assert_eq!(tallies(&mut rib), [], "what goes is no news");
}

#[test]
fn judged_anew() {
    let mut rib = rib();
    for n in 0..4 {
        learn(&mut rib, 1, nth(n), said(1, n));
        learn(&mut rib, 2, nth(n), said(2, n));
    }
    let mut asked = Vec::new();
    rib.rejudge(key(1), Family::Ipv4, &mut |net, kept| {
        asked.push((net, kept.unwrap().as_path.iter().last()));
        if net == IpNet::from(nth(2)) { Err(Withheld::Connected) } else { Ok(()) }
    });
    asked.sort_unstable();
    assert_eq!(asked, [0, 1, 2, 3].map(|n| (nth(n).into(), Some(64_000 + n))));
    assert_eq!((counts(&rib, 1), counts(&rib, 2)), ((4, 3), (4, 4)));
    let route = rib.route(nth(2).into()).unwrap();
    assert_eq!(route.paths[0].peer, Some(key(2)));
    assert_eq!(route.paths[1].withheld, Some(Withheld::Connected));
    assert!(route.paths[1].attributes.is_none());
    // Refused ones stay so, for the reason that is given now.
    rib.rejudge(key(1), Family::Ipv4, &mut |_, kept| match kept {
        Ok(_) => Ok(()),
        Err(why) => {
            assert_eq!(why, Withheld::Connected);
            Err(Withheld::OwnPods)
        }
    });
    assert_eq!(counts(&rib, 1), (4, 3));
    assert_eq!(rib.route(nth(2).into()).unwrap().paths[1].withheld, Some(Withheld::OwnPods));
}

#[test]
fn stale_paths_go_unless_they_are_said_again() {
    let mut rib = rib();
    for n in 0..4 {
        learn(&mut rib, 1, nth(n), said(1, n));
    }
    rib.refuse(key(1), nth(9), 0, Withheld::Martian, 5);
    learn(&mut rib, 2, nth(0), said(2, 0));
    rib.mark_stale(key(1), Family::Ipv4);
    assert!(rib.route(nth(3).into()).unwrap().paths[0].stale);
    assert_eq!(counts(&rib, 1), (5, 4));
    learn(&mut rib, 1, nth(1), said(1, 1));
    learn(&mut rib, 1, nth(2), said(1, 77));
    assert!(!rib.route(nth(1).into()).unwrap().paths[0].stale);
    rib.sweep_stale(key(1), Family::Ipv4);
    assert_eq!((counts(&rib, 1), counts(&rib, 2)), ((2, 2), (1, 1)));
    rib.sweep_stale(key(1), Family::Ipv4);
    assert_eq!(counts(&rib, 1), (2, 2));
}

/// A stale path is as good as another, and saying it again is no news to anyone but the kernel.
#[test]
fn staleness_is_no_news_to_peers() {
    let mut rib = rib();
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    let mut ear = Ear::default();
    learn(&mut rib, 1, nth(1), said(1, 1));
    ear.hear(&mut rib, 2);
    rib.mark_stale(key(1), Family::Ipv4);
    learn(&mut rib, 1, nth(1), said(1, 1));
    ear.hear(&mut rib, 2);
    assert_eq!(ear.updates, 0);
}

/// RFC 7911: each identifier is a path of its own; there is a bound to them.
#[test]
fn several_paths_of_one_peer() {
    let mut rib = rib();
    let id = rib.intern(said(1, 1));
    for path_id in 0..1_000 {
        rib.learn(key(1), nth(1), path_id, id);
    }
    rib.release(id);
    assert_eq!(counts(&rib, 1), (64, 64));
    learn(&mut rib, 2, nth(1), said(2, 1));
    assert_eq!(counts(&rib, 2), (1, 1));
    let route = rib.route(nth(1).into()).unwrap();
    assert_eq!((route.paths[0].path_id, route.paths.len()), (0, 65));
    rib.unlearn(key(1), nth(1), 0);
    assert_eq!(rib.route(nth(1).into()).unwrap().paths[0].path_id, 1);
    rib.forget(key(1), Family::Ipv4);
    rib.forget(key(2), Family::Ipv4);
    while rib.poll_route().is_some() {}
    assert_empty(&rib);
}

/// A peer that comes back with another identifier is compared by that one.
#[test]
fn a_source_may_change() {
    let mut rib = rib();
    learn(&mut rib, 1, nth(1), said(1, 1));
    learn(&mut rib, 2, nth(1), said(2, 1));
    let best = |rib: &Rib| rib.route(nth(1).into()).unwrap().paths[0].peer;
    assert_eq!(best(&rib), Some(key(1)));
    let changed = Source { id: Ipv4Addr::new(200, 0, 0, 1), ..source(1, false) };
    rib.source(key(1), changed);
    assert_eq!(best(&rib), Some(key(2)));
    assert_eq!(rib.ipv4.prefixes.best(0).and_then(|path| path.peer()), Some(key(2)));
}

/// RFC 4271 §9.2.1: a route of a peer that is one of ours now is not told inside any more.
#[test]
fn a_source_may_move_in() {
    let mut rib = rib();
    let mut inside = exporter(6);
    inside.peer_asn = US;
    rib.open_outlet(key(6), Family::Ipv4, inside);
    learn(&mut rib, 1, nth(1), said(1, 1));
    let mut ear = Ear::default();
    ear.hear(&mut rib, 6);
    assert_eq!(ear.routes.len(), 1);
    rib.source(key(1), source(1, true));
    assert_eq!(rib.take_woken(), Some(key(6)));
    ear.hear(&mut rib, 6);
    assert_eq!(ear.withdrawn, [nth(1).into()]);
}

#[test]
fn originations_are_a_set() {
    let mut rib = rib();
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    let mut ear = Ear::default();
    let wishes = |range: std::ops::Range<u32>, community| -> Vec<(IpNet, Origination)> {
        range.map(|n| (nth(n).into(), wish(community))).collect()
    };
    rib.originate_all(&wishes(0..100, 1));
    ear.hear(&mut rib, 2);
    assert_eq!((ear.updates, ear.routes.len()), (1, 100));

    rib.originate_all(&wishes(0..100, 1));
    ear.hear(&mut rib, 2);
    assert_eq!(ear.updates, 0);

    // Twice the same prefix: the last word counts.
    let mut next = wishes(50..149, 1);
    next.extend(wishes(148..150, 2));
    rib.originate_all(&next);
    ear.hear(&mut rib, 2);
    assert_eq!((ear.withdrawn.len(), ear.announced.len(), ear.routes.len()), (50, 50, 100));
    assert_eq!(ear.routes[&nth(148).into()].communities, wish(2).communities);

    // One by one in between; the next set knows of it.
    rib.originate(nth(5).into(), Some(&wish(3)));
    rib.originate(nth(50).into(), None);
    rib.originate(nth(51).into(), Some(&wish(3)));
    ear.hear(&mut rib, 2);
    assert_eq!((ear.withdrawn.len(), ear.announced.len()), (1, 2));
    rib.originate_all(&wishes(51..52, 3));
    ear.hear(&mut rib, 2);
    assert_eq!((ear.withdrawn.len(), ear.announced.len(), ear.routes.len()), (99, 0, 1));
    rib.originate_all(&[]);
    ear.hear(&mut rib, 2);
    assert_empty(&rib);
}

/// Prefixes that were not masked are.
#[test]
fn originations_are_masked() {
    let mut rib = rib();
    rib.originate(net("10.1.2.3/24"), Some(&wish(1)));
    assert!(rib.route(net("10.1.2.0/24")).is_some());
    rib.originate(net("10.1.2.9/24"), None);
    assert_empty(&rib);
}
