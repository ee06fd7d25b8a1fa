//! Each step decides once, by name; and the properties that make the decision one.

use proptest::prelude::*;

use super::*;

/// A path that ties with any other made so.
fn path(at: usize) -> Candidate {
    Candidate {
        at,
        ours: false,
        local_pref: 100,
        hops: 2,
        origin: Origin::Igp,
        neighbour: Some(65_000),
        med: 10,
        internal: false,
        id: Ipv4Addr::new(10, 0, 0, 5),
        clusters: 1,
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 5)),
        path_id: 5,
        peer: 5,
        lost: None,
    }
}

fn best(field: &[Candidate]) -> Option<&Candidate> {
    let mut left = field.iter().filter(|path| path.lost.is_none());
    let best = left.next();
    assert!(left.next().is_none(), "more than one is best");
    best
}

/// The change makes a path better, and this step says so; whatever comes later says the opposite.
#[test]
fn every_step_decides() {
    type Change = fn(&mut Candidate);
    let table: [(Reason, Change); 11] = [
        (Reason::Originated, |path| path.ours = true),
        (Reason::LocalPref, |path| path.local_pref = 101),
        (Reason::AsPath, |path| path.hops = 1),
        (Reason::Origin, |path| path.origin = Origin::Igp),
        (Reason::Med, |path| path.med = 9),
        (Reason::External, |path| path.internal = false),
        (Reason::RouterId, |path| path.id = Ipv4Addr::new(10, 0, 0, 4)),
        (Reason::ClusterList, |path| path.clusters = 0),
        (Reason::PeerAddress, |path| path.address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 4))),
        (Reason::PathId, |path| path.path_id = 4),
        (Reason::Peer, |path| path.peer = 4),
    ];
    let middling = |at| Candidate { origin: Origin::Egp, internal: true, ..path(at) };
    for (step, (reason, change)) in table.iter().enumerate() {
        let (mut better, mut worse) = (middling(0), middling(1));
        change(&mut better);
        for (_, later) in table.iter().skip(step + 1) {
            later(&mut worse);
        }
        for field in [[better.clone(), worse.clone()], [worse, better]] {
            let mut field = field;
            assert_eq!(decide(&mut field), *reason);
            assert_eq!(best(&field).unwrap().at, 0, "{reason}");
            assert_eq!(field.iter().find(|path| path.at == 1).unwrap().lost, Some(*reason));
        }
    }
}

#[test]
fn one_path_needs_no_reason() {
    let mut field = [path(0)];
    assert_eq!(decide(&mut field), Reason::Only);
    assert!(field[0].equal());
    assert_eq!(decide(&mut []), Reason::Only);
}

#[test]
fn what_is_not_said_counts_as_the_default() {
    let mut attributes =
        flock_bgp_wire::Attributes::new(Origin::Igp, flock_bgp_wire::NextHop::V4([1; 4].into()));
    attributes.originator_id = Some(Ipv4Addr::new(1, 1, 1, 1));
    let source = Source {
        internal: true,
        id: Ipv4Addr::new(9, 9, 9, 9),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let path = Path::learned(crate::event::PeerKey(3), 7, Ok(0));
    let candidate = Candidate::new(0, &path, &Set::new(attributes), source);
    assert_eq!((candidate.local_pref, candidate.med, candidate.neighbour), (100, 0, None));
    // RFC 4456 §9: the originator's identifier instead of the reflector's.
    assert_eq!(candidate.id, Ipv4Addr::new(1, 1, 1, 1));
    assert_eq!((candidate.path_id, candidate.peer), (7, 3));
}

/// RFC 4271 §9.1.2.2 c: not between ASes.
#[test]
fn med_of_another_as_does_not_count() {
    let cheap = Candidate { neighbour: Some(1), med: 0, id: [10, 0, 0, 9].into(), ..path(0) };
    let dear = Candidate { neighbour: Some(2), med: 99, id: [10, 0, 0, 1].into(), ..path(1) };
    let mut field = [cheap, dear];
    assert_eq!(decide(&mut field), Reason::RouterId);
    assert_eq!(best(&field).unwrap().at, 1);
}

/// The textbook case: by pairs A beats B (router id), B beats C (router id), C beats A (MED), so
/// whoever comes last would win.
#[test]
fn med_makes_no_circle() {
    let a = Candidate { neighbour: Some(1), med: 20, id: [10, 0, 0, 1].into(), ..path(0) };
    let b = Candidate { neighbour: Some(2), med: 0, id: [10, 0, 0, 2].into(), ..path(1) };
    let c = Candidate { neighbour: Some(1), med: 10, id: [10, 0, 0, 3].into(), ..path(2) };
    for order in [[&a, &b, &c], [&b, &c, &a], [&c, &a, &b], [&c, &b, &a]] {
        let mut field = order.map(Clone::clone);
        decide(&mut field);
        assert_eq!(best(&field).unwrap().at, 1);
        assert_eq!(field.iter().find(|path| path.at == 0).unwrap().lost, Some(Reason::Med));
    }
}

#[test]
fn equals_differ_only_by_who_they_are() {
    let mut field = [
        path(0),
        Candidate { id: [10, 0, 0, 9].into(), peer: 6, ..path(1) },
        Candidate { address: IpAddr::V4([192, 0, 2, 9].into()), peer: 7, ..path(2) },
        Candidate { neighbour: Some(65_001), med: 999, id: [10, 0, 0, 9].into(), ..path(3) },
        Candidate { med: 11, ..path(4) },
        Candidate { internal: true, med: 10, ..path(5) },
        Candidate { hops: 3, ..path(6) },
    ];
    decide(&mut field);
    let equal: Vec<usize> = field.iter().filter(|path| path.equal()).map(|path| path.at).collect();
    assert_eq!(equal, [0, 1, 2, 3]);
}

/// Few values, so that ties are common.
fn any_path() -> impl Strategy<Value = Candidate> {
    let first = (prop::bool::weighted(0.1), 99..101_u32, 1..3_usize, 0..2_u8, 0..3_u32, 0..3_u32);
    let last = (any::<bool>(), 0..2_u8, 0..2_usize, 0..2_u8);
    (first, last).prop_map(
        |((ours, local_pref, hops, origin, asn, med), (internal, id, clusters, address))| {
            Candidate {
                ours,
                local_pref,
                hops,
                origin: if origin == 0 { Origin::Igp } else { Origin::Incomplete },
                neighbour: (asn > 0).then_some(asn),
                med,
                internal,
                id: [10, 0, 0, id].into(),
                clusters,
                address: IpAddr::V4([192, 0, 2, address].into()),
                ..path(0)
            }
        },
    )
}

/// Paths as a prefix has them: no two of the same teller with the same path identifier.
fn any_field() -> impl Strategy<Value = Vec<Candidate>> {
    prop::collection::vec(any_path(), 1..12).prop_map(|mut field| {
        for (at, path) in field.iter_mut().enumerate() {
            path.at = at;
            path.path_id = u32::try_from(at / 3).unwrap();
            path.peer = u16::try_from(at % 3).unwrap();
        }
        field
    })
}

/// What came of each path, by number.
fn outcome(mut field: Vec<Candidate>) -> (Reason, Vec<Option<Reason>>) {
    let reason = decide(&mut field);
    assert!(best(&field).is_some());
    field.sort_by_key(|path| path.at);
    (reason, field.into_iter().map(|path| path.lost).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_order_of_arrival_does_not_matter(
        (field, shuffled) in any_field().prop_flat_map(|field| {
            (Just(field.clone()), Just(field).prop_shuffle())
        })
    ) {
        prop_assert_eq!(outcome(field), outcome(shuffled));
    }

    /// Taking a loser away that lost by a step before MED changes nothing; nor does taking any
    /// loser away where there is no MED. Together with the one above: the order is total.
    #[test]
    fn losers_do_not_matter(field in any_field(), without_med: bool) {
        let mut field = field;
        if without_med {
            field.iter_mut().for_each(|path| path.med = 0);
        }
        let (_, lost) = outcome(field.clone());
        let winner = lost.iter().position(Option::is_none).unwrap();
        for (at, step) in lost.iter().enumerate() {
            if step.is_some_and(|step| without_med || step < Reason::Med) {
                let mut rest = field.clone();
                rest.remove(at);
                decide(&mut rest);
                prop_assert_eq!(best(&rest).unwrap().at, winner);
            }
        }
    }

    /// Any two paths are told apart, and the better of two is better than whatever the worse beats.
    #[test]
    fn the_order_is_total(a in any_path(), b in any_path(), c in any_path()) {
        let field: Vec<Candidate> = [a, b, c].into_iter().enumerate().map(|(at, path)| {
            Candidate { at, peer: u16::try_from(at).unwrap(), med: 0, ..path }
        }).collect();
        let beats = |a: usize, b: usize| {
            let mut pair = [field[a].clone(), field[b].clone()];
            decide(&mut pair);
            best(&pair).unwrap().at == a
        };
        for (a, b, c) in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)] {
            prop_assert!(beats(a, b) != beats(b, a));
            if beats(a, b) && beats(b, c) {
                prop_assert!(beats(a, c));
            }
        }
    }
}
