//! Routes by the million, the same ones in every run, encoded before any clock
//! starts.
//!
//! The mix is that of the routing table of the internet in rough strokes: six
//! of ten prefixes are /24 (or /48), paths have three to seven ASNs, half of
//! the routes carry communities. How many routes share their attributes is the
//! caller's choice, because that decides more than anything else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result, ensure};

use super::Family;
use super::count::{Count, announced, fingerprint};
use super::message::{
    Flags, HEADER, LONGEST, announce, attribute, plain_attributes, prefix, withdraw_of,
};

/// Shares of prefix lengths, in thousandths; the longest comes last and takes
/// what is left. Shortest first, so that none is misaligned.
const LENGTHS_V4: [(u8, usize); 9] =
    [(16, 10), (17, 8), (18, 15), (19, 30), (20, 45), (21, 50), (22, 110), (23, 90), (24, 0)];
const LENGTHS_V6: [(u8, usize); 8] =
    [(29, 30), (32, 120), (36, 40), (40, 80), (44, 100), (46, 50), (47, 40), (48, 0)];

/// First octets with nothing in them that a router would refuse: no private,
/// shared, loopback, link-local or documentation prefix.
fn is_clean(first_octet: u32) -> bool {
    !matches!(first_octet, 0 | 10 | 100 | 127 | 169 | 172 | 192 | 198 | 203 | 224..)
}

/// What to send.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// Which family.
    pub family: Family,
    /// How many routes.
    pub routes: usize,
    /// How many different sets of attributes they have.
    pub sets: usize,
    /// Who sends them.
    pub asn: u32,
    /// Where they lead.
    pub next_hop: IpAddr,
}

/// An encoded table.
#[derive(Debug)]
pub struct Table {
    /// UPDATE after UPDATE.
    pub bytes: Vec<u8>,
    /// What must come out at the other side.
    pub expected: Count,
}

impl Table {
    /// Encodes a table.
    pub fn new(wish: &Wish) -> Result<Self> {
        ensure!(wish.sets > 0 && wish.routes >= wish.sets, "as many routes as sets, at least");
        let mut dice = Dice(0x5eed);
        let mut prefixes = prefixes(wish)?;
        dice.shuffle(&mut prefixes);
        let mut table = Self { bytes: Vec::new(), expected: Count::default() };
        let mut rest = prefixes.as_slice();
        for set in 0..wish.sets {
            let share = if set + 1 == wish.sets {
                rest.len()
            } else {
                // Some sets are popular and most are not, and each has one route.
                let mean = (rest.len() / (wish.sets - set)).max(1);
                let spread = dice.below(mean) * dice.below(4) + 1;
                spread.min(rest.len().saturating_sub(wish.sets - set - 1))
            };
            let (these, others) = rest.split_at_checked(share).unwrap_or((rest, &[]));
            table.add(wish, &attributes(wish, set, &mut dice)?, these)?;
            rest = others;
        }
        Ok(table)
    }

    /// UPDATEs that withdraw all of it, in the same order.
    pub fn withdrawal(&self, family: Family) -> Result<Vec<u8>> {
        // Without NLRI, and room for a longer attribute header.
        let room = LONGEST - HEADER - 16;
        let (mut bytes, mut nlri) = (Vec::new(), Vec::new());
        let mut rest = self.bytes.as_slice();
        while let Some([high, low]) = rest.get(16..18) {
            let (message, others) = rest
                .split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))
                .context("a table that is cut short")?;
            rest = others;
            let mut each = |prefix: &[u8]| -> Result<()> {
                if nlri.len() + prefix.len() > room {
                    bytes.extend(withdraw_of(family, &nlri)?);
                    nlri.clear();
                }
                nlri.extend(prefix);
                Ok(())
            };
            for prefix in announced(message.get(HEADER..).unwrap_or_default())? {
                each(prefix)?;
            }
        }
        bytes.extend(withdraw_of(family, &nlri)?);
        Ok(bytes)
    }

    fn add(&mut self, wish: &Wish, attributes: &[u8], prefixes: &[Vec<u8>]) -> Result<()> {
        // Without NLRI, and room for a longer attribute header.
        let room = LONGEST - HEADER - announce(attributes, wish.next_hop, &[])?.len();
        let mut nlri = Vec::new();
        for prefix in prefixes {
            self.expected.announced += 1;
            self.expected.sum = self.expected.sum.wrapping_add(fingerprint(prefix));
            if nlri.len() + prefix.len() > room {
                self.bytes.extend(announce(attributes, wish.next_hop, &nlri)?);
                nlri.clear();
            }
            nlri.extend(prefix);
        }
        self.bytes.extend(announce(attributes, wish.next_hop, &nlri)?);
        Ok(())
    }
}

/// A set of attributes, different from all others by the end of its path.
fn attributes(wish: &Wish, set: usize, dice: &mut Dice) -> Result<Vec<u8>> {
    let mut path = vec![wish.asn];
    for _ in 0..1 + dice.below(5) {
        path.push(u32::try_from(1000 + dice.below(60_000))?);
    }
    path.push(u32::try_from(200_000 + set)?);
    let mut attributes = plain_attributes(&path)?;
    if dice.below(10) == 0 {
        attribute(&mut attributes, Flags::Optional, 4, &dice.word().to_be_bytes())?;
    }
    if dice.below(2) == 0 {
        let count = 1 + dice.below(8);
        let value: Vec<_> = (0..count).flat_map(|_| dice.community().to_be_bytes()).collect();
        attribute(&mut attributes, Flags::OptionalTransitive, 8, &value)?;
    }
    if dice.below(10) == 0 {
        let value: Vec<_> = (0..3).flat_map(|_| dice.word().to_be_bytes()).collect();
        attribute(&mut attributes, Flags::OptionalTransitive, 32, &value)?;
    }
    Ok(attributes)
}

/// All different; each as NLRI.
fn prefixes(wish: &Wish) -> Result<Vec<Vec<u8>>> {
    let shares: &[(u8, usize)] = match wish.family {
        Family::V4 => &LENGTHS_V4,
        Family::V6 => &LENGTHS_V6,
    };
    let mut all = Vec::with_capacity(wish.routes);
    // In units of a /24 or a /48.
    let mut at: u64 = match wish.family {
        Family::V4 => 1 << 16,
        Family::V6 => 0x2a10 << 32,
    };
    for (length, share) in shares {
        let left = wish.routes - all.len();
        let count = if *share == 0 { left } else { (wish.routes * share / 1000).min(left) };
        for _ in 0..count {
            let address = match wish.family {
                Family::V4 => IpAddr::V4(v4_at(&mut at)?),
                Family::V6 => IpAddr::V6(Ipv6Addr::from(u128::from(at) << 80)),
            };
            all.push(prefix(address, *length));
            at += match wish.family {
                Family::V4 => 1 << (24 - length),
                Family::V6 => 1 << (48 - length),
            };
        }
    }
    Ok(all)
}

/// The address of a /24, past the ones that a router would refuse.
fn v4_at(at: &mut u64) -> Result<Ipv4Addr> {
    loop {
        let address = u32::try_from(*at << 8)?;
        if is_clean(address >> 24) {
            return Ok(Ipv4Addr::from(address));
        }
        ensure!(address >> 24 < 224, "more routes than there is IPv4 for them");
        *at = (*at & !0xffff) + (1 << 16);
    }
}

/// Chance that repeats itself: splitmix64.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % limit).unwrap_or(0)
    }

    fn word(&mut self) -> u32 {
        u32::try_from(self.next() >> 32).unwrap_or(0)
    }

    /// Never a well-known one: those would change what a speaker does.
    fn community(&mut self) -> u32 {
        self.word() >> 1 | 1 << 16
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            let other = self.below(index + 1);
            items.swap(index, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn wish(family: Family, routes: usize, sets: usize) -> Wish {
        let next_hop = family.address(1, 2).parse().unwrap();
        Wish { family, routes, sets, asn: 65_010, next_hop }
    }

    #[test]
    fn a_table_says_what_it_promises_and_no_message_is_too_long() {
        for family in [Family::V4, Family::V6] {
            for sets in [1, 7, 2000] {
                let table = Table::new(&wish(family, 20_000, sets)).unwrap();
                let mut count = Count::default();
                let mut rest = table.bytes.as_slice();
                let mut seen = HashSet::new();
                while !rest.is_empty() {
                    let length = usize::from(u16::from_be_bytes([rest[16], rest[17]]));
                    assert!(length <= LONGEST);
                    count.update(&rest[HEADER..length]).unwrap();
                    // ORIGIN takes four octets, the path follows.
                    let path = &rest[23 + 4..];
                    seen.insert(path[..3 + usize::from(path[2])].to_vec());
                    rest = &rest[length..];
                }
                assert_eq!(count, table.expected);
                assert_eq!(count.announced, 20_000);
                assert_eq!(seen.len(), sets);
                let gone = table.withdrawal(family).unwrap();
                let mut rest = gone.as_slice();
                while !rest.is_empty() {
                    let length = usize::from(u16::from_be_bytes([rest[16], rest[17]]));
                    assert!(length <= LONGEST);
                    count.update(&rest[HEADER..length]).unwrap();
                    rest = &rest[length..];
                }
                assert_eq!((count.withdrawn, count.announced), (20_000, 20_000));
            }
        }
    }

    #[test]
    fn a_million_prefixes_differ_and_none_is_one_that_routers_refuse() {
        let all = prefixes(&wish(Family::V4, 1_000_000, 1)).unwrap();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 1_000_000);
        assert!(all.iter().all(|prefix| is_clean(u32::from(prefix[1]))));
    }
}
