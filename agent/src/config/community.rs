//! Communities as people write them. Decides which texts are standard (RFC 1997) and which are
//! large ones (RFC 8092), and the well-known names; leaves attaching them to the speaker.

use std::fmt;
use std::str::FromStr;

use super::bounds;
use super::problem::At;

/// A standard community: four bytes, the upper two usually an AS number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Community(pub u32);

/// A large community: whose, and two words of their choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LargeCommunity(pub u32, pub u32, pub u32);

/// Both kinds, in the order of the list and without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Communities {
    /// `65001:100`.
    pub standard: Vec<Community>,
    /// `65001:1:2`.
    pub large: Vec<LargeCommunity>,
}

/// The names of IANA's registry that an operator would attach.
const WELL_KNOWN: [(&str, u32); 6] = [
    ("graceful-shutdown", 0xffff_0000),
    ("blackhole", 0xffff_029a),
    ("no-export", 0xffff_ff01),
    ("no-advertise", 0xffff_ff02),
    ("no-export-subconfed", 0xffff_ff03),
    ("no-peer", 0xffff_ff04),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Either {
    Standard(Community),
    Large(LargeCommunity),
}

impl FromStr for Either {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, value)) = WELL_KNOWN.iter().find(|(name, _)| *name == text) {
            return Ok(Self::Standard(Community(*value)));
        }
        let mut words = text.split(':');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some(a), Some(b), None, None) => match (decimal::<u16>(a), decimal::<u16>(b)) {
                (Some(a), Some(b)) => {
                    Ok(Self::Standard(Community(u32::from(a) << 16 | u32::from(b))))
                }
                _ => {
                    Err("both parts of a community are numbers from 0 to 65535; write for example \
                          65001:100, or a large community 4200000000:1:2"
                        .to_owned())
                }
            },
            (Some(a), Some(b), Some(c), None) => {
                match (decimal::<u32>(a), decimal::<u32>(b), decimal::<u32>(c)) {
                    (Some(a), Some(b), Some(c)) => Ok(Self::Large(LargeCommunity(a, b, c))),
                    _ => Err("the three parts of a large community are numbers from 0 to \
                              4294967295; write for example 65001:1:2"
                        .to_owned()),
                }
            }
            _ => {
                let names: Vec<&str> = WELL_KNOWN.iter().map(|(name, _)| *name).collect();
                Err(format!(
                    "not a community; write for example 65001:100, 65001:1:2, or one of {}",
                    names.join(", ")
                ))
            }
        }
    }
}

/// Digits only: Rust's own parser would also take `+1`.
fn decimal<T: FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// All of a list; problems are collected and the rest is read.
pub(super) fn read(list: Option<&[String]>, mut at: At<'_>) -> Communities {
    let mut found = Communities::default();
    for (i, text) in at.at_most(bounds::COMMUNITIES, list).iter().enumerate() {
        let mut at = at.index(i);
        let Some(community) = at.take(text, text.trim().parse::<Either>()) else {
            continue;
        };
        let is_new = match community {
            Either::Standard(community) => push(&mut found.standard, community),
            Either::Large(community) => push(&mut found.large, community),
        };
        if !is_new {
            at.wrong(text, "it is listed twice; list it once");
        }
    }
    found
}

fn push<T: PartialEq>(list: &mut Vec<T>, item: T) -> bool {
    let is_new = !list.contains(&item);
    if is_new {
        list.push(item);
    }
    is_new
}

impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0 >> 16, self.0 & 0xffff)
    }
}

impl fmt::Display for LargeCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.0, self.1, self.2)
    }
}
