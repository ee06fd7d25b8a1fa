//! The tables for people.

use flock_bgp_wire::Community;

use super::*;

#[test]
fn a_route_with_its_paths_and_the_reason() {
    let mut rib = rib();
    rib.refuse(key(4), nth(1), 0, Withheld::AsLoop, 10);
    let mut long = said(1, 1);
    long.as_path.prepend(65_101, 2);
    learn(&mut rib, 1, nth(1), long);
    learn(&mut rib, 3, nth(1), said(3, 1));
    learn(&mut rib, 2, nth(1), said(2, 1));
    let route = rib.route(nth(1).into()).unwrap();
    assert_eq!((route.net, route.reason), (nth(1).into(), Some(Reason::RouterId)));
    let paths: Vec<_> = route
        .paths
        .iter()
        .map(|path| (path.peer.unwrap().0, path.best, path.equal, path.lost, path.withheld))
        .collect();
    assert_eq!(
        paths,
        [
            (2, true, true, None, None),
            (3, false, true, Some(Reason::RouterId), None),
            (1, false, false, Some(Reason::AsPath), None),
            (4, false, false, None, Some(Withheld::AsLoop)),
        ]
    );
    assert_eq!(route.paths[0].attributes, Some(&said(2, 1)));

    rib.originate(nth(1).into(), Some(&wish(1)));
    let route = rib.route(nth(1).into()).unwrap();
    assert_eq!((route.paths[0].peer, route.reason), (None, Some(Reason::Originated)));
    rib.refuse(key(4), nth(2), 0, Withheld::AsLoop, 10);
    assert_eq!(rib.route(nth(2).into()).unwrap().reason, None);
}

#[test]
fn routes_are_found() {
    let mut rib = rib();
    for text in ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "192.0.2.0/24"] {
        learn(&mut rib, 1, v4(text), said(1, 1));
    }
    rib.refuse(key(1), v4("10.1.2.3/32"), 0, Withheld::Martian, 10);
    rib.originate(net("2001:db8::/32"), Some(&wish(1)));
    let to = |address: &str| rib.route_to(address.parse().unwrap()).map(|route| route.net);
    assert_eq!(to("10.1.2.3"), Some(net("10.1.2.0/24")));
    assert_eq!(to("10.2.0.0"), Some(net("10.0.0.0/8")));
    assert_eq!(to("8.8.8.8"), Some(net("0.0.0.0/0")));
    assert_eq!(to("2001:db8::5"), Some(net("2001:db8::/32")));
    assert_eq!(to("2001:db9::5"), None);
    let around = |text: &str| rib.route_around(net(text)).map(|route| route.net);
    assert_eq!(around("10.1.2.0/24"), Some(net("10.1.0.0/16")));
    assert_eq!(around("10.1.2.3/32"), Some(net("10.1.2.0/24")));
    assert_eq!(around("10.1.0.0/20"), Some(net("10.1.0.0/16")), "not what is inside it");
    assert_eq!(around("0.0.0.0/0"), None);
    let mut within: Vec<IpNet> =
        rib.routes_within(net("10.1.0.0/16")).map(|route| route.net).collect();
    within.sort_unstable();
    assert_eq!(within, [net("10.1.0.0/16"), net("10.1.2.0/24"), net("10.1.2.3/32")]);
    assert_eq!(rib.routes(Family::Ipv4, None).count(), 6);
    assert_eq!(rib.routes(Family::Ipv6, None).count(), 1);
}

#[test]
fn a_walk_goes_on_where_it_ended() {
    let mut rib = rib();
    for n in 0..100 {
        learn(&mut rib, 1, nth(n), said(1, n));
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let piece: Vec<_> = rib
            .routes(Family::Ipv4, after)
            .take(7)
            .map(|route| (route.net, route.position))
            .collect();
        let Some((_, last)) = piece.last() else { break };
        after = Some(*last);
        seen.extend(piece.iter().map(|(net, _)| *net));
    }
    assert_eq!(seen, (0..100).map(|n| nth(n).into()).collect::<Vec<IpNet>>());
}

#[test]
fn a_prefix_keeps_its_place_whatever_comes_and_goes() {
    let mut rib = rib();
    for n in 0..1000 {
        learn(&mut rib, 1, nth(n), said(1, 1));
    }
    let mut seen = Vec::new();
    for from in (0..).step_by(10).take_while(|from| *from < 2000) {
        // Every third goes, others come in their places and behind them.
        for n in (from..from + 10).filter(|n| n % 3 == 0 && *n < 1000) {
            rib.unlearn(key(1), nth(n), 0);
            learn(&mut rib, 2, nth(5000 + n), said(2, 1));
            learn(&mut rib, 2, nth(9000 + n), said(2, 1));
        }
        seen.extend(rib.spots(Family::Ipv4, from..from + 10).map(|spot| spot.net));
    }
    assert!(rib.places(Family::Ipv4) < 2000, "all were looked at");
    for stayed in (0..1000).filter(|n| n % 3 != 0) {
        let met = seen.iter().filter(|net| **net == IpNet::from(nth(stayed))).count();
        assert_eq!(met, 1, "{stayed}");
    }
}

/// In the words in which the peer heard it.
#[test]
fn what_a_peer_was_told() {
    let mut rib = rib();
    rib.source(key(5), source(5, true));
    learn(&mut rib, 1, nth(1), said(1, 1));
    learn(&mut rib, 5, nth(2), said(5, 1));
    rib.originate(nth(3).into(), Some(&wish(9)));
    let mut secret = said(1, 1);
    secret.communities = vec![Community::NO_EXPORT];
    learn(&mut rib, 1, nth(4), secret);
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    assert_eq!(rib.told(key(2), Family::Ipv4).count(), 0);
    let mut ear = Ear::default();
    ear.hear(&mut rib, 2);
    let told: BTreeMap<IpNet, Attributes> =
        rib.told(key(2), Family::Ipv4).map(|view| (view.net, view.attributes.unwrap())).collect();
    assert_eq!((told.len(), &told), (3, &ear.routes));
    assert_eq!(rib.export(key(2), nth(4).into()), Some(Err(Withheld::WellKnownCommunity)));
    assert_eq!(rib.export(key(2), nth(1).into()).unwrap().as_ref(), Ok(&told[&nth(1).into()]));
    assert_eq!(rib.export(key(3), nth(1).into()), None);

    rib.retell(key(2), Family::Ipv4, exporter(2));
    assert!(rib.told(key(2), Family::Ipv4).all(|view| view.attributes.is_none()));
}

/// Told, told anew, withdrawn, not fitting: what the peer knows, since when, and what it waits for.
#[test]
fn what_a_peer_has_heard_and_when() {
    let at = |seconds: u64| Now(std::time::Duration::from_secs(seconds));
    let mut rib = rib();
    rib.now(at(10));
    rib.originate(nth(1).into(), Some(&wish(1)));
    let heard = |rib: &Rib, n: u32| {
        let heard = rib.heard(key(2), nth(n).into())?;
        let when = heard.when.map(|span| (span.from.0.as_secs(), span.until.0.as_secs()));
        Some((heard.told, heard.attributes.is_some(), when, heard.pending))
    };
    assert_eq!(heard(&rib, 1), None, "nobody listens");
    rib.open_outlet(key(2), Family::Ipv4, exporter(2));
    let pending = Some(Pending::Announcement);
    assert_eq!(heard(&rib, 1), Some((false, false, None, pending)));
    let mut ear = Ear::default();
    rib.now(at(11));
    ear.hear(&mut rib, 2);
    assert_eq!(heard(&rib, 1), Some((true, true, Some((10, 11)), None)));
    assert_eq!(heard(&rib, 2), Some((false, false, None, None)), "never heard of");

    // A change, and a neighbour whose number differs in the last bits only.
    rib.now(at(20));
    rib.originate(nth(1).into(), Some(&wish(2)));
    rib.originate(nth(2).into(), Some(&wish(1)));
    assert_eq!(heard(&rib, 1), Some((true, true, Some((10, 11)), pending)));
    ear.hear(&mut rib, 2);
    rib.now(at(30));
    rib.originate(nth(3).into(), Some(&wish(1)));
    ear.hear(&mut rib, 2);
    let exactly = |when| Some((true, true, Some((when, when)), None));
    assert_eq!([1, 2, 3].map(|n| heard(&rib, n)), [exactly(20), exactly(20), exactly(30)]);

    // A withdrawal is remembered although the prefix is gone, and its slot another's.
    rib.originate(nth(1).into(), None);
    assert_eq!(heard(&rib, 1).unwrap().3, Some(Pending::Withdrawal));
    rib.now(at(40));
    ear.hear(&mut rib, 2);
    rib.originate(nth(4).into(), Some(&wish(1)));
    assert_eq!(heard(&rib, 1), Some((false, false, Some((40, 40)), None)));
    assert_eq!(heard(&rib, 4), Some((false, false, None, pending)));
    rib.now(at(50));
    ear.hear(&mut rib, 2);

    // Everything anew: what was told stays told until it is told again.
    rib.now(at(60));
    rib.retell(key(2), Family::Ipv4, exporter(2));
    assert_eq!(heard(&rib, 4), Some((true, false, Some((50, 50)), pending)));
    ear.hear(&mut rib, 2);
    assert_eq!(heard(&rib, 4), exactly(60));

    // Attributes that fit into no message are neither told nor pending.
    let many: Vec<Community> = (0..2_000).map(Community).collect();
    let long = Origination { communities: many, ..Origination::default() };
    rib.originate(nth(5).into(), Some(&long));
    assert_eq!(heard(&rib, 5).unwrap().3, pending);
    ear.hear(&mut rib, 2);
    assert_eq!(heard(&rib, 5), Some((false, false, None, None)));
    assert!(rib.export(key(2), nth(5).into()).unwrap().is_ok());
}
