//! What we offer in our OPEN, and what both OPENs together agree on (RFC 4271 §4.2, §6.2;
//! RFC 5492; RFC 4760 §8; RFC 6793; RFC 6286; RFC 8654; RFC 8950 §4; RFC 4724 §3; RFC 8538 §2;
//! RFC 9234 §4.2; RFC 7911 §4; RFC 2918; RFC 7313).
//!
//! Pure functions over values. What needs no configuration (version, hold time 1 and 2, identifier
//! zero) was checked by the codec before.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use flock_bgp_wire::encode::Form;
use flock_bgp_wire::notification::{code, open as subcode};
use flock_bgp_wire::{
    AddPathMode, Capability, Context, Family, GracefulRestart, Notification, Open, Role, frame,
};

use crate::config::{PeerAsn, PeerConfig, SpeakerConfig};
use crate::restart::{self, Agreed, Past};

/// What a session has agreed on. Arrays are by `Family::index`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Negotiated {
    pub(crate) peer_asn: u32,
    pub(crate) peer_id: Ipv4Addr,
    /// Both are of one AS.
    pub(crate) internal: bool,
    /// `None`: zero, the session never times out.
    pub(crate) hold: Option<Duration>,
    pub(crate) keepalive: Option<Duration>,
    pub(crate) families: [bool; 2],
    /// How to read what the peer sends.
    pub(crate) context: Context,
    /// How the peer reads what we send.
    pub(crate) form: Form,
    /// IPv4 routes may be told with an IPv6 next hop (RFC 8950).
    pub(crate) send_extended_next_hop: bool,
    pub(crate) refresh: bool,
    pub(crate) enhanced_refresh: bool,
    /// What the peer promises for its restart, where we help with it.
    pub(crate) graceful_restart: Option<GracefulRestart>,
    /// The peer's role, where it told one.
    pub(crate) peer_role: Option<Role>,
    /// What was offered, and what the peer offered.
    pub(crate) offered: Vec<Capability>,
    pub(crate) received: Vec<Capability>,
}

impl Negotiated {
    pub(crate) fn families(&self) -> impl Iterator<Item = Family> + use<> {
        let agreed = self.families;
        Family::ALL.into_iter().filter(move |family| is_in(agreed, *family))
    }

    /// What both said about restarts, where both take part.
    pub(crate) fn agreed(&self, peer: &PeerConfig) -> Option<Agreed<'_>> {
        Some(Agreed { theirs: self.graceful_restart.as_ref()?, ours: peer.graceful_restart? })
    }

    /// Twice the hold time, at least eight minutes (RFC 9687 §5).
    pub(crate) fn send_hold(&self) -> Option<Duration> {
        Some((self.hold? * 2).max(Duration::from_secs(480)))
    }
}

fn is_in(set: [bool; 2], family: Family) -> bool {
    set.get(family.index()).copied().unwrap_or(false)
}

/// Our OPEN.
pub(crate) fn offer(speaker: &SpeakerConfig, peer: &PeerConfig, past: Past) -> Open {
    let mut capabilities: Vec<Capability> =
        peer.families.iter().copied().map(Capability::Multiprotocol).collect();
    capabilities.push(Capability::RouteRefresh);
    capabilities.push(Capability::EnhancedRouteRefresh);
    capabilities.push(Capability::FourOctetAs(speaker.asn));
    if offers_extended_next_hop(peer) {
        capabilities.push(Capability::ExtendedNextHop(vec![Family::Ipv4]));
    }
    if peer.extended_messages {
        capabilities.push(Capability::ExtendedMessage);
    }
    // Roles are for sessions between ASes (RFC 9234 §4).
    let inside = matches!(peer.asn, PeerAsn::Internal) || peer.asn == PeerAsn::Number(speaker.asn);
    if let Some(role) = peer.role.filter(|_| !inside) {
        capabilities.push(Capability::Role(role));
    }
    if let Some(restart) = peer.graceful_restart {
        let told = restart::capability(restart, &peer.families, past);
        capabilities.push(Capability::GracefulRestart(told));
    }
    if peer.add_path_receive {
        let families = peer.families.iter().map(|f| (*f, AddPathMode::Receive)).collect();
        capabilities.push(Capability::AddPath(families));
    }
    Open {
        // AS_TRANS stands for what does not fit (RFC 6793 §9).
        wire_asn: u16::try_from(speaker.asn).unwrap_or(23_456),
        hold_time: peer.hold_time.map_or(0, |t| u16::try_from(t.as_secs()).unwrap_or(u16::MAX)),
        id: speaker.id,
        capabilities,
    }
}

/// IPv4 routes over an IPv6 session: their next hop is ours (RFC 8950).
fn offers_extended_next_hop(peer: &PeerConfig) -> bool {
    matches!(peer.address, IpAddr::V6(_)) && peer.families.contains(&Family::Ipv4)
}

/// What `ours` and `theirs` agree on, or the NOTIFICATION that says why they cannot.
pub(crate) fn negotiate(
    speaker: &SpeakerConfig,
    peer: &PeerConfig,
    ours: &Open,
    theirs: &Open,
) -> Result<Negotiated, Notification> {
    let peer_asn = theirs.asn();
    let internal = peer_asn == speaker.asn;
    check_identity(speaker, peer, theirs, internal)?;
    let peer_role = check_role(peer.role, theirs, internal)?;
    let families = common_families(peer, theirs)?;

    let has = |wanted: &Capability| theirs.capabilities.contains(wanted);
    let both = |wanted: &Capability| has(wanted) && ours.capabilities.contains(wanted);
    let four_octet_as = theirs
        .capabilities
        .iter()
        .any(|capability| matches!(capability, Capability::FourOctetAs(_)));
    let extended = both(&Capability::ExtendedMessage);
    let add_path = |family| peer.add_path_receive && sends_paths(theirs, family);
    let hold = hold_time(ours.hold_time, theirs.hold_time);
    Ok(Negotiated {
        peer_asn,
        peer_id: theirs.id,
        internal,
        hold,
        keepalive: hold.map(|hold| keepalive(hold, peer.keepalive)),
        families,
        context: Context {
            four_octet_as,
            add_path_ipv4: add_path(Family::Ipv4),
            add_path_ipv6: add_path(Family::Ipv6),
            extended_next_hop: offers_extended_next_hop(peer),
            internal,
        },
        form: Form {
            four_octet_as,
            max: if extended { frame::MAX_EXTENDED } else { frame::MAX },
        },
        send_extended_next_hop: theirs.capabilities.iter().any(|capability| {
            matches!(capability, Capability::ExtendedNextHop(f) if f.contains(&Family::Ipv4))
        }),
        // The old way of saying it, code 128, stays raw and is not taken.
        refresh: both(&Capability::RouteRefresh),
        enhanced_refresh: both(&Capability::EnhancedRouteRefresh),
        graceful_restart: restart_of(peer, theirs),
        peer_role,
        offered: ours.capabilities.clone(),
        received: theirs.capabilities.clone(),
    })
}

fn check_identity(
    speaker: &SpeakerConfig,
    peer: &PeerConfig,
    theirs: &Open,
    internal: bool,
) -> Result<(), Notification> {
    let right = match peer.asn {
        PeerAsn::Number(asn) => theirs.asn() == asn,
        PeerAsn::External => !internal,
        PeerAsn::Internal => internal,
    };
    if !right {
        return Err(Notification::new(code::OPEN, subcode::PEER_AS));
    }
    // RFC 6286 §2.2: inside an AS it must differ from ours; outside, AS and identifier together do.
    if internal && theirs.id == speaker.id {
        return Err(Notification::new(code::OPEN, subcode::IDENTIFIER));
    }
    Ok(())
}

/// RFC 9234 §4.2. Says the peer's role where it told one; a peer that does not is taken at ours.
fn check_role(
    ours: Option<Role>,
    theirs: &Open,
    internal: bool,
) -> Result<Option<Role>, Notification> {
    let mismatch = || Notification::new(code::OPEN, subcode::ROLE);
    let mut told = theirs.capabilities.iter().filter_map(|capability| match capability {
        Capability::Role(role) => Some(*role),
        _ => None,
    });
    let Some(role) = told.next() else { return Ok(None) };
    if internal {
        // "MUST NOT be applied to" sessions inside an AS: told, and without meaning.
        return Ok(None);
    }
    if told.any(|other| other != role) {
        return Err(mismatch());
    }
    match ours {
        Some(ours) if role != counterpart(ours) => Err(mismatch()),
        _ => Ok(Some(role)),
    }
}

/// The only role that fits ours (RFC 9234 §4.2, table 2).
pub(crate) fn counterpart(role: Role) -> Role {
    match role {
        Role::Provider => Role::Customer,
        Role::Customer => Role::Provider,
        Role::RouteServer => Role::RouteServerClient,
        Role::RouteServerClient => Role::RouteServer,
        Role::Peer => Role::Peer,
    }
}

/// Families of both; a peer that names none speaks IPv4 unicast (RFC 4760 §8).
fn common_families(peer: &PeerConfig, theirs: &Open) -> Result<[bool; 2], Notification> {
    let names_families = theirs.capabilities.iter().any(|capability| {
        matches!(capability, Capability::Multiprotocol(_) | Capability::Other { code: 1, .. })
    });
    let common = Family::ALL.map(|family| {
        let theirs = if names_families {
            theirs.capabilities.contains(&Capability::Multiprotocol(family))
        } else {
            family == Family::Ipv4
        };
        theirs && peer.families.contains(&family)
    });
    if common.contains(&true) {
        return Ok(common);
    }
    // RFC 5492 §3: the capabilities that we cannot do without.
    let mut wanted = Vec::with_capacity(6 * peer.families.len());
    for family in &peer.families {
        wanted.extend([1, 4]);
        wanted.extend(family.afi().to_be_bytes());
        wanted.extend([0, family.safi()]);
    }
    Err(Notification::with(code::OPEN, subcode::CAPABILITY, wanted))
}

/// The smaller one; zero is none (RFC 4271 §4.2).
fn hold_time(ours: u16, theirs: u16) -> Option<Duration> {
    match ours.min(theirs) {
        0 => None,
        seconds => Some(Duration::from_secs(u64::from(seconds))),
    }
}

/// A third of the hold time, or what was asked for where it is less (RFC 4271 §4.4), never more
/// than one a second.
pub(crate) fn keepalive(hold: Duration, asked: Option<Duration>) -> Duration {
    let third = hold / 3;
    asked.map_or(third, |asked| asked.min(third)).max(Duration::from_secs(1))
}

fn sends_paths(theirs: &Open, family: Family) -> bool {
    theirs.capabilities.iter().any(|capability| {
        matches!(capability, Capability::AddPath(modes) if modes.iter().any(|(of, mode)| {
            *of == family && matches!(mode, AddPathMode::Send | AddPathMode::Both)
        }))
    })
}

/// RFC 4724 §3: the last of several counts. Only where we take part as well.
fn restart_of(peer: &PeerConfig, theirs: &Open) -> Option<GracefulRestart> {
    peer.graceful_restart?;
    theirs.capabilities.iter().rev().find_map(|capability| match capability {
        Capability::GracefulRestart(told) => Some(told.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
