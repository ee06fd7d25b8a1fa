//! Reading networks and addresses that people wrote. Decides which networks can be a pool at all
//! and which addresses can belong to a pod; leaves to the callers to say where the text stood.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Why a text is not a usable network or address; it does not repeat the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadNetwork {
    /// It cannot be read.
    #[error("not {wanted}; write for example {example}")]
    Unreadable {
        /// What was wanted.
        wanted: &'static str,
        /// What it looks like.
        example: &'static str,
    },
    /// The other family.
    #[error("this is {found}, and here belongs {wanted}; write for example {example}")]
    WrongFamily {
        /// What it is.
        found: &'static str,
        /// What was wanted.
        wanted: &'static str,
        /// What it looks like.
        example: &'static str,
    },
    /// Bits are set below the prefix length.
    #[error("bits are set beyond the prefix length; the network is {meant}")]
    HostBits {
        /// The network that the text names.
        meant: IpNet,
    },
    /// No room for pods.
    #[error("too small for pods: the smallest pool is a /{smallest}")]
    TooSmall {
        /// The longest prefix that is accepted.
        smallest: u8,
    },
    /// It holds addresses that a pod cannot have.
    #[error("{0} cannot be used here; use unicast address space of your own")]
    NotUnicast(&'static str),
    /// A prefix length that is not that of one address.
    #[error("this is a network, and here belongs one address; write {meant}, or /{full} after it")]
    NotOneAddress {
        /// The address without its length.
        meant: IpAddr,
        /// The length that one address has.
        full: u8,
    },
}

/// The longest IPv4 prefix of a pool. Network, first host and broadcast are never given out, so a
/// /30 holds one pod.
const SMALLEST_V4: u8 = 30;
/// The longest IPv6 prefix of a pool: one nibble, the least that `ip-algo` can work with.
const SMALLEST_V6: u8 = 124;

/// Address space that never belongs to a pod, and what it is called. 240.0.0.0/4 is not here:
/// Linux routes it, and large clusters use it for pods.
const NOT_UNICAST: [(IpNet, &str); 10] = [
    (v4(0, 0, 0, 0, 8), "unspecified (0.0.0.0/8)"),
    (v4(127, 0, 0, 0, 8), "loopback (127.0.0.0/8)"),
    (v4(169, 254, 0, 0, 16), "link-local (169.254.0.0/16)"),
    (v4(224, 0, 0, 0, 4), "multicast (224.0.0.0/4)"),
    (v4(255, 255, 255, 255, 32), "broadcast (255.255.255.255)"),
    (v6(0, 0, 128), "unspecified (::)"),
    (v6(0, 1, 128), "loopback (::1)"),
    (v6(0xfe80, 0, 10), "link-local (fe80::/10)"),
    (v6(0xff00, 0, 8), "multicast (ff00::/8)"),
    (
        IpNet::V6(Ipv6Net::new_assert(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped(), 96)),
        "IPv4-mapped (::ffff:0:0/96)",
    ),
];

const fn v4(a: u8, b: u8, c: u8, d: u8, len: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), len))
}

const fn v6(first: u16, last: u16, len: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, last), len))
}

/// An IPv6 network in canonical form and of a size that pods fit in. It may be a supernet of
/// anything: an annotation says with `::/0` that every pool is welcome.
pub fn network6(text: &str) -> Result<Ipv6Net, BadNetwork> {
    const WANTED: &str = "an IPv6 network";
    const EXAMPLE: &str = "2001:db8:a::/64";
    match text.parse::<IpNet>() {
        Ok(IpNet::V6(net)) => sized(net, net.trunc(), SMALLEST_V6),
        Ok(IpNet::V4(_)) => Err(BadNetwork::WrongFamily {
            found: "an IPv4 network",
            wanted: WANTED,
            example: EXAMPLE,
        }),
        Err(_) => Err(BadNetwork::Unreadable { wanted: WANTED, example: EXAMPLE }),
    }
}

/// The same for IPv4.
pub fn network4(text: &str) -> Result<Ipv4Net, BadNetwork> {
    const WANTED: &str = "an IPv4 network";
    const EXAMPLE: &str = "10.244.1.0/24";
    match text.parse::<IpNet>() {
        Ok(IpNet::V4(net)) => sized(net, net.trunc(), SMALLEST_V4),
        Ok(IpNet::V6(_)) => Err(BadNetwork::WrongFamily {
            found: "an IPv6 network",
            wanted: WANTED,
            example: EXAMPLE,
        }),
        Err(_) => Err(BadNetwork::Unreadable { wanted: WANTED, example: EXAMPLE }),
    }
}

fn sized<N: Copy + PartialEq + Into<IpNet>>(
    net: N,
    canonical: N,
    smallest: u8,
) -> Result<N, BadNetwork> {
    if net != canonical {
        return Err(BadNetwork::HostBits { meant: canonical.into() });
    }
    if net.into().prefix_len() > smallest {
        return Err(BadNetwork::TooSmall { smallest });
    }
    Ok(net)
}

/// An IPv6 network that addresses can be taken from: [`network6`], and unicast all of it.
pub fn pool_v6(text: &str) -> Result<Ipv6Net, BadNetwork> {
    let net = network6(text)?;
    unicast(net.into())?;
    Ok(net)
}

/// The same for IPv4.
pub fn pool_v4(text: &str) -> Result<Ipv4Net, BadNetwork> {
    let net = network4(text)?;
    unicast(net.into())?;
    Ok(net)
}

/// One address that a pod can have, bare or with the length of a single address behind it.
pub fn address(text: &str) -> Result<IpAddr, BadNetwork> {
    let addr = match text.parse::<IpNet>() {
        Ok(net) if net.prefix_len() == net.max_prefix_len() => net.addr(),
        Ok(net) => {
            return Err(BadNetwork::NotOneAddress {
                meant: net.addr(),
                full: net.max_prefix_len(),
            });
        }
        Err(_) => text.parse::<IpAddr>().map_err(|_| BadNetwork::Unreadable {
            wanted: "an IP address",
            example: "2001:db8::53 or 192.0.2.53",
        })?,
    };
    unicast(IpNet::from(addr))?;
    Ok(addr)
}

/// Refuses a network that touches address space which no pod can have.
fn unicast(net: IpNet) -> Result<(), BadNetwork> {
    match NOT_UNICAST.iter().find(|(bad, _)| bad.contains(&net) || net.contains(bad)) {
        Some((_, name)) => Err(BadNetwork::NotUnicast(name)),
        None => Ok(()),
    }
}
