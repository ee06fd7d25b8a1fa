//! OPEN written (RFC 4271 §4.2, RFC 5492 §4, RFC 9072 §2).

use bytes::{BufMut, BytesMut};

use crate::capability::{AddPathMode, Capability, code};
use crate::frame::{HEADER, MAX};
use crate::open::{CAPABILITIES, EXTENDED, Open, VERSION};

/// Octets before the optional parameters, their length included.
const FIXED: usize = HEADER + 10;

pub(super) fn body(open: &Open, out: &mut BytesMut) {
    out.put_u8(VERSION);
    out.put_u16(open.wire_asn);
    out.put_u16(open.hold_time);
    out.extend_from_slice(&open.id.octets());
    let capabilities: Vec<_> =
        open.capabilities.iter().map(|each| (number(each), value(each))).collect();
    let short: usize = capabilities.iter().map(|(_, value)| 4 + value.len()).sum();
    if let Ok(length) = u8::try_from(short) {
        out.put_u8(length);
        for (kind, value) in &capabilities {
            // A value of at most 251 octets: the sum fits into one.
            let length = u8::try_from(value.len()).unwrap_or(u8::MAX);
            out.extend_from_slice(&[CAPABILITIES, length.saturating_add(2), *kind, length]);
            out.extend_from_slice(value);
        }
        return;
    }
    // RFC 9072 §2: 255, 255, then a length of two octets, here and in each parameter.
    let mut parameters = Vec::with_capacity(short + capabilities.len());
    for (kind, value) in &capabilities {
        if FIXED + 3 + parameters.len() + 5 + value.len() > MAX {
            continue;
        }
        let length = u8::try_from(value.len()).unwrap_or(u8::MAX);
        parameters.push(CAPABILITIES);
        parameters.extend_from_slice(&(u16::from(length) + 2).to_be_bytes());
        parameters.extend_from_slice(&[*kind, length]);
        parameters.extend_from_slice(value);
    }
    out.extend_from_slice(&[EXTENDED, EXTENDED]);
    out.put_u16(u16::try_from(parameters.len()).unwrap_or(u16::MAX));
    out.extend_from_slice(&parameters);
}

fn number(capability: &Capability) -> u8 {
    match capability {
        Capability::Multiprotocol(_) => code::MULTIPROTOCOL,
        Capability::RouteRefresh => code::ROUTE_REFRESH,
        Capability::ExtendedNextHop(_) => code::EXTENDED_NEXT_HOP,
        Capability::ExtendedMessage => code::EXTENDED_MESSAGE,
        Capability::Role(_) => code::ROLE,
        Capability::GracefulRestart(_) => code::GRACEFUL_RESTART,
        Capability::FourOctetAs(_) => code::FOUR_OCTET_AS,
        Capability::AddPath(_) => code::ADD_PATH,
        Capability::EnhancedRouteRefresh => code::ENHANCED_ROUTE_REFRESH,
        Capability::Other { code, .. } => *code,
    }
}

/// At most the 255 octets that a capability holds, whole entries only.
fn value(capability: &Capability) -> Vec<u8> {
    match capability {
        Capability::RouteRefresh
        | Capability::ExtendedMessage
        | Capability::EnhancedRouteRefresh => Vec::new(),
        Capability::Multiprotocol(family) => {
            [&family.afi().to_be_bytes()[..], &[0, family.safi()]].concat()
        }
        Capability::ExtendedNextHop(families) => families
            .iter()
            .take(255 / 6)
            .flat_map(|family| {
                let [high, low] = family.afi().to_be_bytes();
                [high, low, 0, family.safi(), 0, 2]
            })
            .collect(),
        Capability::Role(role) => vec![role.to_wire()],
        Capability::GracefulRestart(restart) => {
            let flags = u16::from(restart.restarted) << 15 | u16::from(restart.notification) << 14;
            let mut value = (flags | restart.time.min(0x0FFF)).to_be_bytes().to_vec();
            for (family, kept) in restart.families.iter().take(253 / 4) {
                let [high, low] = family.afi().to_be_bytes();
                value.extend_from_slice(&[high, low, family.safi(), u8::from(*kept) << 7]);
            }
            value
        }
        Capability::FourOctetAs(asn) => asn.to_be_bytes().to_vec(),
        Capability::AddPath(families) => families
            .iter()
            .take(255 / 4)
            .flat_map(|(family, mode)| {
                let mode = match mode {
                    AddPathMode::Receive => 1,
                    AddPathMode::Send => 2,
                    AddPathMode::Both => 3,
                };
                let [high, low] = family.afi().to_be_bytes();
                [high, low, family.safi(), mode]
            })
            .collect(),
        Capability::Other { value, .. } => value.get(..255).unwrap_or(value).to_vec(),
    }
}
