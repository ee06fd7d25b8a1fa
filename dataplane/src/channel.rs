//! A netlink socket that sends many requests at once and waits for all.
//!
//! Decides batching (several messages in one sendmsg, one acknowledgement
//! for all, and every refusal), that a dump which was interrupted is repeated, and that silence
//! ends in an error and not in a hung thread. What the messages mean is the
//! callers'. A socket belongs to the namespace in which it was opened.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netlink_packet_core::{
    Emitable, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkSerializable,
    ParseableParametrized,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size_force;

use crate::error::{Error, Refusal};
use crate::reply::{Answer, Collector, Reply};

/// A dump's parts are at most 32 KiB, a single answer far less.
const RECEIVE: usize = 64 * 1024;

/// The kernel answers within the call; this is for an answer that was lost.
const SILENCE: Duration = Duration::from_secs(10);

/// How often an interrupted dump is repeated before that is an error.
const DUMP_ATTEMPTS: u32 = 16;

/// More would only risk the receive buffer: each acknowledgement waits in it.
const BATCH: usize = 64;

/// What fits into any socket's send buffer as it comes.
const ROOM: usize = 64 * 1024;

const MSG_TRUNC: i32 = 0x20;
const MSG_DONTWAIT: i32 = 0x40;

/// One message for the kernel, and the flags beside REQUEST.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) message: RouteNetlinkMessage,
    pub(crate) flags: u16,
}

impl Request {
    pub(crate) fn new(message: RouteNetlinkMessage, flags: u16) -> Self {
        Self { message, flags }
    }
}

/// A blocking netlink socket of one namespace.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
    broken: bool,
}

impl Channel {
    /// An rtnetlink socket in the namespace of the calling thread.
    pub(crate) fn route() -> Result<Self, Error> {
        let channel = Self::open(NETLINK_ROUTE)?;
        // Lets the kernel filter dumps; without it (before 4.20) we filter.
        let _ = channel.socket.set_netlink_get_strict_chk(true);
        Ok(channel)
    }

    /// A netfilter socket in the namespace of the calling thread.
    pub(crate) fn netfilter() -> Result<Self, Error> {
        let channel = Self::open(NETLINK_NETFILTER)?;
        // A transaction may be refused once for each of its messages: the first
        // is what we want to know, and it must not go with those that find no room.
        let _ = channel.socket.set_no_enobufs(true);
        Ok(channel)
    }

    fn open(protocol: isize) -> Result<Self, Error> {
        let failed = |what| move |source| Error::Socket { what, source };
        let socket = Socket::new(protocol).map_err(failed("open"))?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(failed("connect"))?;
        let timeout = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&socket, timeout, Some(SILENCE)).map_err(
            |errno| Error::Socket { what: "set the receive timeout", source: errno.into() },
        )?;
        // Both only make refusals better worded.
        let _ = socket.set_ext_ack(true);
        let _ = socket.set_cap_ack(true);
        Ok(Self { socket, sequence: 1, buffer: Vec::with_capacity(RECEIVE), broken: false })
    }

    /// The number by which the kernel knows the socket, and which events that
    /// it caused carry; 0 where it cannot be had.
    pub(crate) fn port(&self) -> u32 {
        let mut address = SocketAddr::new(0, 0);
        let known = self.socket.get_address(&mut address);
        known.map_or(0, |()| address.port_number())
    }

    /// Whether an exchange failed half way: answers may still be on their
    /// way, so that a fresh socket is the simpler truth.
    pub(crate) fn broken(&self) -> bool {
        self.broken
    }

    /// Sends the requests in as few calls as possible; an answer for each, whose verdict may be
    /// `None` where there is no refusal.
    pub(crate) fn batch(&mut self, requests: &[Request]) -> Result<Vec<Answer>, Error> {
        self.send_all(requests, |bytes, request, flags, sequence| {
            write(bytes, request, request.flags | NLM_F_REQUEST | flags, sequence);
        })
    }

    /// The same where only a refusal is of interest: `None` where there is none. `write` puts the
    /// message for a wish behind those before it, with these flags beside its own and that sequence
    /// number.
    pub(crate) fn refusals<T>(
        &mut self,
        wishes: &[T],
        write: impl Fn(&mut Vec<u8>, &T, u16, u32),
    ) -> Result<Vec<Option<Refusal>>, Error> {
        let answers = self.send_all(wishes, write)?;
        Ok(answers.into_iter().map(|answer| answer.verdict?.err()).collect())
    }

    /// The kernel tells of each that it refuses, asked to or not, and does them in order: the last
    /// one's acknowledgement says that it is through with all. So one is read and not one for each, a
    /// tenth of what a route costs.
    fn send_all<T>(
        &mut self,
        wishes: &[T],
        write: impl Fn(&mut Vec<u8>, &T, u16, u32),
    ) -> Result<Vec<Answer>, Error> {
        let mut answers = Vec::with_capacity(wishes.len());
        let mut bytes = Vec::new();
        for part in wishes.chunks(BATCH) {
            let first = self.reserve(part.len());
            bytes.clear();
            for (place, (sequence, wish)) in (1..).zip((first..).zip(part)) {
                let ack = if place == part.len() { NLM_F_ACK } else { 0 };
                write(&mut bytes, wish, ack, sequence);
            }
            let collector = Collector::new(first, part.len());
            answers.extend(self.converse(&bytes, collector, Collector::last_is_answered)?);
        }
        Ok(answers)
    }

    /// Sends one request; its replies, or its refusal as an error.
    pub(crate) fn ask(&mut self, what: &str, request: Request) -> Result<Vec<Reply>, Error> {
        let answer = self.batch(&[request])?.into_iter().next().unwrap_or_default();
        match answer.verdict {
            Some(Err(refusal)) => Err(Error::Kernel { what: what.to_owned(), refusal }),
            _ => Ok(answer.replies),
        }
    }

    /// The index of the link of that name, if there is one. An ioctl, because it takes no lock: a
    /// link as netlink tells of it is put together under RTNL, 25 us on the way of an announcement.
    /// (For a name that is not there the kernel looks for a module first; that is rare.)
    pub(crate) fn index_of(&self, name: &str) -> Result<Option<u32>, Refusal> {
        match rustix::net::netdevice::name_to_index(&self.socket, name) {
            Ok(index) => Ok(Some(index)),
            Err(Errno::NODEV) => Ok(None),
            Err(errno) => Err(Refusal { code: errno.raw_os_error(), text: None }),
        }
    }

    /// Lists a table, again from the start where it changed meanwhile.
    pub(crate) fn dump(
        &mut self,
        what: &str,
        request: &Request,
    ) -> Result<Vec<RouteNetlinkMessage>, Error> {
        self.dump_where(what, request, |_| true)
    }

    /// The same, reading only what a glance at the payload wants: a link read
    /// whole takes ten times its size.
    pub(crate) fn dump_where(
        &mut self,
        what: &str,
        request: &Request,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<RouteNetlinkMessage>, Error> {
        let mut bytes = Vec::with_capacity(64);
        let replies = self.consistent(what, |channel| {
            let first = channel.reserve(1);
            bytes.clear();
            write_dump(&mut bytes, request, first);
            channel.exchange(&bytes, first, 1)
        })?;
        let wanted = replies.iter().filter(|reply| wanted(&reply.payload));
        Ok(wanted.filter_map(decode_or_skip).collect())
    }

    /// Repeats a dump until no part of it was interrupted.
    pub(crate) fn consistent(
        &mut self,
        what: &str,
        mut dump: impl FnMut(&mut Self) -> Result<Vec<Answer>, Error>,
    ) -> Result<Vec<Reply>, Error> {
        for _ in 0..DUMP_ATTEMPTS {
            let answer = dump(self)?.into_iter().next().unwrap_or_default();
            if answer.interrupted {
                continue;
            }
            return match answer.verdict {
                Some(Err(refusal)) => Err(Error::Kernel { what: what.to_owned(), refusal }),
                _ => Ok(answer.replies),
            };
        }
        Err(Error::Interrupted { what: what.to_owned(), attempts: DUMP_ATTEMPTS })
    }

    /// The sequence number of the first of `count` requests.
    pub(crate) fn reserve(&mut self, count: usize) -> u32 {
        let first = self.sequence;
        let step = u32::try_from(count).unwrap_or(u32::MAX);
        // Started again well before it wraps, so that a batch never does.
        self.sequence = match first.checked_add(step) {
            Some(next) if next < u32::MAX / 2 => next,
            _ => 1,
        };
        first
    }

    /// Sends bytes that hold `count` requests and collects their answers.
    pub(crate) fn exchange(
        &mut self,
        bytes: &[u8],
        first: u32,
        count: usize,
    ) -> Result<Vec<Answer>, Error> {
        self.converse(bytes, Collector::new(first, count), Collector::complete)
    }

    fn converse(
        &mut self,
        bytes: &[u8],
        mut collector: Collector,
        done: impl Fn(&Collector) -> bool,
    ) -> Result<Vec<Answer>, Error> {
        self.broken = true;
        if bytes.len() > ROOM {
            // The kernel takes a message whole, and keeps half of the room for itself.
            let _ = set_socket_send_buffer_size_force(&self.socket, bytes.len());
        }
        self.socket.send(bytes, 0).map_err(|source| Error::Socket { what: "send", source })?;
        while !done(&collector) {
            let datagram = receive(&self.socket, &mut self.buffer)
                .map_err(|source| Error::Socket { what: "receive", source })?;
            collector
                .feed(datagram)
                .map_err(|detail| Error::Malformed { what: "a batch".to_owned(), detail })?;
        }
        self.broken = false;
        Ok(collector.into_answers())
    }

    /// Throws away what else was said to a request whose answer is known.
    pub(crate) fn discard(&mut self) {
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, MSG_DONTWAIT) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.broken |= error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }
}

fn receive<'b>(socket: &Socket, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
    loop {
        buffer.clear();
        match socket.recv(buffer, MSG_TRUNC) {
            Ok(length) if length > buffer.len() => {
                return Err(io::Error::other(format!("a message of {length} bytes")));
            }
            Ok(_) => return Ok(buffer),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the kernel did not answer"));
            }
            Err(error) => return Err(error),
        }
    }
}

/// The words that ask for a whole table.
pub(crate) fn write_dump(bytes: &mut Vec<u8>, request: &Request, sequence: u32) {
    write(bytes, request, request.flags | NLM_F_REQUEST | NLM_F_DUMP, sequence);
}

fn write(bytes: &mut Vec<u8>, request: &Request, flags: u16, sequence: u32) {
    let mut header = NetlinkHeader::default();
    let length = header.buffer_len() + NetlinkSerializable::buffer_len(&request.message);
    header.length = u32::try_from(length).unwrap_or(u32::MAX);
    header.message_type = request.message.message_type();
    header.flags = flags;
    header.sequence_number = sequence;
    let start = bytes.len();
    bytes.resize(start + length.next_multiple_of(4), 0);
    if let Some((head, body)) =
        bytes.get_mut(start..).and_then(|space| space.split_at_mut_checked(header.buffer_len()))
    {
        header.emit(head);
        request.message.serialize(body);
    }
}

/// Reads one rtnetlink reply.
pub(crate) fn decode(reply: &Reply) -> Result<RouteNetlinkMessage, Error> {
    RouteNetlinkMessage::parse_with_param(&reply.payload, reply.kind).map_err(|error| {
        Error::Malformed { what: format!("type {}", reply.kind), detail: error.to_string() }
    })
}

/// One foreign link or route that cannot be read must not hide all others. It is there at every
/// look, and told once.
fn decode_or_skip(reply: &Reply) -> Option<RouteNetlinkMessage> {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let tell = |error: &Error| {
        if TOLD.swap(true, Ordering::Relaxed) {
            tracing::debug!(%error, "skipped an unreadable netlink message");
        } else {
            tracing::warn!(%error, "skipped an unreadable netlink message; more are not told");
        }
    };
    decode(reply).inspect_err(tell).ok()
}
