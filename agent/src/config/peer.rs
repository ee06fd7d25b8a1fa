//! One of `spec.bgp.peers`: who it is and what is exchanged with it. Decides what identifies a
//! peer and which of its settings exclude each other; leaves the session's timers to `session`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use super::bgp::{PORT, asn};
use super::is_object_name;
use super::model::{
    Endpoint, Export, Families, Import, NextHop, Password, Peer, PeerAsn, Role, Ttl,
};
use super::problem::At;
use super::{bounds, community, schema, session};
use crate::ipam;

const MAX_PREFIXES: u32 = 1000;

/// The peer, or problems and nothing.
pub(super) fn read(wish: &schema::Peer, at: &mut At<'_>) -> Option<Peer> {
    let name = name(wish.name.as_deref(), at.key("name"));
    let endpoint = endpoint(wish, at);
    let asn = peer_asn(wish.asn.as_ref(), at.key("asn"));
    let port = match wish.port {
        Some(port) => at.key("port").number(port, 1, u16::MAX),
        None => Some(PORT),
    };
    let local_address = local_address(wish, endpoint.as_ref(), at.key("localAddress"));
    let families = wish.families.as_deref().and_then(|list| families(list, at.key("families")));
    let timers = session::read(wish, at);
    let password = wish.password.as_ref().and_then(|wish| password(wish, at.key("password")));
    let ttl = ttl(wish, at);
    let import = wish.import.as_ref().and_then(|wish| import(wish, at.key("import")));
    let export =
        wish.export.as_ref().map(|wish| export(wish, at.key("export"))).unwrap_or_default();
    let role = wish.role.as_ref().and_then(|text| role(text, at.key("role")));
    let next_hop =
        wish.next_hop.as_ref().map(|wish| next_hop(wish, at.key("nextHop"))).unwrap_or_default();
    let timers = timers?;
    Some(Peer {
        name: name?,
        endpoint: endpoint?,
        asn: asn?,
        port: port?,
        local_address,
        families,
        hold_time: timers.hold_time,
        keepalive: timers.keepalive,
        connect_retry: timers.connect_retry,
        password,
        ttl,
        passive: wish.passive.unwrap_or(false),
        graceful_restart: timers.graceful_restart,
        bfd: timers.bfd,
        import,
        export,
        role,
        next_hop,
    })
}

/// The key and the value under which an endpoint was written.
pub(super) fn endpoint_words(endpoint: &Endpoint) -> (&'static str, String) {
    match endpoint {
        Endpoint::Address(addr) => ("address", addr.to_string()),
        Endpoint::Interface(name) => ("interface", name.clone()),
    }
}

fn name(name: Option<&str>, mut at: At<'_>) -> Option<String> {
    match name.map(str::trim) {
        Some(name) if !name.is_empty() => Some(name.to_owned()),
        _ => {
            at.amiss("it is missing; give the peer a name, for example tor-a");
            None
        }
    }
}

fn endpoint(wish: &schema::Peer, at: &mut At<'_>) -> Option<Endpoint> {
    match (&wish.address, &wish.interface) {
        (Some(address), None) => {
            let addr =
                global(address, at.key("address"), "; for a peer on the link write interface")?;
            Some(Endpoint::Address(addr))
        }
        (None, Some(interface)) => {
            let at = at.key("interface");
            interface_name(interface, at).map(Endpoint::Interface)
        }
        (Some(_), Some(_)) => {
            at.amiss("it has an address and an interface; keep one of the two");
            None
        }
        (None, None) => {
            at.amiss("it has no address; write address, or interface for an unnumbered peer");
            None
        }
    }
}

/// What Linux allows (15 bytes, `dev_valid_name`).
fn interface_name(name: &str, mut at: At<'_>) -> Option<String> {
    let is_valid = (1..=15).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.chars().any(|c| c == '/' || c == ':' || c.is_whitespace());
    if !is_valid {
        at.wrong(name, "not the name of an interface; write for example eth0");
    }
    is_valid.then(|| name.to_owned())
}

/// An address that a router or a node can have, seen from elsewhere.
fn global(text: &str, mut at: At<'_>, more: &str) -> Option<IpAddr> {
    let read = text.trim().parse::<IpAddr>().map_err(|_| ());
    let Ok(addr) = read else {
        at.wrong(text, format!("not an IP address; write for example 2001:db8::1{more}"));
        return None;
    };
    // Loopback is fine for a peer: a router on the same host, as in tests.
    if addr.is_loopback() {
        return Some(addr);
    }
    at.take(text, ipam::address(&addr.to_string()).map_err(|error| format!("{error}{more}")))
}

fn local_address(
    wish: &schema::Peer,
    endpoint: Option<&Endpoint>,
    mut at: At<'_>,
) -> Option<IpAddr> {
    let text = wish.local_address.as_ref()?;
    let Ok(addr) = text.trim().parse::<IpAddr>() else {
        at.wrong(text, "not an IP address; write an address of this node");
        return None;
    };
    match endpoint {
        Some(Endpoint::Address(peer)) if peer.is_ipv4() != addr.is_ipv4() => {
            at.wrong(
                text,
                format!("of another family than the peer's {peer}; write one of the same"),
            );
            None
        }
        Some(Endpoint::Interface(_)) => {
            at.wrong(text, "an unnumbered session has link-local addresses; leave it out");
            None
        }
        _ if addr.is_unspecified() || addr.is_multicast() => {
            at.wrong(text, "not an address of a node; write one, or leave it out");
            None
        }
        _ => Some(addr),
    }
}

fn peer_asn(wish: Option<&schema::PeerAsn>, mut at: At<'_>) -> Option<PeerAsn> {
    match wish {
        Some(schema::PeerAsn::Number(number)) => asn(*number, &mut at).map(PeerAsn::Number),
        Some(schema::PeerAsn::Word(word)) => match word.as_str() {
            "external" => Some(PeerAsn::External),
            "internal" => Some(PeerAsn::Internal),
            _ => {
                at.wrong(word, "write an AS number, external or internal");
                None
            }
        },
        None => {
            at.amiss("it is missing; write an AS number, external or internal");
            None
        }
    }
}

fn families(list: &[String], mut at: At<'_>) -> Option<Families> {
    let mut found = Families { ipv6: false, ipv4: false };
    for (i, text) in list.iter().enumerate() {
        let mut at = at.index(i);
        let family = match text.as_str() {
            "ipv6-unicast" => &mut found.ipv6,
            "ipv4-unicast" => &mut found.ipv4,
            _ => {
                at.wrong(text, "not a family; write ipv6-unicast or ipv4-unicast");
                continue;
            }
        };
        if std::mem::replace(family, true) {
            at.wrong(text, "it is listed twice; list it once");
        }
    }
    if list.is_empty() {
        at.amiss("it is empty; name a family, or leave it out to have what the node has");
    }
    (found.ipv6 || found.ipv4).then_some(found)
}

fn password(wish: &schema::Password, mut at: At<'_>) -> Option<Password> {
    match (&wish.secret_ref, &wish.file) {
        (Some(secret), None) => {
            let mut at = at.key("secretRef");
            for (key, value) in [("name", &secret.name), ("key", &secret.key)] {
                if value.is_empty() {
                    at.key(key)
                        .amiss("it is missing; write the Secret's name and the key in its data");
                }
            }
            if !secret.name.is_empty() && !is_object_name(&secret.name) {
                at.key("name").wrong(
                    &secret.name,
                    "not the name of a Secret; write lower case letters, digits, '-' and '.'",
                );
            }
            Some(Password::Secret { name: secret.name.clone(), key: secret.key.clone() })
        }
        (None, Some(file)) if Path::new(file).is_absolute() => {
            Some(Password::File(PathBuf::from(file)))
        }
        (None, Some(_)) => {
            // Not repeated: it may be the password itself.
            at.key("file").amiss("not an absolute path; write it from the root");
            None
        }
        (Some(_), Some(_)) => {
            at.amiss("it has a secretRef and a file; keep one of the two");
            None
        }
        // Never no password where one was meant.
        (None, None) => {
            at.amiss("it names nothing; write secretRef or file, or leave password out");
            None
        }
    }
}

fn ttl(wish: &schema::Peer, at: &mut At<'_>) -> Ttl {
    let hops = wish.multihop.and_then(|hops| at.key("multihop").number(hops, 1, u8::MAX));
    match (wish.ttl_security.unwrap_or(false), hops) {
        (true, Some(hops)) => {
            at.key("multihop").wrong(hops, "it excludes ttlSecurity; keep one of the two");
            Ttl::Direct
        }
        (true, None) => Ttl::Security,
        (false, Some(hops)) => Ttl::Multihop(hops),
        (false, None) => Ttl::Direct,
    }
}

fn import(wish: &schema::Import, mut at: At<'_>) -> Option<Import> {
    let mut accept = Vec::new();
    let rules = at.key("accept").at_most(bounds::RULES, wish.accept.as_deref());
    for (i, text) in rules.iter().enumerate() {
        let mut accept_at = at.key("accept");
        let mut at = accept_at.index(i);
        let Some(rule) = at.take(text, text.parse()) else {
            continue;
        };
        if accept.contains(&rule) {
            at.wrong(text, "it is listed twice; list it once");
        }
        accept.push(rule);
    }
    let max_prefixes = match wish.max_prefixes {
        Some(most) => at.key("maxPrefixes").number(most, 1, u32::MAX)?,
        None => MAX_PREFIXES,
    };
    (!accept.is_empty()).then_some(Import { accept, max_prefixes })
}

fn export(wish: &schema::Export, mut at: At<'_>) -> Export {
    Export {
        communities: community::read(wish.communities.as_deref(), at.key("communities")),
        local_pref: wish
            .local_pref
            .and_then(|value| at.key("localPref").number(value, 0, u32::MAX)),
        med: wish.med.and_then(|value| at.key("med").number(value, 0, u32::MAX)),
        prepend: wish
            .prepend
            .and_then(|times| at.key("prepend").number(times, 0, bounds::PREPENDS))
            .unwrap_or_default(),
    }
}

fn role(text: &str, mut at: At<'_>) -> Option<Role> {
    match text {
        "provider" => Some(Role::Provider),
        "rs" => Some(Role::RouteServer),
        "rs-client" => Some(Role::RouteServerClient),
        "customer" => Some(Role::Customer),
        "peer" => Some(Role::Peer),
        _ => {
            at.wrong(
                text,
                "not a role of RFC 9234; write provider, rs, rs-client, customer or peer",
            );
            None
        }
    }
}

fn next_hop(wish: &schema::NextHop, mut at: At<'_>) -> NextHop {
    let mut read = |text: &Option<String>, key: &str, family: &str| {
        let text = text.as_ref()?;
        let addr = global(text, at.key(key), "")?;
        if addr.is_loopback() || addr.is_ipv6() != (key == "ipv6") {
            at.key(key).wrong(text, format!("not a next hop here; write an {family} address"));
        }
        Some(addr)
    };
    let ipv6: Option<Ipv6Addr> = match read(&wish.ipv6, "ipv6", "IPv6") {
        Some(IpAddr::V6(addr)) => Some(addr),
        _ => None,
    };
    let ipv4: Option<Ipv4Addr> = match read(&wish.ipv4, "ipv4", "IPv4") {
        Some(IpAddr::V4(addr)) => Some(addr),
        _ => None,
    };
    NextHop { ipv6, ipv4 }
}
