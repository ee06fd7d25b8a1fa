//! The few messages of RFC 4271 that a stopwatch needs, as bytes.
//!
//! Only what all five speakers take: OPEN with four-octet ASNs, one family and
//! graceful restart (which makes them send End-of-RIB), KEEPALIVE, UPDATE.
//! Nothing here judges what the other side sends.

use std::net::IpAddr;

use anyhow::{Context, Result};

use super::Family;
use super::session::Identity;

/// An OPEN.
pub const OPEN: u8 = 1;
/// An UPDATE.
pub const UPDATE: u8 = 2;
/// A NOTIFICATION.
pub const NOTIFICATION: u8 = 3;
/// A KEEPALIVE.
pub const KEEPALIVE: u8 = 4;

/// RFC 4271 §4.1: marker, length, type.
pub const HEADER: usize = 19;
/// RFC 4271 §4.1: none is longer, without RFC 8654.
pub const LONGEST: usize = 4096;

/// What an attribute's flags say.
#[derive(Debug, Clone, Copy)]
pub enum Flags {
    /// Well-known, so transitive.
    WellKnown,
    /// Optional and not passed on.
    Optional,
    /// Optional and passed on.
    OptionalTransitive,
}

/// A whole message of a kind.
pub fn frame(kind: u8, body: &[u8]) -> Result<Vec<u8>> {
    let length = u16::try_from(HEADER + body.len()).context("a message too long for BGP")?;
    let mut message = vec![0xff; 16];
    message.extend(length.to_be_bytes());
    message.push(kind);
    message.extend(body);
    Ok(message)
}

/// A KEEPALIVE.
pub fn keepalive() -> Result<Vec<u8>> {
    frame(KEEPALIVE, &[])
}

/// The OPEN of somebody.
pub fn open(identity: &Identity) -> Result<Vec<u8>> {
    let Identity { asn, id, family, hold } = identity;
    let [high, low] = family.afi().to_be_bytes();
    let mut capabilities = vec![1, 4, high, low, 0, 1, 65, 4];
    capabilities.extend(asn.to_be_bytes());
    // RFC 4724 §3: 120 s, this family, forwarding state not kept.
    capabilities.extend([64, 6, 0, 120, high, low, 1, 0]);
    let length = u8::try_from(capabilities.len())?;

    let mut body = vec![4];
    body.extend(u16::try_from(*asn).unwrap_or(23456).to_be_bytes());
    body.extend(hold.to_be_bytes());
    body.extend(id.octets());
    body.extend([length + 2, 2, length]);
    body.extend(capabilities);
    frame(OPEN, &body)
}

/// Appends one attribute.
pub fn attribute(to: &mut Vec<u8>, flags: Flags, kind: u8, value: &[u8]) -> Result<()> {
    let flags: u8 = match flags {
        Flags::WellKnown => 0x40,
        Flags::Optional => 0x80,
        Flags::OptionalTransitive => 0xc0,
    };
    match u8::try_from(value.len()) {
        Ok(length) => to.extend([flags, kind, length]),
        Err(_) => {
            to.extend([flags | 0x10, kind]);
            to.extend(u16::try_from(value.len())?.to_be_bytes());
        }
    }
    to.extend(value);
    Ok(())
}

/// The attributes of a plain route: ORIGIN IGP and this path.
pub fn plain_attributes(path: &[u32]) -> Result<Vec<u8>> {
    let mut attributes = Vec::new();
    attribute(&mut attributes, Flags::WellKnown, 1, &[0])?;
    let mut segment = vec![2, u8::try_from(path.len())?];
    segment.extend(path.iter().flat_map(|asn| asn.to_be_bytes()));
    attribute(&mut attributes, Flags::WellKnown, 2, &segment)?;
    Ok(attributes)
}

/// An UPDATE that announces: `attributes` are all but the next hop.
pub fn announce(attributes: &[u8], next_hop: IpAddr, nlri: &[u8]) -> Result<Vec<u8>> {
    let mut all = attributes.to_vec();
    match next_hop {
        IpAddr::V4(next_hop) => attribute(&mut all, Flags::WellKnown, 3, &next_hop.octets())?,
        IpAddr::V6(next_hop) => {
            let mut reach = vec![0, 2, 1, 16];
            reach.extend(next_hop.octets());
            reach.push(0);
            reach.extend(nlri);
            attribute(&mut all, Flags::Optional, 14, &reach)?;
        }
    }
    let mut body = vec![0, 0];
    body.extend(u16::try_from(all.len())?.to_be_bytes());
    body.extend(all);
    if next_hop.is_ipv4() {
        body.extend(nlri);
    }
    frame(UPDATE, &body)
}

/// An UPDATE that withdraws IPv4 routes.
pub fn withdraw(nlri: &[u8]) -> Result<Vec<u8>> {
    let mut body = u16::try_from(nlri.len())?.to_be_bytes().to_vec();
    body.extend(nlri);
    body.extend([0, 0]);
    frame(UPDATE, &body)
}

/// An UPDATE that withdraws routes of a family.
pub fn withdraw_of(family: Family, nlri: &[u8]) -> Result<Vec<u8>> {
    if family == Family::V4 {
        return withdraw(nlri);
    }
    let [high, low] = family.afi().to_be_bytes();
    let mut unreach = vec![high, low, 1];
    unreach.extend(nlri);
    let mut attributes = Vec::new();
    attribute(&mut attributes, Flags::Optional, 15, &unreach)?;
    let mut body = vec![0, 0];
    body.extend(u16::try_from(attributes.len())?.to_be_bytes());
    body.extend(attributes);
    frame(UPDATE, &body)
}

/// A prefix as NLRI: its length and as many octets as that needs.
pub fn prefix(address: IpAddr, length: u8) -> Vec<u8> {
    let octets = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let needed = usize::from(length).div_ceil(8);
    std::iter::once(length).chain(octets.into_iter().take(needed)).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_open_is_laid_out_as_rfc_4271_says() {
        let id = Ipv4Addr::new(10, 0, 0, 9);
        let identity = Identity { asn: 65_010, id, family: Family::V4, hold: 240 };
        let open = open(&identity).unwrap();
        assert_eq!(usize::from(u16::from_be_bytes([open[16], open[17]])), open.len());
        assert_eq!(&open[18..29], &[OPEN, 4, 0xfd, 0xf2, 0, 240, 10, 0, 0, 9, 22]);
        assert_eq!(open.len(), HEADER + 10 + 22);
    }

    #[test]
    fn prefixes_take_only_the_octets_that_they_need() {
        assert_eq!(prefix("10.1.2.0".parse().unwrap(), 23), [23, 10, 1, 2]);
        assert_eq!(prefix("0.0.0.0".parse().unwrap(), 0), [0]);
        assert_eq!(prefix("2a00:1::".parse().unwrap(), 32), [32, 0x2a, 0, 0, 1]);
    }
}
