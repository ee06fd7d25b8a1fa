//! Counting what comes out of a speaker, cheaper than any speaker can be: only
//! lengths are read, and the prefixes are summed up so that a wrong one, a
//! missing one or one sent twice does not go unnoticed.

use anyhow::{Context, Result};

/// MP_REACH_NLRI and MP_UNREACH_NLRI (RFC 4760 §3 and §4).
const MP_REACH: u8 = 14;
const MP_UNREACH: u8 = 15;

/// What was announced and withdrawn so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Prefixes announced.
    pub announced: u64,
    /// Their sum, whatever the order.
    pub sum: u64,
    /// Prefixes withdrawn.
    pub withdrawn: u64,
    /// End-of-RIB markers (RFC 4724 §2).
    pub ends_of_rib: u64,
}

impl Count {
    /// Takes the body of one UPDATE in.
    pub fn update(&mut self, body: &[u8]) -> Result<()> {
        let cut = "an UPDATE that is cut short";
        let (withdrawn, attributes, nlri) = parts(body).context(cut)?;
        if withdrawn.is_empty() && attributes.is_empty() && nlri.is_empty() {
            self.ends_of_rib += 1;
            return Ok(());
        }
        self.withdrawn += prefixes(withdrawn, |_| ()).context(cut)?;
        if nlri.is_empty() {
            self.multiprotocol(attributes).context(cut)
        } else {
            self.announce(nlri).context(cut)
        }
    }

    fn announce(&mut self, nlri: &[u8]) -> Option<()> {
        let mut sum = self.sum;
        self.announced += prefixes(nlri, |prefix| sum = sum.wrapping_add(fingerprint(prefix)))?;
        self.sum = sum;
        Some(())
    }

    fn multiprotocol(&mut self, fields: &[u8]) -> Option<()> {
        for (kind, value) in attributes(fields) {
            match kind {
                MP_REACH => {
                    // AFI, SAFI, then the next hop behind its own length, then a reserved octet.
                    let (next_hop, value) = value.get(3..)?.split_first()?;
                    self.announce(value.get(usize::from(*next_hop) + 1..)?)?;
                }
                MP_UNREACH => match value.get(3..)? {
                    [] => self.ends_of_rib += 1,
                    withdrawn => self.withdrawn += prefixes(withdrawn, |_| ())?,
                },
                _ => {}
            }
        }
        Some(())
    }
}

/// The parts of an UPDATE's body: withdrawn routes, attributes, NLRI.
pub(super) fn parts(body: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (withdrawn, rest) = counted(body)?;
    let (attributes, nlri) = counted(rest)?;
    Some((withdrawn, attributes, nlri))
}

/// The prefixes that the body of an UPDATE announces, each with its length octet.
pub(super) fn announced(body: &[u8]) -> Result<Vec<&[u8]>> {
    let walk = || {
        let (_, fields, mut nlri) = parts(body)?;
        if let Some((_, value)) = attributes(fields).find(|(kind, _)| *kind == MP_REACH) {
            let (next_hop, value) = value.get(3..)?.split_first()?;
            nlri = value.get(usize::from(*next_hop) + 1..)?;
        }
        let mut all = Vec::new();
        while let Some(bits) = nlri.first() {
            let (prefix, rest) = nlri.split_at_checked(1 + usize::from(*bits).div_ceil(8))?;
            all.push(prefix);
            nlri = rest;
        }
        Some(all)
    };
    walk().context("an UPDATE that is cut short")
}

/// Type and value of each attribute.
pub(super) fn attributes(mut fields: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (kind, value, rest) = next_attribute(fields)?;
        fields = rest;
        Some((kind, value))
    })
}

/// A field behind its length in two octets, and what follows it.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// Type, value, and what follows.
fn next_attribute(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let ([flags, kind], rest) = bytes.split_first_chunk::<2>()?;
    let (value, rest) = if flags & 0x10 == 0 {
        let (length, rest) = rest.split_first()?;
        rest.split_at_checked(usize::from(*length))?
    } else {
        counted(rest)?
    };
    Some((*kind, value, rest))
}

/// Walks NLRI; each prefix is given with its length octet.
pub(super) fn prefixes(mut nlri: &[u8], mut each: impl FnMut(&[u8])) -> Option<u64> {
    let mut count = 0;
    while let Some(bits) = nlri.first() {
        let (prefix, rest) = nlri.split_at_checked(1 + usize::from(*bits).div_ceil(8))?;
        each(prefix);
        count += 1;
        nlri = rest;
    }
    Some(count)
}

/// FNV-1a of a prefix as it is written in NLRI.
pub fn fingerprint(prefix: &[u8]) -> u64 {
    prefix.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::super::message::{self, HEADER, announce, plain_attributes, withdraw};
    use super::*;

    fn taken(messages: &[Vec<u8>]) -> Count {
        let mut count = Count::default();
        messages.iter().for_each(|message| count.update(&message[HEADER..]).unwrap());
        count
    }

    fn nlri(prefixes: &[(&str, u8)]) -> Vec<u8> {
        let one = |(address, length): &(&str, u8)| {
            message::prefix(address.parse::<IpAddr>().unwrap(), *length)
        };
        prefixes.iter().flat_map(one).collect()
    }

    #[test]
    fn both_families_are_counted_and_their_order_does_not_matter() {
        let attributes = plain_attributes(&[65_010]).unwrap();
        for (next_hop, one, other) in
            [("10.0.0.1", "10.1.0.0", "10.2.0.0"), ("fd00::1", "2a00:1::", "2a00:2::")]
        {
            let update = |prefixes: &[(&str, u8)]| {
                announce(&attributes, next_hop.parse().unwrap(), &nlri(prefixes)).unwrap()
            };
            let together = taken(&[update(&[(one, 32), (other, 31)])]);
            let apart = taken(&[update(&[(other, 31)]), update(&[(one, 32)])]);
            assert_eq!(together, apart);
            assert_eq!(together.announced, 2);
            let different = taken(&[update(&[(one, 32), (other, 32)])]);
            assert_ne!(together.sum, different.sum);
        }
    }

    #[test]
    fn withdrawals_and_ends_of_rib_are_told_apart() {
        let count = taken(&[
            withdraw(&nlri(&[("10.1.0.0", 16), ("0.0.0.0", 0)])).unwrap(),
            withdraw(&[]).unwrap(),
        ]);
        assert_eq!((count.withdrawn, count.ends_of_rib, count.announced), (2, 1, 0));
        let mut count = Count::default();
        // MP_UNREACH_NLRI for IPv6 unicast, empty, then with ::/0.
        count.update(&[0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1]).unwrap();
        assert_eq!((count.ends_of_rib, count.withdrawn), (1, 0));
        count.update(&[0, 0, 0, 7, 0x80, 15, 4, 0, 2, 1, 0]).unwrap();
        assert_eq!((count.ends_of_rib, count.withdrawn), (1, 1));
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        assert!(Count::default().update(&[0, 0, 0, 0, 24, 10, 0]).is_err());
        assert!(Count::default().update(&[0, 1]).is_err());
    }
}
