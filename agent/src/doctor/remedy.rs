//! What an operator is to do about a session that is not there, by the reason for it: pure. The
//! reason itself is the speaker's, or the peer's, or the system's; what to do is ours.

use flock_bgp::{DownReason, PeerStatus};

/// What to do.
pub(super) fn remedy(peer: &PeerStatus, reason: &DownReason) -> String {
    let (name, address) = (&peer.name, peer.address);
    match reason {
        DownReason::Refused(refusal) => unreached(peer, &refusal.what),
        DownReason::Sent(code, subcode, _) => sent(peer, (*code, *subcode)),
        DownReason::Received(code, subcode, _) => received(peer, (*code, *subcode)),
        DownReason::Closed(_) => format!(
            "{name} closed the connection without saying why: see its log; it may not know this \
             node's address as a neighbour, or have restarted"
        ),
        DownReason::Local(why) if why.starts_with("password") => format!(
            "write the password of {name} into the file that the message names; the session begins \
             as soon as it is there, and never without it"
        ),
        DownReason::Local(_) => format!(
            "see spec.bgp.peers of {name} in the NodeConfig, and whether {address} can be reached"
        ),
    }
}

/// A dial that came to nothing, by the system's words.
fn unreached(peer: &PeerStatus, what: &str) -> String {
    let (name, address) = (&peer.name, peer.address);
    if what.contains("does the password match") {
        return format!("compare the password of {name} with the one configured there");
    }
    if what.contains("has the peer a password") {
        return format!("configure the password at {name}, too, or leave it out here");
    }
    if what.contains("does the peer want a password") {
        return format!(
            "give {name} a password (spec.bgp.peers[].password), or take it away there"
        );
    }
    if what.contains("refused") {
        return format!(
            "start BGP at {address}, and configure this node as its neighbour there; see port, and \
             firewalls that refuse"
        );
    }
    if what.contains("no answer") {
        return format!(
            "see whether {address} answers (ping), whether anything drops TCP to its BGP port, and \
             whether multihop or ttlSecurity is right for the distance"
        );
    }
    if what.contains("Cannot assign") {
        return format!("localAddress of {name} is not an address of this node: correct it");
    }
    if what.contains("unreachable") || what.contains("No route") {
        return format!("bring up the link to {address}, or correct the address of {name}");
    }
    format!("see whether {address} can be reached from this node, and the log of {name}")
}

const HOLD_TIMER: u8 = 4;
const OPEN: u8 = 2;
const UPDATE: u8 = 3;
const CEASE: u8 = 6;
const SEND_HOLD_TIMER: u8 = 8;

/// We ended it.
fn sent(peer: &PeerStatus, code: (u8, u8)) -> String {
    let (name, local) = (&peer.name, peer.local_asn);
    match code {
        (HOLD_TIMER, _) => format!(
            "{name} was silent for the hold time: see its load, and loss on the link; where only \
             large packets are lost, the MTU"
        ),
        (SEND_HOLD_TIMER, _) => format!("{name} takes nothing any more: see its load and its log"),
        (OPEN, 2) => format!(
            "{name} says another AS number than spec.bgp.peers[].asn: correct the one that is wrong"
        ),
        (OPEN, 3) => format!(
            "{name} has the router ID of this node, or none: give one of the two another \
             (spec.bgp.routerId)"
        ),
        (OPEN, 6) => format!("{name} offers a hold time of 1 or 2 seconds: it takes at least 3"),
        (OPEN, 7) => format!("{name} lacks a capability that is asked for: see families"),
        (OPEN, 11) => format!("the roles do not fit (RFC 9234): correct role here or at {name}"),
        (OPEN, _) => format!("{name} began in a way that is not understood: see its version"),
        (UPDATE, _) => format!("{name} sent what cannot be read: report it with the agent's log"),
        (CEASE, 1) => format!(
            "raise import.maxPrefixes of {name}, or have it send fewer; it is tried again by itself"
        ),
        (CEASE, 2..=4 | 6) => {
            "somebody asked for it on this node (drain, reset or NodeConfig)".into()
        }
        (CEASE, 7) => {
            format!("two connections met; if this stays, set passive on one side of {name}")
        }
        _ => format!("see the agent's log, and the log of {name}; this node is AS {local}"),
    }
}

/// They ended it.
fn received(peer: &PeerStatus, code: (u8, u8)) -> String {
    let (name, local) = (&peer.name, peer.local_asn);
    match code {
        (HOLD_TIMER, _) => format!(
            "{name} did not hear this node for the hold time: see the node's load, and loss on the \
             link; where only large packets are lost, the MTU"
        ),
        (OPEN, 2) => format!(
            "{name} expects another AS number than {local}: correct it there, or spec.bgp.asn"
        ),
        (OPEN, 3) => format!("{name} does not take this node's router ID: set spec.bgp.routerId"),
        (OPEN, 6) => format!("{name} does not take the hold time: raise holdTime"),
        (OPEN, 7) => format!("{name} asks for a capability that was not offered: see families"),
        (OPEN, 11) => format!("the roles do not fit (RFC 9234): correct role here or at {name}"),
        (OPEN, _) => format!("{name} does not take how this node begins: see its log"),
        (UPDATE, _) => format!("{name} does not take what it was told: report it with both logs"),
        (CEASE, 1) => format!(
            "{name} takes no more prefixes: raise its limit for this node, or announce fewer \
             (announcePods)"
        ),
        (CEASE, 2) => format!("somebody shut it down at {name}: ask there; its words are above"),
        (CEASE, 3 | 5) => {
            format!("{name} does not know this node as a neighbour: configure it there")
        }
        (CEASE, 4 | 6) => format!("it was reset at {name}, and comes back by itself"),
        (CEASE, 7) => {
            format!("two connections met; if this stays, set passive on one side of {name}")
        }
        (CEASE, 8) => format!("{name} is out of resources: see its log"),
        (CEASE, 10) => format!("BFD at {name} says that the link is down: see the link"),
        _ => format!("see the log of {name}"),
    }
}
