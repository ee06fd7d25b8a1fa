//! Echo requests and their answers: the bytes, and a socket that hears nothing but
//! the answers to its own requests.
//!
//! It is an ICMP datagram socket (`ping` uses the same), not a raw one: the kernel
//! writes identifier and checksum, and delivers an answer only to the socket that
//! has its identifier. A raw socket is woken for every ICMP packet of the
//! namespace, and its buffer fills with what others said.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use anyhow::{Context, Result};
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, bind, ipproto, socket_with};

/// Room for some ten thousand answers, so that a receiver that is not scheduled
/// for seconds loses none. Requests wait in the other one until their neighbour
/// is resolved.
const BUFFER: usize = 8 << 20;

/// How long a request is, with the header.
const LENGTH: usize = 28;

/// One request, and what its answer brings back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    /// Which storm it belongs to.
    pub(super) storm: u64,
    /// Which of its targets.
    pub(super) target: u32,
    /// Which of the requests to that target, from 0.
    pub(super) sequence: u64,
}

/// The type of a request, and of an answer.
fn types(ipv6: bool) -> (u8, u8) {
    if ipv6 { (128, 129) } else { (8, 0) }
}

impl Probe {
    /// The request as it is given to the socket.
    pub(super) fn request(self, ipv6: bool) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let header = [types(ipv6).0, 0, 0, 0, 0, 0];
        let [.., high, low] = self.sequence.to_be_bytes();
        let parts = header.into_iter().chain([high, low]).chain(self.storm.to_be_bytes());
        let parts = parts.chain(self.target.to_be_bytes()).chain(self.sequence.to_be_bytes());
        bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = part);
        bytes
    }

    /// The probe that an answer belongs to; none when it is no answer of ours or
    /// its two sequence numbers contradict each other.
    pub(super) fn answered(bytes: &[u8], ipv6: bool) -> Option<Self> {
        let (header, bytes) = bytes.split_first_chunk::<8>()?;
        let (storm, bytes) = bytes.split_first_chunk()?;
        let (target, bytes) = bytes.split_first_chunk()?;
        let sequence: &[u8; 8] = bytes.try_into().ok()?;
        let &[kind, code, _, _, _, _, high, low] = header;
        let [.., expected_high, expected_low] = *sequence;
        let fits =
            (kind, code) == (types(ipv6).1, 0) && (high, low) == (expected_high, expected_low);
        fits.then_some(Self {
            storm: u64::from_be_bytes(*storm),
            target: u32::from_be_bytes(*target),
            sequence: u64::from_be_bytes(*sequence),
        })
    }
}

/// A socket for one family.
#[derive(Debug)]
pub(super) struct EchoSocket {
    // Its calls are those of any datagram socket; the standard library has them safe.
    socket: UdpSocket,
    ipv6: bool,
}

impl EchoSocket {
    /// Opens a socket in the namespace of the calling thread, with this source
    /// address or, without one, whichever the kernel takes.
    pub(super) fn open(ipv6: bool, source: Option<IpAddr>) -> Result<Self> {
        // Whose group may have such sockets; nobody's by default. Both families obey.
        fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0")
            .context("permitting ICMP sockets")?;
        let (family, protocol): (_, Protocol) = match ipv6 {
            true => (AddressFamily::INET6, ipproto::ICMPV6),
            false => (AddressFamily::INET, ipproto::ICMP),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::DGRAM, flags, Some(protocol))
            .context("opening an ICMP socket")?;
        set_socket_recv_buffer_size_force(&socket, BUFFER)?;
        set_socket_send_buffer_size_force(&socket, BUFFER)?;
        // Bound in any case, so that it has its identifier from the start.
        let source = source.unwrap_or(match ipv6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        });
        bind(&socket, &SocketAddr::new(source, 0))
            .with_context(|| format!("{source} is no address to send from"))?;
        Ok(Self { socket: UdpSocket::from(socket), ipv6 })
    }

    pub(super) fn as_fd(&self) -> &UdpSocket {
        &self.socket
    }

    /// Sends a request, or says why it could not leave.
    pub(super) fn send(&self, to: IpAddr, probe: Probe) -> std::io::Result<()> {
        self.socket.send_to(&probe.request(self.ipv6), SocketAddr::new(to, 0)).map(drop)
    }

    /// The next answer that waits: whence, and what is in it if it is ours.
    pub(super) fn receive(&self) -> Result<Option<(IpAddr, Option<Probe>)>> {
        // One byte more than ours, so that a longer one is told apart.
        let mut buffer = [0; LENGTH + 1];
        match self.socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                let bytes = buffer.get(..length).unwrap_or_default();
                Ok(Some((from.ip(), Probe::answered(bytes, self.ipv6))))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error).context("receiving answers"),
        }
    }

    /// How many answers the kernel threw away because the socket was full, as it
    /// tells in the namespace of the calling thread.
    pub(super) fn overflowed(&self) -> Result<u64> {
        let inode = rustix::fs::fstat(&self.socket)?.st_ino.to_string();
        let file = if self.ipv6 { "icmp6" } else { "icmp" };
        let table = fs::read_to_string(format!("/proc/thread-self/net/{file}"))?;
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let own = rows.into_iter().find(|row| row.get(9) == Some(&inode.as_str()));
        let drops = own.as_ref().and_then(|row| row.last()?.parse().ok());
        drops.with_context(|| format!("no socket with the inode {inode} in:\n{table}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echoed(probe: Probe, ipv6: bool) -> [u8; LENGTH] {
        let mut bytes = probe.request(ipv6);
        bytes[0] = types(ipv6).1;
        bytes
    }

    #[test]
    fn an_answer_brings_its_probe_back() {
        let probe = Probe { storm: 7, target: 3, sequence: 0x0001_0203 };
        for ipv6 in [false, true] {
            assert_eq!(Probe::answered(&echoed(probe, ipv6), ipv6), Some(probe));
            assert_eq!(Probe::answered(&echoed(probe, ipv6), !ipv6), None, "of the other family");
            assert_eq!(Probe::answered(&probe.request(ipv6), ipv6), None, "a request");
        }
    }

    #[test]
    fn what_is_not_whole_or_contradicts_itself_is_no_answer() {
        let probe = Probe { storm: 7, target: 3, sequence: 9 };
        let bytes = echoed(probe, true);
        assert_eq!(Probe::answered(&bytes[..LENGTH - 1], true), None);
        assert_eq!(Probe::answered(&[&bytes[..], &[0]].concat(), true), None);
        let mut other = bytes;
        other[7] = 8;
        assert_eq!(Probe::answered(&other, true), None, "header and payload differ");
    }
}
