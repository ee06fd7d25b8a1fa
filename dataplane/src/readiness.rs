//! When a link that is up really carries the first packet.
//!
//! Decides what an attach waits for: two things that the kernel does a moment
//! after it has said yes, each of which would cost the first packet a second
//! (the time to the next neighbour solicitation). Both are on their way, so
//! the wait is bounded and running out of it is no error.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NlasIterator};

use crate::channel::Channel;
use crate::error::Error;
use crate::observe::find_link_at;

/// How long is waited: 50 ms in all.
const ATTEMPTS: u32 = 1000;
const WAIT: Duration = Duration::from_micros(50);

const RTM_GETMULTICAST: u16 = 58;
const IFA_MULTICAST: u16 = 7;
const AF_INET6: u8 = 10;
const IFADDRMSG: usize = 8;

/// Waits for the carrier. An end that came up before the other has none yet,
/// and the kernel drops what it sends until a worker of its own has noticed
/// that it has one now. Asking for the link makes newer kernels notice at
/// once; with others it is waited for.
pub(crate) fn carrier(channel: &mut Channel, index: u32) -> Result<(), Error> {
    let mut attempts = ATTEMPTS;
    loop {
        let view = find_link_at(channel, index)?
            .ok_or_else(|| Error::NoSuchLink { name: index.to_string() })?;
        if view.operational || attempts == 0 {
            return Ok(());
        }
        attempts -= 1;
        std::thread::sleep(WAIT);
    }
}

/// Waits until neighbour solicitations for these addresses are heard. The
/// kernel joins the solicited-node group (RFC 4291 §2.7.1) of a new address
/// from a worker that needs the lock which we have just let go of.
pub(crate) fn solicitations(
    channel: &mut Channel,
    index: u32,
    addresses: impl Iterator<Item = IpAddr>,
) -> Result<(), Error> {
    let wanted: Vec<Ipv6Addr> = addresses.filter_map(solicited_node).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    for _ in 0..ATTEMPTS {
        let joined = groups(channel, index)?;
        if wanted.iter().all(|group| joined.contains(group)) {
            break;
        }
        std::thread::sleep(WAIT);
    }
    Ok(())
}

fn solicited_node(address: IpAddr) -> Option<Ipv6Addr> {
    let IpAddr::V6(address) = address else { return None };
    let [.., high, low] = address.segments();
    Some(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (high & 0xff), low))
}

/// The IPv6 multicast groups of one interface.
fn groups(channel: &mut Channel, index: u32) -> Result<Vec<Ipv6Addr>, Error> {
    let replies = channel.consistent("list multicast groups", |channel| {
        let number = channel.reserve(1);
        channel.exchange(&dump(number, index), number, 1)
    })?;
    let groups = replies.iter().filter_map(|reply| {
        let (header, attributes) = reply.payload.split_at_checked(IFADDRMSG)?;
        // Filtered here as well, for kernels that do not.
        if header.get(4..)? != index.to_ne_bytes() {
            return None;
        }
        let group =
            NlasIterator::new(attributes).flatten().find(|nla| nla.kind() == IFA_MULTICAST)?;
        Some(Ipv6Addr::from(*group.value().first_chunk::<16>()?))
    });
    Ok(groups.collect())
}

/// A message that netlink-packet-route has no words for.
fn dump(number: u32, index: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + IFADDRMSG);
    bytes.extend(24u32.to_ne_bytes());
    bytes.extend(RTM_GETMULTICAST.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes.extend(number.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend([AF_INET6, 0, 0, 0]);
    bytes.extend(index.to_ne_bytes());
    bytes
}
