//! UPDATEs into a RIB, seen by what it counts and what it would tell the kernel.

use std::collections::BTreeMap;

use flock_bgp_wire::{
    AsPath, Attributes, Disposition, Family, Fault, MpReach, MpUnreach, NextHop, Nlri, Origin,
    Update,
};
use ipnet::IpNet;

use super::{Inbound, Taken};
use crate::config::{AddressRule, Import};
use crate::event::PeerKey;
use crate::policy::import::Judge;
use crate::rib::{Rib, Source};

const PEER: PeerKey = PeerKey(3);
const THEM: u32 = 65000;

fn rule(net: &str, max: u8) -> AddressRule {
    let net: IpNet = net.parse().unwrap();
    AddressRule { net, min: net.prefix_len(), max }
}

fn judge() -> Judge {
    Judge {
        import: Some(Import {
            accept: vec![rule("10.0.0.0/8", 32), rule("2001:db8::/32", 128)],
            max_prefixes: 1000,
        }),
        local_asn: 65001,
        local_id: "10.0.0.11".parse().unwrap(),
        peer_asn: THEM,
        peer_address: "192.0.2.1".parse().unwrap(),
        local_address: "192.0.2.2".parse().unwrap(),
        role: None,
        multihop: false,
        networks: None,
    }
}

fn v4(address: &str) -> NextHop {
    NextHop::V4(address.parse().unwrap())
}

fn v6(global: &str) -> NextHop {
    NextHop::V6 { global: global.parse().unwrap(), link_local: None }
}

fn attributes() -> Attributes {
    Attributes {
        as_path: AsPath::sequence([THEM]),
        ..Attributes::new(Origin::Igp, v4("192.0.2.1"))
    }
}

fn empty() -> Update<'static> {
    Update {
        withdrawn: Nlri::EMPTY,
        mp_unreach: None,
        announced: Nlri::EMPTY,
        mp_reach: None,
        attributes: None,
        faults: vec![],
        end_of_rib: None,
    }
}

/// 10.1.0.0/16 and the like, as on the wire.
const TEN_1: &[u8] = &[16, 10, 1];
const TEN_2: &[u8] = &[16, 10, 2];
const ELEVEN: &[u8] = &[16, 11, 1];
/// 2001:db8:1::/48.
const SIX_1: &[u8] = &[48, 0x20, 0x01, 0x0D, 0xB8, 0, 1];

fn nets<N: flock_bgp_wire::Net>(bytes: &[u8]) -> Nlri<'_, N> {
    Nlri::check(bytes, false).unwrap()
}

/// A RIB with one peer, and what it told the kernel so far.
struct Table {
    rib: Rib,
    judge: Judge,
    families: [bool; 2],
    kernel: BTreeMap<IpNet, Vec<NextHop>>,
}

impl Table {
    fn new() -> Self {
        let mut rib = Rib::new(1, true);
        let address = "192.0.2.1".parse().unwrap();
        rib.source(PEER, Source { internal: false, id: "10.0.0.1".parse().unwrap(), address });
        Self { rib, judge: judge(), families: [true; 2], kernel: BTreeMap::new() }
    }

    fn take(&mut self, update: Update<'_>) -> Taken {
        let inbound =
            Inbound { peer: PEER, judge: &self.judge, families: self.families, keep_refused: 10 };
        let taken = inbound.take(&mut self.rib, update);
        while let Some(change) = self.rib.poll_route() {
            if change.next_hops.is_empty() {
                self.kernel.remove(&change.net);
            } else {
                self.kernel.insert(change.net, change.next_hops);
            }
        }
        taken
    }

    /// Received and accepted.
    fn counts(&self, family: Family) -> (u32, u32) {
        let counts = self.rib.counts(PEER, family);
        (counts.received, counts.accepted)
    }

    fn kernel(&self) -> Vec<(String, NextHop)> {
        self.kernel
            .iter()
            .map(|(net, next_hops)| {
                assert_eq!(next_hops.len(), 1, "{net}");
                (net.to_string(), next_hops[0])
            })
            .collect()
    }
}

fn route(net: &str, next_hop: NextHop) -> (String, NextHop) {
    (net.to_owned(), next_hop)
}

#[test]
fn announced_replaced_withdrawn() {
    let mut table = Table::new();
    let both = [TEN_1, TEN_2].concat();
    let taken =
        table.take(Update { announced: nets(&both), attributes: Some(attributes()), ..empty() });
    assert_eq!(taken, Taken { announced: [2, 0], ..Taken::default() });
    assert_eq!(table.counts(Family::Ipv4), (2, 2));
    let peer = v4("192.0.2.1");
    assert_eq!(table.kernel(), [route("10.1.0.0/16", peer), route("10.2.0.0/16", peer)]);

    let other = v4("192.0.2.9");
    let replaced = Attributes { next_hop: other, ..attributes() };
    table.take(Update { announced: nets(TEN_1), attributes: Some(replaced), ..empty() });
    assert_eq!(table.kernel(), [route("10.1.0.0/16", other), route("10.2.0.0/16", peer)]);

    let taken = table.take(Update { withdrawn: nets(&both), ..empty() });
    assert_eq!(taken, Taken { withdrawn: [2, 0], ..Taken::default() });
    assert_eq!(table.counts(Family::Ipv4), (0, 0));
    assert_eq!(table.kernel(), []);
}

#[test]
fn each_run_of_prefixes_has_its_own_next_hop() {
    let mut table = Table::new();
    let taken = table.take(Update {
        announced: nets(TEN_1),
        mp_reach: Some(MpReach::V6(v6("2001:db8:f::1"), nets(SIX_1))),
        attributes: Some(attributes()),
        ..empty()
    });
    assert_eq!(taken, Taken { announced: [1, 1], ..Taken::default() });
    let expected =
        [route("10.1.0.0/16", v4("192.0.2.1")), route("2001:db8:1::/48", v6("2001:db8:f::1"))];
    assert_eq!(table.kernel(), expected);

    // RFC 8950, in the same family as the classic ones.
    table.take(Update {
        announced: nets(TEN_1),
        mp_reach: Some(MpReach::V4(v6("2001:db8:f::2"), nets(TEN_2))),
        mp_unreach: Some(MpUnreach::V6(nets(SIX_1))),
        attributes: Some(attributes()),
        ..empty()
    });
    let expected =
        [route("10.1.0.0/16", v4("192.0.2.1")), route("10.2.0.0/16", v6("2001:db8:f::2"))];
    assert_eq!(table.kernel(), expected);
}

#[test]
fn the_next_hop_of_mp_reach_is_the_one_that_is_judged() {
    let mut table = Table::new();
    // NEXT_HOP is ours, and so refused; that of MP_REACH_NLRI is fine.
    let ours = Attributes { next_hop: v4("192.0.2.2"), ..attributes() };
    table.take(Update {
        announced: nets(TEN_1),
        mp_reach: Some(MpReach::V6(v6("2001:db8:f::1"), nets(SIX_1))),
        attributes: Some(ours),
        ..empty()
    });
    assert_eq!(table.counts(Family::Ipv4), (1, 0));
    assert_eq!(table.counts(Family::Ipv6), (1, 1));
    // And the other way round.
    table.take(Update {
        announced: nets(TEN_1),
        mp_reach: Some(MpReach::V6(v6("::1"), nets(SIX_1))),
        attributes: Some(attributes()),
        ..empty()
    });
    assert_eq!(table.counts(Family::Ipv4), (1, 1));
    assert_eq!(table.counts(Family::Ipv6), (1, 0));
    assert_eq!(table.kernel(), [route("10.1.0.0/16", v4("192.0.2.1"))]);
}

#[test]
fn withdrawals_come_first() {
    let mut table = Table::new();
    let taken = table.take(Update {
        withdrawn: nets(TEN_1),
        mp_unreach: Some(MpUnreach::V4(nets(TEN_1))),
        announced: nets(TEN_1),
        attributes: Some(attributes()),
        ..empty()
    });
    assert_eq!(taken, Taken { announced: [1, 0], withdrawn: [2, 0], ..Taken::default() });
    assert_eq!(table.counts(Family::Ipv4), (1, 1));
}

#[test]
fn refused_by_prefix_or_as_a_whole() {
    let mut table = Table::new();
    let both = [TEN_1, ELEVEN].concat();
    let update = || Update { announced: nets(&both), attributes: Some(attributes()), ..empty() };
    table.take(update());
    assert_eq!(table.counts(Family::Ipv4), (2, 1), "no rule for 11.1.0.0/16");

    // A route that was good and comes again with our AS in its path is refused, not kept.
    let looped = Attributes { as_path: AsPath::sequence([THEM, 65001]), ..attributes() };
    let taken = table.take(Update { attributes: Some(looped), ..update() });
    assert_eq!(taken.announced, [2, 0]);
    assert_eq!(table.counts(Family::Ipv4), (2, 0));
    assert_eq!(table.kernel(), []);
}

#[test]
fn without_usable_attributes_the_announced_are_withdrawn() {
    let mut table = Table::new();
    let update = || Update {
        announced: nets(TEN_1),
        mp_reach: Some(MpReach::V6(v6("2001:db8:f::1"), nets(SIX_1))),
        attributes: Some(attributes()),
        ..empty()
    };
    table.take(update());
    assert_eq!(table.kernel.len(), 2);
    let fault =
        Fault { attribute: 1, disposition: Disposition::TreatAsWithdraw, what: "bad ORIGIN" };
    let bad = Update { attributes: None, faults: vec![fault.clone()], ..update() };
    let taken = table.take(bad);
    let expected = Taken { withdrawn: [1, 1], faults: vec![fault], ..Taken::default() };
    assert_eq!(taken, expected);
    assert_eq!((table.counts(Family::Ipv4), table.counts(Family::Ipv6)), ((0, 0), (0, 0)));

    // The same for IPv4 by MP_REACH_NLRI.
    let four = || Update {
        mp_reach: Some(MpReach::V4(v4("192.0.2.1"), nets(TEN_1))),
        attributes: Some(attributes()),
        ..empty()
    };
    table.take(four());
    assert_eq!(table.counts(Family::Ipv4), (1, 1));
    table.take(Update { attributes: None, ..four() });
    assert_eq!(table.counts(Family::Ipv4), (0, 0));
}

#[test]
fn families_that_were_not_negotiated_are_ignored() {
    let everything = || Update {
        withdrawn: nets(TEN_2),
        mp_unreach: Some(MpUnreach::V6(nets(SIX_1))),
        announced: nets(TEN_1),
        mp_reach: Some(MpReach::V6(v6("2001:db8:f::1"), nets(SIX_1))),
        attributes: Some(attributes()),
        ..empty()
    };
    for (families, announced, withdrawn) in
        [([true, false], [1, 0], [1, 0]), ([false, true], [0, 1], [0, 1])]
    {
        let mut table = Table { families, ..Table::new() };
        let taken = table.take(everything());
        assert_eq!(taken, Taken { announced, withdrawn, ignored: 2, ..Taken::default() });
        for family in Family::ALL {
            let one = announced[family.index()];
            assert_eq!(table.counts(family), (one, one), "{family}");
            let mark = table.take(Update { end_of_rib: Some(family), ..empty() });
            assert_eq!(mark.end_of_rib, families[family.index()].then_some(family));
        }
    }
}

#[test]
fn several_paths_of_a_prefix() {
    let mut table = Table::new();
    // RFC 7911 §3: path 1 and path 2 of 10.1.0.0/16.
    let paths = [&[0, 0, 0, 1][..], TEN_1, &[0, 0, 0, 2], TEN_1].concat();
    let announced = Nlri::check(&paths, true).unwrap();
    table.take(Update { announced, attributes: Some(attributes()), ..empty() });
    assert_eq!(table.counts(Family::Ipv4), (2, 2));
    let first = [&[0, 0, 0, 1][..], TEN_1].concat();
    let withdrawn = Nlri::check(&first, true).unwrap();
    table.take(Update { withdrawn, ..empty() });
    assert_eq!(table.counts(Family::Ipv4), (1, 1));
    assert_eq!(table.kernel(), [route("10.1.0.0/16", v4("192.0.2.1"))]);
}

#[test]
fn a_set_is_kept_no_longer_than_its_routes() {
    let mut table = Table::new();
    let probe = |table: &mut Table| {
        let id = table.rib.intern(Attributes::new(Origin::Egp, v4("192.0.2.200")));
        table.rib.release(id);
        id
    };
    let before = probe(&mut table);
    let both = [TEN_1, TEN_2].concat();
    let update = Update { announced: nets(&both), attributes: Some(attributes()), ..empty() };
    table.take(update);
    assert_ne!(probe(&mut table), before, "its place is taken");
    table.take(Update { withdrawn: nets(&both), ..empty() });
    assert_eq!(probe(&mut table), before, "and free again");
    // Nothing but refused ones.
    table.take(Update { announced: nets(ELEVEN), attributes: Some(attributes()), ..empty() });
    assert_eq!(probe(&mut table), before);
}
