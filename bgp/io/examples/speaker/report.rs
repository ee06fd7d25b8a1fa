//! What happens and what is, as JSON. Decides the words; nothing else.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use flock_bgp::{
    Attributes, DownReason, Family, FamilyStatus, LastError, NegotiatedStatus, NextHop, Notice,
    Now, PathView, PeerKey, PeerStatus, RouteChange, RouteView, Speaker,
};
use flock_bgp_io::{Handle, Notices, Told};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Routes looked at in one question, so that the speaker is not kept from its work.
const ROUTES_AT_ONCE: usize = 2_000;

/// Reports what happens, until the speaker ends.
pub(crate) async fn all(
    handle: &Handle,
    mut notices: Notices,
    mut routes: mpsc::Receiver<RouteChange>,
    lines: &mpsc::Sender<Value>,
) {
    let mut changes = Vec::new();
    loop {
        tokio::select! {
            told = notices.next() => {
                let Some(told) = told else { return };
                let _ = lines.send(happened(handle, told).await).await;
            }
            count = routes.recv_many(&mut changes, 256), if !routes.is_closed() => {
                for change in changes.drain(..count) {
                    let _ = lines.send(route(&change)).await;
                }
            }
        }
    }
}

async fn happened(handle: &Handle, told: Told) -> Value {
    match told {
        Told::Missed(count) => {
            json!({"event": "error", "peer": null, "text": format!("{count} events were not reported: nobody read them")})
        }
        Told::Notice(Notice::Up(key, name)) => {
            let status = handle.query(move |speaker| speaker.peer(key)).await.ok().flatten();
            up(&name, status.as_ref())
        }
        Told::Notice(Notice::Down(_, name, reason)) => down(&name, &reason),
        Told::Notice(Notice::Malformed { name, attribute, what, .. }) => {
            json!({"event": "error", "peer": &*name, "attribute": attribute, "text": &*what})
        }
        Told::Notice(Notice::Refused { name, net, why, more, .. }) => {
            json!({"event": "refused", "peer": &*name, "prefix": net, "text": why.to_string(), "more": more})
        }
        Told::Notice(Notice::Contested { name, net, more, .. }) => {
            json!({"event": "contested", "peer": &*name, "prefix": net, "more": more})
        }
        Told::Notice(Notice::EndOfRib(_, name, family)) => {
            json!({"event": "end-of-rib", "peer": &*name, "family": family.name()})
        }
        Told::Notice(Notice::Told(_, name, family)) => {
            json!({"event": "told", "peer": &*name, "family": family.name()})
        }
    }
}

fn up(name: &str, status: Option<&PeerStatus>) -> Value {
    let negotiated = status.and_then(|status| status.negotiated.as_ref());
    let spoken = status.into_iter().flat_map(|status| &status.families);
    let families: Vec<_> =
        spoken.filter(|family| family.negotiated).map(|family| family.family.name()).collect();
    json!({
        "event": "up",
        "peer": name,
        "families": families,
        "holdTime": negotiated.map(|n| n.hold_time.map_or(0, |time| time.as_secs())),
        "remoteId": negotiated.map(|n| n.peer_id),
        "asn": status.and_then(|status| status.asn),
        "negotiated": negotiated.map(agreed),
    })
}

fn down(name: &str, reason: &DownReason) -> Value {
    let code = reason.code();
    json!({
        "event": "down",
        "peer": name,
        "reason": reason.to_string(),
        "code": code.map(|(code, _)| code),
        "subcode": code.map(|(_, subcode)| subcode),
        "text": reason.words(),
        "sent": matches!(reason, DownReason::Sent(..)),
    })
}

fn route(change: &RouteChange) -> Value {
    let next_hops: Vec<_> = change.next_hops.iter().map(next_hop).collect();
    json!({"event": "route", "prefix": change.net, "nextHops": next_hops})
}

fn agreed(negotiated: &NegotiatedStatus) -> Value {
    let words = |capabilities: &[flock_bgp::Capability]| -> Vec<String> {
        capabilities.iter().map(|capability| format!("{capability:?}")).collect()
    };
    json!({
        "internal": negotiated.internal,
        "holdTime": negotiated.hold_time.map_or(0, |time| time.as_secs()),
        "keepalive": negotiated.keepalive.map(|time| time.as_secs_f64()),
        "offered": words(&negotiated.offered),
        "received": words(&negotiated.received),
    })
}

/// `{"show": "peers"}`.
pub(crate) async fn peers(handle: &Handle) -> Result<Value> {
    let now = handle.now();
    let peers = handle.query(|speaker| speaker.peers().collect::<Vec<_>>()).await?;
    let peers: Vec<_> = peers.iter().map(|peer| peer_status(peer, now)).collect();
    Ok(json!({"answer": "peers", "peers": peers}))
}

fn peer_status(peer: &PeerStatus, now: Now) -> Value {
    let total = |count: fn(&FamilyStatus) -> u32| peer.families.iter().map(count).sum::<u32>();
    json!({
        "name": &*peer.name,
        "address": peer.address,
        "asn": peer.asn,
        "localAsn": peer.local_asn,
        "state": peer.state.to_string(),
        "uptimeSeconds": now.0.saturating_sub(peer.since.0).as_secs_f64(),
        "families": peer.families.iter().map(family_status).collect::<Vec<_>>(),
        "received": total(|family| family.received),
        "accepted": total(|family| family.accepted),
        "advertised": total(|family| family.advertised),
        "negotiated": peer.negotiated.as_ref().map(agreed),
        "remoteId": peer.negotiated.as_ref().map(|negotiated| negotiated.peer_id),
        "connection": peer.connection.map(|(local, remote)| json!({"local": local, "remote": remote})),
        "lastError": peer.last_error.as_ref().map(|error| last_error(error, now)),
        "lastRefusal": peer.last_refusal.as_ref().map(|error| last_error(error, now)),
        "nextAttemptSeconds":
            peer.next_attempt.map(|at| at.0.saturating_sub(now.0).as_secs_f64()),
        "pending": peer.pending,
        "faults": peer.faults,
        "refused": peer.refused,
        "contested": peer.contested,
        "flaps": peer.flaps,
        "messagesReceived": peer.messages.received,
        "messagesSent": peer.messages.sent,
    })
}

fn family_status(family: &FamilyStatus) -> Value {
    json!({
        "family": family.family.name(),
        "negotiated": family.negotiated,
        "notAnnounced": family.not_announced,
        "received": family.received,
        "accepted": family.accepted,
        "advertised": family.advertised,
        "endOfRibSent": family.end_of_rib_sent,
        "endOfRibReceived": family.end_of_rib_received,
        "stale": family.stale,
    })
}

fn last_error(error: &LastError, now: Now) -> Value {
    json!({
        "text": error.reason.to_string(),
        "code": error.reason.code().map(|(code, _)| code),
        "subcode": error.reason.code().map(|(_, subcode)| subcode),
        "words": error.reason.words(),
        "secondsAgo": now.0.saturating_sub(error.at.0).as_secs_f64(),
    })
}

/// `{"show": "routes"}`: one entry for each path.
pub(crate) async fn routes(handle: &Handle) -> Result<Value> {
    let names: HashMap<PeerKey, Arc<str>> =
        handle.query(|speaker| speaker.peers().map(|peer| (peer.key, peer.name)).collect()).await?;
    let names = Arc::new(names);
    let mut routes = Vec::new();
    for family in Family::ALL {
        let mut after = None;
        loop {
            let names = Arc::clone(&names);
            let (more, last) =
                handle.query(move |speaker| piece(speaker, family, after, &names)).await?;
            routes.extend(more);
            if last.is_none() {
                break;
            }
            after = last;
        }
    }
    Ok(json!({"answer": "routes", "routes": routes}))
}

fn piece(
    speaker: &Speaker,
    family: Family,
    after: Option<u32>,
    names: &HashMap<PeerKey, Arc<str>>,
) -> (Vec<Value>, Option<u32>) {
    let mut last = None;
    let mut paths = Vec::new();
    for route in speaker.routes(family, after).take(ROUTES_AT_ONCE) {
        last = Some(route.position);
        paths.extend(route.paths.iter().map(|path| path_view(&route, path, names)));
    }
    (paths, last)
}

fn path_view(
    route: &RouteView<'_>,
    path: &PathView<'_>,
    names: &HashMap<PeerKey, Arc<str>>,
) -> Value {
    let peer = path.peer.and_then(|key| names.get(&key)).map(|name| &**name);
    let learned = path.peer.is_some();
    let attributes = path.attributes;
    // What we originate has no next hop before it is told.
    let next_hops: Vec<_> =
        attributes.filter(|_| learned).iter().map(|a| next_hop(&a.next_hop)).collect();
    let words =
        |list: &dyn Fn(&Attributes) -> Vec<String>| attributes.map(list).unwrap_or_default();
    json!({
        "prefix": route.net,
        "source": if learned { "learned" } else { "originated" },
        "owner": if learned { Value::Null } else { json!("speaker") },
        "peer": peer,
        "pathId": path.path_id,
        "nextHops": next_hops,
        "asPath": attributes.map(as_path).unwrap_or_default(),
        "communities": words(&|a| a.communities.iter().map(ToString::to_string).collect()),
        "largeCommunities": words(&|a| a.large_communities.iter().map(ToString::to_string).collect()),
        "med": attributes.and_then(|a| a.med),
        "localPref": attributes.and_then(|a| a.local_pref),
        "best": path.best,
        "equal": path.equal,
        "stale": path.stale,
        "rejected": path.withheld.map(|why| why.to_string()),
        "lost": path.lost.map(|why| why.to_string()),
    })
}

fn as_path(attributes: &Attributes) -> Vec<u32> {
    attributes.as_path.segments.iter().flat_map(|segment| segment.asns.iter().copied()).collect()
}

/// The address that all know, where there is one.
fn next_hop(next_hop: &NextHop) -> String {
    match next_hop {
        NextHop::V4(address) => address.to_string(),
        NextHop::V6 { global, link_local: Some(near) } if global.is_unspecified() => {
            near.to_string()
        }
        NextHop::V6 { global, .. } => global.to_string(),
    }
}

/// `{"show": "driver"}`: sockets and bytes.
pub(crate) async fn driver(handle: &Handle) -> Result<Value> {
    let status = handle.status().await?;
    let connections: Vec<_> = status
        .connections
        .iter()
        .map(|c| json!({"conn": c.conn.0, "remote": c.remote, "unsent": c.unsent}))
        .collect();
    let arrivals = status.arrivals;
    Ok(json!({
        "answer": "driver",
        "connections": connections,
        "dialling": status.dialling,
        "taken": arrivals.taken,
        "unknown": arrivals.unknown,
        "paced": arrivals.paced,
        "crowded": arrivals.crowded,
        "received": status.received,
        "sent": status.sent,
    }))
}
