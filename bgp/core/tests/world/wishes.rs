//! Wishes, as short as a test wants them.

use flock_bgp::{
    AddressRule, Event, Import, NextHops, Origination, PeerAsn, PeerConfig, SpeakerConfig, Wishes,
};

pub(crate) fn speaker(number: u8) -> SpeakerConfig {
    SpeakerConfig {
        install: true,
        ..SpeakerConfig::new(65_000 + u32::from(number), [10, 0, 0, number].into(), number.into())
    }
}

/// A peer that takes everything, and whom we tell both families.
pub(crate) fn peer(name: &str, address: &str) -> PeerConfig {
    PeerConfig {
        import: Some(Import { accept: everything(), max_prefixes: 100_000 }),
        next_hops: NextHops {
            ipv4: Some([192, 0, 2, 1].into()),
            ipv6: Some("2001:db8:1::1".parse().unwrap()),
        },
        ..PeerConfig::new(name, address.parse().unwrap(), PeerAsn::External)
    }
}

pub(crate) fn everything() -> Vec<AddressRule> {
    vec![
        AddressRule { net: "0.0.0.0/0".parse().unwrap(), min: 0, max: 32 },
        AddressRule { net: "::/0".parse().unwrap(), min: 0, max: 128 },
    ]
}

pub(crate) fn originate(nets: &[&str]) -> Event<'static> {
    Event::Originate(Wishes::Some(
        nets.iter().map(|net| (net.parse().unwrap(), Some(Origination::default()))).collect(),
    ))
}

pub(crate) fn withdraw(nets: &[&str]) -> Event<'static> {
    Event::Originate(Wishes::Some(nets.iter().map(|net| (net.parse().unwrap(), None)).collect()))
}

/// Connected ones, and those of our pods.
pub(crate) fn networks(connected: &[&str], own: &[&str]) -> Event<'static> {
    let nets = |of: &[&str]| of.iter().map(|net| net.parse().unwrap()).collect();
    Event::Networks { connected: nets(connected), own: nets(own), down: Vec::new() }
}

/// The nth /24 of 100.64.0.0/10 and beyond.
pub(crate) fn number(n: u32) -> String {
    format!("100.{}.{}.0/24", 64 + (n >> 8), n & 255)
}
