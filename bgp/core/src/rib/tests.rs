//! What peers and the kernel hear, read back from the bytes that they would get.

mod kernel;
mod model;
mod outlets;
mod paths;
mod views;

use std::collections::BTreeMap;

use flock_bgp_wire::{AsPath, Context, Message, MpReach, MpUnreach, Update, decode, frame};

use super::*;
use crate::config::Export;

const US: u32 = 65_001;
const FORM: Form = Form { four_octet_as: true, max: frame::MAX };

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn v4(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

/// The `n`th of a million prefixes.
fn nth(n: u32) -> Ipv4Net {
    Ipv4Net::new(Ipv4Addr::from(0x0A00_0000 + (n << 4)), 28).unwrap()
}

fn key(peer: u16) -> PeerKey {
    PeerKey(peer)
}

/// A peer in AS 65000 + its number, or in ours.
fn source(peer: u16, internal: bool) -> Source {
    let [high, low] = peer.to_be_bytes();
    Source {
        internal,
        id: Ipv4Addr::new(9, 9, high, low),
        address: IpAddr::V4(Ipv4Addr::new(192, 0, high, low)),
    }
}

/// A route of a peer; `tag` makes it another one.
fn said(peer: u16, tag: u32) -> Attributes {
    let next_hop = NextHop::V4(Ipv4Addr::new(192, 0, 2, u8::try_from(peer).unwrap()));
    let mut attributes = Attributes::new(Origin::Igp, next_hop);
    attributes.as_path = AsPath::sequence([65_100 + u32::from(peer), 64_000 + tag]);
    attributes
}

fn exporter(peer: u16) -> Exporter {
    Exporter {
        peer: key(peer),
        local_asn: US,
        peer_asn: 65_100 + u32::from(peer),
        export: Export::default(),
        role: None,
        next_hops: [
            Some(NextHop::V4(Ipv4Addr::new(10, 0, 0, 1))),
            Some(NextHop::V6 { global: "2001:db8::1".parse().unwrap(), link_local: None }),
        ],
        transit: true,
        drain: false,
    }
}

/// A table with external peers 1 to 4.
fn rib() -> Rib {
    let mut rib = Rib::new(7, true);
    for peer in 1..=4 {
        rib.source(key(peer), source(peer, false));
    }
    rib
}

fn learn<N: Net>(rib: &mut Rib, peer: u16, net: N, attributes: Attributes) {
    let id = rib.intern(attributes);
    rib.learn(key(peer), net, 0, id);
    rib.release(id);
}

fn wish(community: u32) -> Origination {
    Origination {
        communities: vec![flock_bgp_wire::Community(community)],
        ..Origination::default()
    }
}

/// What a peer has made of all that it heard.
#[derive(Debug, Default)]
struct Ear {
    routes: BTreeMap<IpNet, Attributes>,
    /// Messages, announced and withdrawn prefixes of the last time.
    updates: usize,
    announced: Vec<IpNet>,
    withdrawn: Vec<IpNet>,
}

impl Ear {
    /// Takes everything that is pending, `room` octets at a time.
    fn hear_in(&mut self, rib: &mut Rib, peer: u16, form: Form, room: usize) {
        (self.updates, self.announced, self.withdrawn) = (0, Vec::new(), Vec::new());
        for family in Family::ALL {
            loop {
                let mut out = BytesMut::new();
                let done = rib.transmit(key(peer), family, form, room, &mut out);
                assert!(out.len() < room + form.max, "room is kept");
                assert!(done || !out.is_empty(), "more is pending and nothing is said");
                self.read(&out, form);
                if done {
                    break;
                }
            }
        }
    }

    fn hear(&mut self, rib: &mut Rib, peer: u16) {
        self.hear_in(rib, peer, FORM, 1 << 16);
    }

    fn read(&mut self, mut bytes: &[u8], form: Form) {
        let context = Context {
            four_octet_as: true,
            extended_next_hop: true,
            internal: true,
            ..Context::default()
        };
        while !bytes.is_empty() {
            let length = frame::length(bytes, form.max > frame::MAX).unwrap().unwrap();
            let (message, rest) = bytes.split_at(length);
            bytes = rest;
            let Ok(Message::Update(update)) = decode(message, &context) else {
                panic!("no UPDATE")
            };
            self.take(*update);
        }
    }

    fn take(&mut self, update: Update<'_>) {
        assert_eq!(update.faults, []);
        self.updates += 1;
        let mut gone: Vec<IpNet> = update.withdrawn.map(|received| received.net.into()).collect();
        match update.mp_unreach {
            Some(MpUnreach::V4(nlri)) => gone.extend(nlri.map(|it| IpNet::V4(it.net))),
            Some(MpUnreach::V6(nlri)) => gone.extend(nlri.map(|it| IpNet::V6(it.net))),
            None => {}
        }
        for net in &gone {
            assert!(self.routes.remove(net).is_some(), "{net} was not announced before");
        }
        self.withdrawn.extend(gone);
        let mut new: Vec<IpNet> = update.announced.map(|received| received.net.into()).collect();
        match update.mp_reach {
            Some(MpReach::V4(_, nlri)) => new.extend(nlri.map(|it| IpNet::V4(it.net))),
            Some(MpReach::V6(_, nlri)) => new.extend(nlri.map(|it| IpNet::V6(it.net))),
            None => {}
        }
        for net in &new {
            self.routes.insert(*net, update.attributes.clone().unwrap());
        }
        self.announced.extend(new);
    }
}

/// Nothing is known and nothing was told: nothing may be left.
fn assert_empty(rib: &Rib) {
    assert_eq!(rib.shared.sets.len(), 0, "attribute sets are left");
    assert_eq!((rib.ipv4.prefixes.len(), rib.ipv6.prefixes.len()), (0, 0), "prefixes are left");
    assert_eq!((rib.ipv4.prefixes.many(), rib.ipv6.prefixes.many()), ((0, 0), (0, 0)));
    for kernel in [rib.ipv4.kernel(), rib.ipv6.kernel()].into_iter().flatten() {
        assert_eq!(kernel.sets(), 0, "sets of next hops are left");
    }
}
