//! What the speaker knows of a prefix, in the words of `bgp show routes`.

use std::net::IpAddr;

use flock_bgp::{Attributes, NextHop, PeerKey, Speaker};
use ipnet::IpNet;

use super::Names;
use super::asked::Asked;
use crate::cli::bgp::{RouteRow, RouteSource};

/// A row, and the prefix that it is of.
pub(super) type Row = (IpNet, RouteRow);

/// Originated and received paths of a prefix.
pub(super) fn known(
    speaker: &Speaker,
    net: IpNet,
    asked: &Asked,
    names: &Names,
    rows: &mut Vec<Row>,
) {
    let Some(route) = speaker.route(net) else { return };
    for path in route.paths.iter().filter(|path| asked.admits_path(path)) {
        let learned = path.peer.is_some();
        let source = if learned { RouteSource::Learned } else { RouteSource::Local };
        // What we originate has no next hop before it is told.
        let mut row = attributes(net, path.attributes, source, learned);
        row.peer = path.peer.and_then(|key| names.get(&key)).map(|name| name.to_string());
        row.best = path.best;
        row.equal = path.equal;
        row.stale = path.stale;
        row.refused = path.withheld.map(|why| why.to_string());
        rows.push((net, row));
    }
}

/// What these peers were told of a prefix.
pub(super) fn told(
    speaker: &Speaker,
    net: IpNet,
    peers: &[PeerKey],
    names: &Names,
    rows: &mut Vec<Row>,
) {
    for peer in peers {
        let Some(told) = speaker.told_of(*peer, net) else { continue };
        let mut row = attributes(net, told.attributes.as_ref(), RouteSource::Local, true);
        row.peer = names.get(peer).map(|name| name.to_string());
        row.best = true;
        rows.push((net, row));
    }
}

/// About how much room a row takes. Peers choose how long their paths are.
pub(super) fn weight(row: &RouteRow) -> usize {
    let lists = row.as_path.len() + row.communities.len() + row.large_communities.len();
    512 + 32 * lists
}

fn attributes(
    prefix: IpNet,
    attributes: Option<&Attributes>,
    source: RouteSource,
    has_next_hop: bool,
) -> RouteRow {
    let texts = |of: &dyn Fn(&Attributes) -> Vec<String>| attributes.map(of).unwrap_or_default();
    RouteRow {
        prefix: prefix.to_string(),
        source,
        owner: None,
        peer: None,
        next_hops: attributes
            .filter(|_| has_next_hop)
            .map(|attributes| next_hop(&attributes.next_hop).to_string())
            .into_iter()
            .collect(),
        as_path: attributes
            .map(|a| a.as_path.segments.iter().flat_map(|s| s.asns.iter().copied()).collect())
            .unwrap_or_default(),
        communities: texts(&|a| a.communities.iter().map(ToString::to_string).collect()),
        large_communities: texts(&|a| {
            a.large_communities.iter().map(ToString::to_string).collect()
        }),
        med: attributes.and_then(|attributes| attributes.med),
        local_pref: attributes.and_then(|attributes| attributes.local_pref),
        best: false,
        equal: false,
        stale: false,
        refused: None,
        installed: None,
    }
}

/// The address that all know, where there is one.
fn next_hop(next_hop: &NextHop) -> IpAddr {
    match next_hop {
        NextHop::V4(address) => IpAddr::V4(*address),
        NextHop::V6 { global, link_local: Some(near) } if global.is_unspecified() => {
            IpAddr::V6(*near)
        }
        NextHop::V6 { global, .. } => IpAddr::V6(*global),
    }
}
