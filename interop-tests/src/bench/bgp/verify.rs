//! Whether what comes out of a speaker is what it should be: every prefix with
//! the path that came in and the speaker's ASN before it (RFC 4271 §5.1.2), the
//! speaker as its next hop, and the same communities.
//!
//! Once, with a small table and without a clock. A contestant that fails this
//! has no business in the table of figures.

use std::collections::HashMap;
use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};

use super::count::{attributes, parts, prefixes};
use super::message::HEADER;

const AS_PATH: u8 = 2;
const NEXT_HOP: u8 = 3;
const COMMUNITIES: u8 = 8;
const MP_REACH: u8 = 14;
const LARGE_COMMUNITIES: u8 = 32;

/// What a route says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Route {
    path: Vec<u32>,
    next_hop: Vec<u8>,
    communities: Vec<[u8; 4]>,
    large_communities: Vec<[u8; 12]>,
}

/// Routes by their prefix as NLRI.
#[derive(Debug, Default)]
pub struct Routes(HashMap<Vec<u8>, Route>);

impl Routes {
    /// Those of a table that is one UPDATE after the other.
    pub fn of_stream(mut stream: &[u8]) -> Result<Self> {
        let mut routes = Self::default();
        while let Some(length) = stream.get(16..18).and_then(|field| field.first_chunk()) {
            let length = usize::from(u16::from_be_bytes(*length));
            let (message, rest) = stream.split_at_checked(length).context("half a message")?;
            routes.learn(message.get(HEADER..).unwrap_or_default())?;
            stream = rest;
        }
        Ok(routes)
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Takes the body of one UPDATE in.
    pub fn learn(&mut self, body: &[u8]) -> Result<()> {
        let (_, fields, mut nlri) = parts(body).context("an UPDATE that is cut short")?;
        let mut route = Route::default();
        for (kind, value) in attributes(fields) {
            match kind {
                AS_PATH => route.path = path(value).context("a path that is no sequence")?,
                NEXT_HOP => route.next_hop = value.to_vec(),
                COMMUNITIES => route.communities = sorted(value),
                LARGE_COMMUNITIES => route.large_communities = sorted(value),
                MP_REACH => {
                    let length = usize::from(*value.get(3).context("no next hop")?);
                    // A link-local address may follow the global one (RFC 2545 §3).
                    route.next_hop = value.get(4..20).context("no next hop")?.to_vec();
                    nlri = value.get(4 + length + 1..).context("no NLRI")?;
                }
                _ => {}
            }
        }
        let mut learnt = |prefix: &[u8]| drop(self.0.insert(prefix.to_vec(), route.clone()));
        prefixes(nlri, &mut learnt).context("NLRI that is cut short")?;
        Ok(())
    }

    /// Whether these came out of a speaker into which `sent` went.
    pub fn passed_on(&self, sent: &Self, asn: u32, next_hop: IpAddr) -> Result<()> {
        let next_hop = match next_hop {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        for (prefix, before) in &sent.0 {
            let Some(after) = self.0.get(prefix) else { bail!("{prefix:?} did not come out") };
            let path = [&[asn], before.path.as_slice()].concat();
            let expected = Route { path, next_hop: next_hop.clone(), ..before.clone() };
            ensure!(*after == expected, "{prefix:?} came out as {after:?}, not {expected:?}");
        }
        ensure!(self.0.len() == sent.0.len(), "more came out than went in");
        Ok(())
    }
}

fn path(value: &[u8]) -> Option<Vec<u32>> {
    let ([kind, count], asns) = value.split_first_chunk::<2>()?;
    let whole = *kind == 2 && asns.len() == 4 * usize::from(*count);
    whole.then(|| chunks(asns).into_iter().map(u32::from_be_bytes).collect())
}

fn chunks<const N: usize>(value: &[u8]) -> Vec<[u8; N]> {
    value.as_chunks().0.to_vec()
}

/// Their order means nothing, and some speakers sort them.
fn sorted<const N: usize>(value: &[u8]) -> Vec<[u8; N]> {
    let mut values = chunks(value);
    values.sort_unstable();
    values
}

#[cfg(test)]
mod tests {
    use super::super::message::{Flags, announce, attribute, plain_attributes, prefix};
    use super::*;

    fn routes(path: &[u32], next_hop: &str, communities: &[u8]) -> Routes {
        let mut fields = plain_attributes(path).unwrap();
        attribute(&mut fields, Flags::OptionalTransitive, 8, communities).unwrap();
        let nlri = prefix("2a00::".parse().unwrap(), 32);
        let update = announce(&fields, next_hop.parse().unwrap(), &nlri).unwrap();
        Routes::of_stream(&update).unwrap()
    }

    #[test]
    fn only_what_was_passed_on_as_it_should_be_passes() {
        let sent = routes(&[65_010, 7], "fd00::2", &[0, 1, 0, 1, 0, 2, 0, 2]);
        let us: IpAddr = "fd00::1".parse().unwrap();
        let sorted_otherwise = [0, 2, 0, 2, 0, 1, 0, 1];
        let good = routes(&[65_001, 65_010, 7], "fd00::1", &sorted_otherwise);
        good.passed_on(&sent, 65_001, us).unwrap();
        for bad in [
            routes(&[65_010, 7], "fd00::1", &sorted_otherwise),
            routes(&[65_001, 65_010, 7], "fd00::2", &sorted_otherwise),
            routes(&[65_001, 65_010, 7], "fd00::1", &[0, 2, 0, 2]),
            Routes::default(),
        ] {
            bad.passed_on(&sent, 65_001, us).unwrap_err();
        }
    }
}
