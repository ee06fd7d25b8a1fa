//! `spec.bgp` but for the single peer. Decides which AS numbers, identifiers and ports are
//! possible, and that peers can be told apart; leaves each peer to `peer`.

use std::net::Ipv4Addr;

use super::community;
use super::model::{Bgp, Peer};
use super::problem::At;
use super::{bounds, peer, schema};

/// RFC 4271 §8.2.1.3; also what IANA assigned.
pub(super) const PORT: u16 = 179;

pub(super) fn read(bgp: &schema::Bgp, mut at: At<'_>) -> Option<Bgp> {
    let own = match bgp.asn {
        Some(number) => asn(number, &mut at.key("asn")),
        None => {
            at.key("asn").amiss("it is missing; write the AS number of this node");
            None
        }
    };
    let router_id = bgp.router_id.as_ref().and_then(|text| router_id(text, at.key("routerId")));
    let listen_port = match bgp.listen_port {
        Some(port) => at.key("listenPort").number(port, 0, u16::MAX).filter(|port| *port != 0),
        None => Some(PORT),
    };
    let communities = community::read(bgp.communities.as_deref(), at.key("communities"));
    let peers = peers(bgp.peers.as_deref(), at.key("peers"));
    Some(Bgp {
        asn: own?,
        router_id,
        listen_port,
        announce_pods: bgp.announce_pods.unwrap_or(false),
        communities,
        peers,
    })
}

/// An AS number that somebody can have. Refused are 0 (RFC 7607), AS_TRANS (RFC 6793 §4.2.2) and
/// the last of each size (RFC 7300).
pub(super) fn asn(number: i64, at: &mut At<'_>) -> Option<u32> {
    let reserved = match number {
        0 => "AS 0 is nobody's (RFC 7607)",
        23_456 => "AS 23456 is AS_TRANS, a placeholder (RFC 6793)",
        65_535 | 4_294_967_295 => "the last AS number of its size is reserved (RFC 7300)",
        _ => return at.number(number, 1, u32::MAX),
    };
    at.wrong(number, format!("{reserved}; write the AS number in use, for example 65001"));
    None
}

/// Any but zero (RFC 6286 §2.1).
fn router_id(text: &str, mut at: At<'_>) -> Option<Ipv4Addr> {
    match text.trim().parse::<Ipv4Addr>() {
        Ok(id) if !id.is_unspecified() => Some(id),
        Ok(_) => {
            at.wrong(text, "zero is no identifier; leave it out to have one derived");
            None
        }
        Err(_) => {
            at.wrong(text, "not a BGP identifier; write it like an IPv4 address, or leave it out");
            None
        }
    }
}

fn peers(list: Option<&[schema::Peer]>, mut at: At<'_>) -> Vec<Peer> {
    let mut found: Vec<Peer> = Vec::new();
    let list = at.at_most(bounds::PEERS, list);
    for (i, wish) in list.iter().enumerate() {
        let mut at = at.index(i);
        let twice = |name: &Option<String>, get: fn(&schema::Peer) -> &Option<String>| {
            name.is_some() && list.iter().take(i).any(|other| get(other) == name)
        };
        if twice(&wish.name, |peer| &peer.name) {
            let name = wish.name.as_deref().unwrap_or_default();
            at.key("name").wrong(name, "another peer has this name; names are unique");
        }
        let Some(peer) = peer::read(wish, &mut at) else {
            continue;
        };
        if let Some(other) = found.iter().find(|other| other.endpoint == peer.endpoint) {
            let (key, value) = peer::endpoint_words(&peer.endpoint);
            at.key(key)
                .wrong(value, format!("peer {:?} has it already; one session each", other.name));
        }
        found.push(peer);
    }
    found
}
