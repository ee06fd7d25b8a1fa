//! An address with a prefix length, as CNI results write it: `10.0.0.7/32`.
//!
//! Decides what is one. Keeps the host bits (a result's address has them) and
//! leaves arithmetic on prefixes to those who have a crate for it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An IP address and the length of its prefix, which fits the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpCidr {
    address: IpAddr,
    prefix_len: u8,
}

/// Not an address and a prefix length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not ADDRESS/LENGTH")]
pub struct NotACidr(String);

impl IpCidr {
    /// None where the length is too long for the family.
    #[must_use]
    pub fn new(address: IpAddr, prefix_len: u8) -> Option<Self> {
        (prefix_len <= width(address)).then_some(Self { address, prefix_len })
    }

    /// The address alone: /32 or /128.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        Self { address, prefix_len: width(address) }
    }

    /// The address, host bits included.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The length of the prefix.
    #[must_use]
    pub fn prefix_len(&self) -> u8 {
        self.prefix_len
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl FromStr for IpCidr {
    type Err = NotACidr;

    fn from_str(text: &str) -> Result<Self, NotACidr> {
        let parsed = text.split_once('/').and_then(|(address, length)| {
            // `u8::from_str` would take "+8" as well.
            let digits = length.bytes().all(|b| b.is_ascii_digit());
            Self::new(address.parse().ok()?, length.parse().ok().filter(|_| digits)?)
        });
        parsed.ok_or_else(|| NotACidr(text.chars().take(64).collect()))
    }
}

impl fmt::Display for IpCidr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.prefix_len)
    }
}

impl Serialize for IpCidr {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IpCidr {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}
