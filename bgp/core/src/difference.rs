//! What a change of a peer's wishes asks for: nothing, a change in place, an UPDATE, a refresh, or
//! a new session. Decides only; who carries it out is the peer.
//!
//! A session is ended only where the protocol leaves no choice: what TCP or OPEN has fixed (RFC
//! 4271 §4.2, RFC 5492 §3: capabilities are said once). The hold time is fixed by OPEN too, but a
//! session with the old one is no worse than before, so it waits for the next session and is shown
//! as pending. `PeerConfig` is taken apart without `..`: a new field does not compile until it
//! has its place here.

use std::fmt;

use flock_bgp_wire::Family;

use crate::config::{GracefulRestart, Import, PeerConfig, Transport};

/// A wish that changed, by the name that operators write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Field {
    Name,
    Address,
    Scope,
    Asn,
    Port,
    LocalAddress,
    Password,
    Ttl,
    Passive,
    Shutdown,
    Withheld,
    Families,
    HoldTime,
    Keepalive,
    ConnectRetry,
    GracefulRestart,
    StaleTime,
    ExtendedMessages,
    AddPath,
    Role,
    Accept,
    MaxPrefixes,
    Export,
    NextHop,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "name",
            Self::Address => "address",
            Self::Scope => "interface",
            Self::Asn => "asn",
            Self::Port => "port",
            Self::LocalAddress => "localAddress",
            Self::Password => "password",
            Self::Ttl => "ttlSecurity or multihop",
            Self::Passive => "passive",
            Self::Shutdown => "shutdown",
            Self::Withheld => "the reason to stay down",
            Self::Families => "families",
            Self::HoldTime => "holdTime",
            Self::Keepalive => "keepalive",
            Self::ConnectRetry => "connectRetry",
            Self::GracefulRestart => "gracefulRestart",
            Self::StaleTime => "the time that stale routes are kept",
            Self::ExtendedMessages => "extended messages",
            Self::AddPath => "additional paths",
            Self::Role => "role",
            Self::Accept => "import.accept",
            Self::MaxPrefixes => "import.maxPrefixes",
            Self::Export => "export",
            Self::NextHop => "nextHop",
        })
    }
}

/// Fields, in the order of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(pub(crate) Vec<Field>);

impl Fields {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// "asn, password".
impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, field) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            field.fmt(f)?;
        }
        Ok(())
    }
}

/// All that a change asks for. The parts do not exclude each other; with `reset`, `retell`,
/// `rejudge` and `refresh` are moot for this session but not wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Fixed by TCP or OPEN: the session ends and begins anew, under graceful restart.
    pub(crate) reset: Fields,
    /// Fixed by OPEN, but no reason to end a session: in force with the next one.
    pub(crate) next_session: Fields,
    /// In force as soon as it is stored.
    pub(crate) live: Fields,
    /// Shut down, started, or withheld: `PeerConfig` says which.
    pub(crate) administrative: Fields,
    /// Where or how we dial: an attempt that is under way begins anew, a session stays.
    pub(crate) redial: bool,
    /// Connections from the peer are taken with other settings: `Action::Admit` again, and
    /// `Expel` for the old address where it changed.
    pub(crate) readmit: bool,
    /// The peer is told everything again, as it now is.
    pub(crate) retell: bool,
    /// Kept routes may have to go: judged again at once.
    pub(crate) rejudge: bool,
    /// Refused routes may be welcome now: the peer is asked for them (RFC 2918).
    pub(crate) refresh: bool,
}

impl Difference {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What changes from `old` to `new`, two wishes for the same peer.
pub(crate) fn difference(old: &PeerConfig, new: &PeerConfig) -> Difference {
    let PeerConfig {
        name,
        address,
        scope,
        asn,
        port,
        local_address,
        transport,
        passive,
        shutdown,
        withheld,
        families,
        hold_time,
        keepalive,
        connect_retry,
        graceful_restart,
        extended_messages,
        add_path_receive,
        role,
        import,
        export,
        next_hops,
    } = old;
    let Transport { md5, ttl } = transport;

    let mut found = Difference::default();
    let changed = |fields: &mut Fields, field: Field, is: bool| {
        if is {
            fields.0.push(field);
        }
    };

    let reset = &mut found.reset;
    changed(reset, Field::Address, *address != new.address);
    changed(reset, Field::Scope, *scope != new.scope);
    // Also where the peer at hand would satisfy both: who it may be was part of the agreement.
    changed(reset, Field::Asn, *asn != new.asn);
    changed(reset, Field::LocalAddress, *local_address != new.local_address);
    changed(reset, Field::Password, *md5 != new.transport.md5);
    changed(reset, Field::Ttl, *ttl != new.transport.ttl);
    changed(reset, Field::Families, as_set(families) != as_set(&new.families));
    let restart = (offered(graceful_restart), offered(&new.graceful_restart));
    changed(reset, Field::GracefulRestart, restart.0 != restart.1);
    changed(reset, Field::ExtendedMessages, *extended_messages != new.extended_messages);
    changed(reset, Field::AddPath, *add_path_receive != new.add_path_receive);
    changed(reset, Field::Role, *role != new.role);

    changed(&mut found.next_session, Field::HoldTime, *hold_time != new.hold_time);

    let live = &mut found.live;
    // Peers are matched by name, so this is but a label.
    changed(live, Field::Name, *name != new.name);
    changed(live, Field::Port, *port != new.port);
    changed(live, Field::Passive, *passive != new.passive);
    // RFC 4271 §4.4: only the hold time is agreed on, how often we speak is ours.
    changed(live, Field::Keepalive, *keepalive != new.keepalive);
    changed(live, Field::ConnectRetry, *connect_retry != new.connect_retry);
    let stale_time = stale_time(graceful_restart) != stale_time(&new.graceful_restart);
    changed(live, Field::StaleTime, stale_time && restart.0 == restart.1);
    changed(live, Field::Accept, accept(import) != accept(&new.import));
    changed(live, Field::MaxPrefixes, max_prefixes(import) != max_prefixes(&new.import));
    changed(live, Field::Export, *export != new.export);
    changed(live, Field::NextHop, *next_hops != new.next_hops);

    let administrative = &mut found.administrative;
    // Other words for the same silence are for the next time.
    changed(administrative, Field::Shutdown, shutdown.is_some() != new.shutdown.is_some());
    changed(administrative, Field::Withheld, *withheld != new.withheld);

    found.redial = *port != new.port || *passive != new.passive;
    found.readmit = *address != new.address || *scope != new.scope || *transport != new.transport;
    found.retell = *export != new.export || *next_hops != new.next_hops;
    found.rejudge = !includes(&new.import, import);
    found.refresh = !includes(import, &new.import);
    found
}

fn as_set(families: &[Family]) -> [bool; 2] {
    Family::ALL.map(|family| families.contains(&family))
}

/// What OPEN says of it (RFC 4724 §3, RFC 8538 §2).
fn offered(restart: &Option<GracefulRestart>) -> Option<(std::time::Duration, bool)> {
    let GracefulRestart { time, notification, stale_time: _ } = (*restart)?;
    Some((time, notification))
}

fn stale_time(restart: &Option<GracefulRestart>) -> Option<std::time::Duration> {
    restart.map(|restart| restart.stale_time)
}

fn accept(import: &Option<Import>) -> &[crate::config::AddressRule] {
    import.as_ref().map_or(&[], |Import { accept, max_prefixes: _ }| accept)
}

fn max_prefixes(import: &Option<Import>) -> Option<u32> {
    import.as_ref().map(|import| import.max_prefixes)
}

/// Whether everything that `narrow` lets in, `wide` lets in too. May say no where several rules
/// do together what one does not: that costs a refresh, not a route.
fn includes(wide: &Option<Import>, narrow: &Option<Import>) -> bool {
    accept(narrow).iter().all(|rule| accept(wide).iter().any(|wide| wide.includes(rule)))
}

#[cfg(test)]
mod tests;
