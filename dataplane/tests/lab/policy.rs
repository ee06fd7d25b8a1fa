//! Elements of a policy, in few words.

use flock_dataplane::policy::{Class, Direction, Element, Ports, Profile};

use super::address;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

pub(crate) fn subject(direction: Direction, ifname: &str, profile: u32) -> Element {
    Element::Subject { direction, ifname: ifname.into(), profile: Profile(profile) }
}

pub(crate) fn ingress(ifname: &str, profile: u32) -> Element {
    subject(Direction::Ingress, ifname, profile)
}

pub(crate) fn egress(ifname: &str, profile: u32) -> Element {
    subject(Direction::Egress, ifname, profile)
}

pub(crate) fn member(text: &str, class: u32) -> Element {
    Element::Member { address: address(text), class: Class(class) }
}

pub(crate) fn block(first: &str, last: &str, class: u32) -> Element {
    Element::Block { first: address(first), last: address(last), class: Class(class) }
}

pub(crate) fn range(protocol: u8, first: u16, last: u16, number: u32) -> Element {
    Element::Range { protocol, first, last, number }
}

pub(crate) fn allowed(profile: u32, class: u32, ports: Ports) -> Element {
    Element::Allowed { profile: Profile(profile), class: Class(class), ports }
}

pub(crate) fn own(source: &str, destination: &str) -> Element {
    Element::Own { source: address(source), destination: address(destination) }
}

/// So many pods of one class.
pub(crate) fn members(count: u32) -> Vec<Element> {
    let address = |n: u32| std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into();
    (0..count).map(|n| Element::Member { address: address(n), class: Class(2) }).collect()
}

/// One of everything.
pub(crate) fn some() -> Vec<Element> {
    vec![
        ingress("flock00000001", 2),
        egress("flock00000001", 3),
        member("10.0.0.1", 2),
        member("2001:db8::1", 2),
        block("10.1.0.0", "10.1.0.255", 3),
        block("10.1.1.0", "10.1.1.255", 4),
        block("240.0.0.0", "255.255.255.255", 4),
        block("::", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", 3),
        block("2001:db9::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 4),
        range(TCP, 100, 200, 5),
        range(TCP, 201, 65535, 70_000),
        range(UDP, 150, 250, 6),
        allowed(2, 2, Ports::One(TCP, 80)),
        allowed(2, 2, Ports::Range(5)),
        allowed(2, 0, Ports::All),
        allowed(3, 4, Ports::Protocol(UDP)),
        own("10.0.0.1", "10.0.0.1"),
        own("2001:db8::1", "2001:db8::1"),
    ]
}
