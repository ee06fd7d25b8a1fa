//! Prefix rules as routers have them: `P`, `P ge N`, `P le N`, `P ge N le M`. Decides what a text
//! means and whether a prefix matches; leaves what a match is good for to the policy.

use std::fmt;
use std::str::FromStr;

use ipnet::IpNet;

/// Prefixes inside `net` whose length is from `ge` to `le`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PrefixRule {
    /// Where they lie.
    pub net: IpNet,
    /// The shortest length; at least the net's own.
    pub ge: u8,
    /// The longest length; at least `ge`.
    pub le: u8,
}

impl PrefixRule {
    /// Whether the rule speaks of this prefix.
    pub fn matches(&self, prefix: &IpNet) -> bool {
        self.net.contains(prefix) && (self.ge..=self.le).contains(&prefix.prefix_len())
    }
}

const SYNTAX: &str = "not a prefix rule; write for example 2001:db8::/32, 2001:db8::/32 le 64, or \
                      10.0.0.0/8 ge 16 le 24";

impl FromStr for PrefixRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let net: IpNet = words.next().and_then(|word| word.parse().ok()).ok_or(SYNTAX)?;
        if net != net.trunc() {
            return Err(format!(
                "bits are set beyond the prefix length; the network is {}",
                net.trunc()
            ));
        }
        let (own, full) = (net.prefix_len(), net.max_prefix_len());
        let mut bounds = (None, None);
        while let Some(word) = words.next() {
            let bound = match word {
                "ge" => &mut bounds.0,
                "le" => &mut bounds.1,
                _ => return Err(SYNTAX.to_owned()),
            };
            let length = words.next().and_then(|word| word.parse::<u8>().ok()).ok_or(SYNTAX)?;
            if bound.replace(length).is_some() {
                return Err(format!("{word} is written twice; write it once"));
            }
        }
        let (ge, le) = match bounds {
            // Without a word the prefix itself and nothing else.
            (None, None) => (own, own),
            (ge, le) => (ge.unwrap_or(own), le.unwrap_or(full)),
        };
        if ge < own || ge > le || le > full {
            return Err(format!("lengths go from {own} (its own) to {full}, and ge is at most le"));
        }
        Ok(Self { net, ge, le })
    }
}

impl fmt::Display for PrefixRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (own, full) = (self.net.prefix_len(), self.net.max_prefix_len());
        write!(f, "{}", self.net)?;
        if (self.ge, self.le) == (own, own) {
            return Ok(());
        }
        if self.ge != own {
            write!(f, " ge {}", self.ge)?;
        }
        // `P le full` must stay different from plain `P`.
        if self.le != full || self.ge == own {
            write!(f, " le {}", self.le)?;
        }
        Ok(())
    }
}
