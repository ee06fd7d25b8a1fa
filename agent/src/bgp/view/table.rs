//! Routes as they are, in the words of `bgp show routes`. Long tables are asked for in pieces, so
//! that the speaker is not kept from its work.

use std::net::IpAddr;
use std::sync::Arc;

use flock_bgp::{Attributes, Family, NextHop, PathView, RouteView, Speaker, ToldView};
use flock_bgp_io::{Gone, Handle};
use ipnet::IpNet;

use super::Names;
use crate::cli::bgp::{RouteRow, RouteSource, RoutesArgs, Which};

/// Routes looked at in one question.
const AT_ONCE: usize = 2_000;

/// How many prefixes have an accepted path that a peer told.
pub(super) async fn learned(handle: &Handle) -> Result<usize, Gone> {
    let mut total = 0;
    for family in Family::ALL {
        let mut after = None;
        loop {
            let piece = move |speaker: &Speaker| {
                let (mut found, mut last) = (0, None);
                for route in speaker.routes(family, after).take(AT_ONCE) {
                    last = Some(route.position);
                    let used = |path: &PathView<'_>| path.peer.is_some() && path.withheld.is_none();
                    found += usize::from(route.paths.iter().any(used));
                }
                (found, last)
            };
            let (found, last) = handle.query(piece).await?;
            total += found;
            after = last;
            if last.is_none() {
                break;
            }
        }
    }
    Ok(total)
}

/// Originated and received paths.
pub(super) async fn known(
    handle: &Handle,
    names: &Arc<Names>,
    args: &Arc<RoutesArgs>,
) -> Result<Vec<(IpNet, RouteRow)>, Gone> {
    let mut rows = Vec::new();
    for family in Family::ALL {
        let mut after = None;
        loop {
            let (names, args) = (names.clone(), args.clone());
            let piece = move |speaker: &Speaker| {
                let mut last = None;
                let mut rows = Vec::new();
                for route in speaker.routes(family, after).take(AT_ONCE) {
                    last = Some(route.position);
                    if args.prefix.is_none_or(|wanted| wanted.admits(&route.net)) {
                        rows.extend(paths(&route, &names, &args));
                    }
                }
                (rows, last)
            };
            let (more, last) = handle.query(piece).await?;
            rows.extend(more);
            after = last;
            if last.is_none() {
                break;
            }
        }
    }
    Ok(rows)
}

fn paths(route: &RouteView<'_>, names: &Names, args: &RoutesArgs) -> Vec<(IpNet, RouteRow)> {
    let asked = |path: &&PathView<'_>| {
        let learned = path.peer.is_some();
        let which = match args.which {
            Which::All | Which::Advertised => true,
            Which::Received => learned,
            Which::Originated => !learned,
        };
        let told_by = path.peer.and_then(|key| names.get(&key));
        let by =
            args.peer.as_ref().is_none_or(|peer| told_by.is_some_and(|n| **n == *peer.as_str()));
        which && by
    };
    let rows = route.paths.iter().filter(asked).map(|path| {
        let learned = path.peer.is_some();
        let source = if learned { RouteSource::Learned } else { RouteSource::Local };
        // What we originate has no next hop before it is told.
        let mut row = attributes(route.net, path.attributes, source, learned);
        row.peer = path.peer.and_then(|key| names.get(&key)).map(|name| name.to_string());
        row.best = path.best;
        row.equal = path.equal;
        row.stale = path.stale;
        row.refused = path.withheld.map(|why| why.to_string());
        (route.net, row)
    });
    rows.collect()
}

/// What peers were told.
pub(super) async fn advertised(
    handle: &Handle,
    names: &Arc<Names>,
    args: &Arc<RoutesArgs>,
) -> Result<Vec<(IpNet, RouteRow)>, Gone> {
    let mut rows = Vec::new();
    let asked = |name: &str| args.peer.as_ref().is_none_or(|peer| peer.as_str() == name);
    for (key, name) in names.iter().filter(|(_, name)| asked(name)) {
        for family in Family::ALL {
            let (key, name, args) = (*key, name.clone(), args.clone());
            let told = move |speaker: &Speaker| {
                let told = speaker.advertised(key, family);
                let told = told.filter(|t| args.prefix.is_none_or(|w| w.admits(&t.net)));
                told.map(|told| told_row(&told, &name)).collect::<Vec<_>>()
            };
            rows.extend(handle.query(told).await?);
        }
    }
    Ok(rows)
}

fn told_row(told: &ToldView, peer: &str) -> (IpNet, RouteRow) {
    let mut row = attributes(told.net, told.attributes.as_ref(), RouteSource::Local, true);
    row.peer = Some(peer.to_owned());
    row.best = true;
    (told.net, row)
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
