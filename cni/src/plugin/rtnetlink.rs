//! The three things that `loopback` asks of the kernel, over raw rtnetlink.
//!
//! Decides the bytes (rtnetlink(7), linux/rtnetlink.h) and when an answer is
//! complete. By hand, because netlink crates are fenced to the dataplane, and for
//! three messages they are not worth their size in a binary executed per call.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use flock_cni::IpCidr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// The kernel gives `lo` this index in every namespace.
pub(crate) const LOOPBACK_INDEX: u32 = 1;

/// Protocol 0 of the netlink family, which rustix can only say as "none".
const NETLINK_ROUTE: Option<Protocol> = None;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_DUMP: u16 = 0x300;
const IFF_UP: u32 = 0x1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

const HEADER: usize = 16;
const IFINFOMSG: usize = 16;
const IFADDRMSG: usize = 8;
/// The kernel's largest datagram of a dump.
const DATAGRAM: usize = 32 * 1024;
/// A dump that a concurrent change disturbed is repeated this often.
const ATTEMPTS: usize = 5;
/// The kernel answers at once; this only keeps a bug from hanging a runtime.
const PATIENCE: Duration = Duration::from_secs(5);
const SEQUENCE: u32 = 1;

/// A socket to the namespace that this thread was in when it was opened.
pub(crate) struct Rtnetlink(OwnedFd);

struct Message<'a> {
    kind: u16,
    flags: u16,
    body: &'a [u8],
}

impl Rtnetlink {
    pub(crate) fn open() -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            NETLINK_ROUTE,
        )?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Self(socket))
    }

    /// Sets an interface up; one that is up stays so.
    pub(crate) fn set_up(&self, index: u32) -> io::Result<()> {
        self.ask(RTM_NEWLINK, NLM_F_ACK, &ifinfomsg(index, IFF_UP, IFF_UP), |_| {}).map(drop)
    }

    pub(crate) fn is_up(&self, index: u32) -> io::Result<bool> {
        let mut flags = None;
        self.ask(RTM_GETLINK, NLM_F_ACK, &ifinfomsg(index, 0, 0), |message| {
            if message.kind == RTM_NEWLINK {
                flags = u32_at(message.body, 8);
            }
        })?;
        let flags = flags.ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))?;
        Ok(flags & IFF_UP != 0)
    }

    /// The addresses of an interface, IPv4 first.
    pub(crate) fn addresses(&self, index: u32) -> io::Result<Vec<IpCidr>> {
        for _ in 0..ATTEMPTS {
            let mut found = Vec::new();
            let whole = self.ask(RTM_GETADDR, NLM_F_DUMP, &[0; IFADDRMSG], |message| {
                if message.kind == RTM_NEWADDR && u32_at(message.body, 4) == Some(index) {
                    found.extend(address(message.body));
                }
            })?;
            if whole {
                let (mut v4, v6): (Vec<_>, Vec<_>) =
                    found.into_iter().partition(|cidr: &IpCidr| cidr.address().is_ipv4());
                v4.extend(v6);
                return Ok(v4);
            }
        }
        Err(io::Error::new(ErrorKind::Interrupted, "addresses keep changing"))
    }

    /// Sends one request and hands over each message of the answer. False when
    /// the kernel says that the dump was disturbed.
    fn ask(
        &self,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut each: impl FnMut(&Message<'_>),
    ) -> io::Result<bool> {
        send(&self.0, &request(kind, NLM_F_REQUEST | flags, body), SendFlags::empty())?;
        let mut buffer = vec![0; DATAGRAM];
        let mut whole = true;
        loop {
            let (count, _) = recv(&self.0, buffer.as_mut_slice(), RecvFlags::empty())?;
            let mut rest = buffer.get(..count).unwrap_or_default();
            while let Some((message, after)) = next_message(rest) {
                rest = after;
                whole &= message.flags & NLM_F_DUMP_INTR == 0;
                match message.kind {
                    NLMSG_DONE => return Ok(whole),
                    NLMSG_ERROR => return acknowledged(message.body).map(|()| whole),
                    _ => each(&message),
                }
            }
        }
    }
}

fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(SEQUENCE.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(body);
    bytes
}

fn ifinfomsg(index: u32, flags: u32, change: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(index.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(change.to_ne_bytes());
    debug_assert_eq!(bytes.len(), IFINFOMSG);
    bytes
}

/// The first message of a datagram, and what follows it.
fn next_message(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
    let body = bytes.get(HEADER..length)?;
    let message = Message { kind: u16_at(bytes, 4)?, flags: u16_at(bytes, 6)?, body };
    Some((message, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// An error of 0 is the acknowledgement.
fn acknowledged(body: &[u8]) -> io::Result<()> {
    match body.first_chunk().map(|code| i32::from_ne_bytes(*code)) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// An address message. `IFA_LOCAL`, where it is there, is the interface's own.
fn address(body: &[u8]) -> Option<IpCidr> {
    let prefix_len = *body.get(1)?;
    let mut attributes = body.get(IFADDRMSG..)?;
    let mut found = None;
    while let Some(length) = u16_at(attributes, 0).map(usize::from) {
        let value = attributes.get(4..length)?;
        match u16_at(attributes, 2)? {
            IFA_LOCAL => return IpCidr::new(ip(value)?, prefix_len),
            IFA_ADDRESS => found = IpCidr::new(ip(value)?, prefix_len),
            _ => {}
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(|octets| Ipv4Addr::from(octets).into());
    let v6 = || <[u8; 16]>::try_from(bytes).ok().map(|octets| Ipv6Addr::from(octets).into());
    v4().or_else(v6)
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u16::from_ne_bytes(*chunk))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}
