//! `ip-algo`: an IPv6 interface identifier that says whose it is. Decides: which fields, how the
//! host nibbles are divided among them, and what each field's nibbles are. Leaves the last nibble,
//! which tells apart pods that hash alike, to `pool6`.

use std::fmt;

use ipnet::Ipv6Net;

use super::identity::PodIdentity;

/// One part of a pod's identity that can be made visible in its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IpAlgoField {
    /// The pod's namespace.
    Namespace,
    /// The workload that the pod belongs to.
    App,
    /// The image of the first container, as written.
    Image,
}

impl IpAlgoField {
    fn name(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::App => "app",
            Self::Image => "image",
        }
    }
}

/// The fields in the order in which they appear in the address: distinct, and at least one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IpAlgo(Vec<IpAlgoField>);

/// Why an `ip-algo` text is no algorithm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadIpAlgo {
    /// Nothing is named.
    #[error("it names no field; write one or more of namespace, app, image, comma-separated")]
    Empty,
    /// A word that is no field.
    #[error("{0:?} is no field; use namespace, app, image, comma-separated")]
    Unknown(String),
    /// The same field twice.
    #[error("{0} is named twice; name each field once")]
    Twice(IpAlgoField),
}

impl fmt::Display for IpAlgoField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for IpAlgo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, field) in self.0.iter().enumerate() {
            write!(f, "{}{field}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl std::str::FromStr for IpAlgo {
    type Err = BadIpAlgo;

    fn from_str(text: &str) -> Result<Self, BadIpAlgo> {
        if text.trim().is_empty() {
            return Err(BadIpAlgo::Empty);
        }
        let mut fields = Vec::new();
        for word in text.split(',').map(str::trim) {
            let field = match word {
                "namespace" => IpAlgoField::Namespace,
                "app" => IpAlgoField::App,
                "image" => IpAlgoField::Image,
                other => return Err(BadIpAlgo::Unknown(other.to_owned())),
            };
            if fields.contains(&field) {
                return Err(BadIpAlgo::Twice(field));
            }
            fields.push(field);
        }
        Ok(Self(fields))
    }
}

impl IpAlgo {
    /// The fields, in order.
    pub fn fields(&self) -> &[IpAlgoField] {
        &self.0
    }

    /// Whether this pool's host part is a whole number of nibbles. Where it is not, the addresses
    /// of that pool are random.
    pub fn fits(pool: Ipv6Net) -> bool {
        pool.prefix_len().is_multiple_of(4) && pool.prefix_len() < 128
    }

    /// The lowest of the 16 addresses that this pod may have in `pool`: they differ in the last
    /// nibble only. `None` where the pool does not [fit](Self::fits).
    ///
    /// All host nibbles but the last are divided evenly; what does not divide goes to the earlier
    /// fields, one nibble each, because the first field is the one that the operator sorts by.
    /// A /64 with three fields is 5+5+5+1, with two 8+7+1; a /124 has the last nibble only.
    pub(super) fn base(&self, pool: Ipv6Net, who: &PodIdentity) -> Option<u128> {
        if !Self::fits(pool) {
            return None;
        }
        let shared = usize::from((128 - pool.prefix_len()) / 4).checked_sub(1)?;
        let each = shared.checked_div(self.0.len())?;
        let more = shared.checked_rem(self.0.len())?;
        let mut host: u128 = 0;
        for (i, field) in self.0.iter().enumerate() {
            let width = each + usize::from(i < more);
            for nibble in digits(*field, who).into_iter().cycle().take(width) {
                host = (host << 4) | u128::from(nibble);
            }
        }
        Some(u128::from(pool.network()) | (host << 4))
    }
}

/// The nibbles of a field's value, most significant first. A field wider than its value (more
/// than 16 nibbles for a hash) starts over at the value's first nibble: it stays a pure function
/// of the text, and no bit is a constant that someone could mistake for a meaning.
fn digits(field: IpAlgoField, who: &PodIdentity) -> Vec<u8> {
    let text = match field {
        IpAlgoField::Namespace => &who.namespace,
        IpAlgoField::App => &who.app,
        IpAlgoField::Image => {
            if let Some(own) = image_digest(&who.image) {
                return own;
            }
            &who.image
        }
    };
    let hash = fnv1a64(text.as_bytes());
    (0..16u32).rev().map(|i| ((hash >> (4 * i)) & 0xf) as u8).collect()
}

/// An image of 64 hex digits, and nothing else, is already a hash. `name@sha256:…` is not: it is
/// hashed as written, as the Go agent did, so that addresses stay what they were.
fn image_digest(image: &str) -> Option<Vec<u8>> {
    if image.len() != 64 {
        return None;
    }
    image.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect()
}

/// FNV-1a, 64 bits, as Go's `hash/fnv` and everyone else has it.
fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
