//! Messages put together by hand, right or wrong, octet by octet.

use std::net::Ipv4Addr;

use flock_bgp_wire::{AsPath, Attributes, Context, NextHop, Origin};

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(19 + body.len()).unwrap();
    [&[0xFF; 16][..], &length.to_be_bytes(), &[kind], body].concat()
}

/// A field behind its length in two octets.
pub(crate) fn field(value: &[u8]) -> Vec<u8> {
    [&u16::try_from(value.len()).unwrap().to_be_bytes()[..], value].concat()
}

pub(crate) fn update(withdrawn: &[u8], attributes: &[Vec<u8>], nlri: &[u8]) -> Vec<u8> {
    message(2, &[&field(withdrawn)[..], &field(&attributes.concat()), nlri].concat())
}

pub(crate) fn attribute(flags: u8, kind: u8, value: &[u8]) -> Vec<u8> {
    match flags & 0x10 {
        0 => [&[flags, kind, u8::try_from(value.len()).unwrap()][..], value].concat(),
        _ => [&[flags, kind][..], &field(value)].concat(),
    }
}

pub(crate) fn origin() -> Vec<u8> {
    attribute(0x40, 1, &[0])
}

/// AS_SEQUENCE 65001 64999, four octets each.
pub(crate) fn path() -> Vec<u8> {
    attribute(0x40, 2, &[2, 2, 0, 0, 0xFD, 0xE9, 0, 0, 0xFD, 0xE7])
}

/// The same, two octets each.
pub(crate) fn path2() -> Vec<u8> {
    attribute(0x40, 2, &[2, 2, 0xFD, 0xE9, 0xFD, 0xE7])
}

pub(crate) fn next_hop() -> Vec<u8> {
    attribute(0x40, 3, &[192, 0, 2, 1])
}

/// What a route needs, and more.
pub(crate) fn base_and(more: &[Vec<u8>]) -> Vec<Vec<u8>> {
    [&[origin(), path(), next_hop()][..], more].concat()
}

/// The same on a session with two-octet numbers.
pub(crate) fn base2_and(more: &[Vec<u8>]) -> Vec<Vec<u8>> {
    [&[origin(), path2(), next_hop()][..], more].concat()
}

/// What `base_and(&[])` means.
pub(crate) fn plain() -> Attributes {
    let next_hop = NextHop::V4(Ipv4Addr::new(192, 0, 2, 1));
    let mut attributes = Attributes::new(Origin::Igp, next_hop);
    attributes.as_path = AsPath::sequence([65001, 64999]);
    attributes
}

pub(crate) fn plain_but(change: impl FnOnce(&mut Attributes)) -> Attributes {
    let mut attributes = plain();
    change(&mut attributes);
    attributes
}

/// 203.0.113.0/24.
pub(crate) const NET: [u8; 4] = [24, 203, 0, 113];
/// 198.51.100.0/24.
pub(crate) const GONE: [u8; 4] = [24, 198, 51, 100];
/// 2001:db8:7::/48.
pub(crate) const NET6: [u8; 7] = [48, 0x20, 0x01, 0x0D, 0xB8, 0, 7];
/// 2001:db8::1, fe80::1.
pub(crate) const HOP6: [u8; 16] = [0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
pub(crate) const LINK: [u8; 16] = [0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// The value of MP_REACH_NLRI.
pub(crate) fn reach(afi: u16, safi: u8, next_hop: &[u8], nlri: &[u8]) -> Vec<u8> {
    let length = u8::try_from(next_hop.len()).unwrap();
    [&afi.to_be_bytes()[..], &[safi, length], next_hop, &[0], nlri].concat()
}

/// The value of MP_UNREACH_NLRI.
pub(crate) fn unreach(afi: u16, safi: u8, nlri: &[u8]) -> Vec<u8> {
    [&afi.to_be_bytes()[..], &[safi], nlri].concat()
}

/// A session with an external peer, four-octet numbers.
pub(crate) const EXTERNAL: Context = Context {
    four_octet_as: true,
    add_path_ipv4: false,
    add_path_ipv6: false,
    extended_next_hop: false,
    internal: false,
};
pub(crate) const INTERNAL: Context = Context { internal: true, ..EXTERNAL };
/// Two-octet numbers.
pub(crate) const OLD: Context = Context { four_octet_as: false, ..EXTERNAL };
pub(crate) const OLD_INTERNAL: Context = Context { internal: true, ..OLD };
pub(crate) const EXTENDED_NEXT_HOP: Context = Context { extended_next_hop: true, ..EXTERNAL };
pub(crate) const ADD_PATH: Context =
    Context { add_path_ipv4: true, add_path_ipv6: true, ..EXTERNAL };
