//! A namespace that answers: TCP, UDP and SCTP at many ports of every address, each answer with the name
//! of who gives it. Echo requests its kernel answers itself.
//!
//! This kernel need not know SCTP: the first packet of an association is answered by hand, through a raw
//! socket, which is all that a policy has to let through.

use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, ipproto, recvfrom, sendto, socket_with};

use super::packets::{Sctp, payload};
use crate::netns::Netns;

/// Where every station answers, over TCP and UDP; SCTP it answers at all ports.
pub const PORTS: [u16; 8] = [53, 80, 443, 5353, 8080, 9000, 9005, 9010];

/// The ports that probes come from. Each is used once, so that what conntrack remembers of one probe is
/// never taken for another.
const FIRST_SOURCE: u16 = 20000;

/// How often a listener looks whether it is to end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A namespace with its listener.
#[derive(Debug)]
pub struct Station {
    name: String,
    netns: Netns,
    sources: AtomicU16,
    over: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

impl Station {
    /// Answers in a namespace, as `name`: over TCP at all addresses that are there now or later, over the
    /// others at these.
    pub fn start(name: &str, netns: &Netns, addresses: &[IpAddr], ports: &[u16]) -> Result<Self> {
        let ears = netns.within(|| {
            // Whose group may send echo requests; nobody's by default. Both families obey.
            std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0")?;
            Ears::open(addresses, ports)
        });
        let ears = ears.with_context(|| format!("listening as {name}"))?;
        let over = Arc::new(AtomicBool::new(false));
        let (told, own) = (Arc::clone(&over), name.to_owned());
        let worker = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                ears.answer(&own);
            }
        });
        let netns = Netns::of_someone_else(&netns.path())?;
        let sources = AtomicU16::new(FIRST_SOURCE);
        Ok(Self { name: name.to_owned(), netns, sources, over, worker: Some(worker) })
    }

    /// Who answers.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// A port that no probe came from yet, as long as there are any.
    pub(super) fn source_port(&self) -> u16 {
        let next = |port: u16| Some(if port == u16::MAX { FIRST_SOURCE } else { port + 1 });
        let order = Ordering::Relaxed;
        self.sources.fetch_update(order, order, next).unwrap_or(FIRST_SOURCE)
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            let _ended = worker.join();
        }
    }
}

/// The sockets of a listener.
#[derive(Debug)]
struct Ears {
    tcp: Vec<TcpListener>,
    udp: Vec<UdpSocket>,
    sctp: Vec<(OwnedFd, bool)>,
}

impl Ears {
    fn open(addresses: &[IpAddr], ports: &[u16]) -> Result<Self> {
        let mut ears = Self { tcp: Vec::new(), udp: Vec::new(), sctp: Vec::new() };
        for port in ports.iter().copied() {
            let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
            let listener = listener.with_context(|| format!("TCP port {port}"))?;
            listener.set_nonblocking(true)?;
            ears.tcp.push(listener);
        }
        for address in addresses.iter().copied() {
            for port in ports.iter().copied() {
                // One for each address, so that the answer comes from where the question went.
                let socket = UdpSocket::bind((address, port));
                let socket = socket.with_context(|| format!("UDP port {port} of {address}"))?;
                socket.set_nonblocking(true)?;
                ears.udp.push(socket);
            }
            ears.sctp.push((raw_sctp(address)?, address.is_ipv6()));
        }
        Ok(ears)
    }

    /// Answers what came, after awaiting it for a moment.
    fn answer(&self, name: &str) {
        let all = self.tcp.iter().map(AsFd::as_fd).chain(self.udp.iter().map(AsFd::as_fd));
        let all = all.chain(self.sctp.iter().map(|(socket, _)| socket.as_fd()));
        let mut waiting: Vec<_> =
            all.map(|fd: BorrowedFd<'_>| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let Ok(_) = poll(&mut waiting, Some(&LOOK)) else { return };
        for listener in &self.tcp {
            while let Ok((mut stream, _)) = listener.accept() {
                let _may_be_gone = stream.write_all(name.as_bytes());
            }
        }
        let mut heard = [0; 512];
        for socket in &self.udp {
            while let Ok((_, from)) = socket.recv_from(&mut heard) {
                let _may_be_full = socket.send_to(name.as_bytes(), from);
            }
        }
        for (socket, ipv6) in &self.sctp {
            while let Ok((length, _, from)) = recvfrom(socket, &mut heard, RecvFlags::DONTWAIT) {
                let packet = payload(heard.get(..length).unwrap_or_default(), *ipv6);
                let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                if let (Some(from), Some(asked)) = (from, Sctp::read(packet))
                    && !asked.answer
                {
                    let (source, port) = asked.ports;
                    let answer = Sctp { ports: (port, source), answer: true, tag: !asked.tag };
                    let to = SocketAddr::new(from.ip(), 0);
                    let _may_be_full =
                        sendto(socket, &answer.bytes(asked.tag), SendFlags::empty(), &to);
                }
            }
        }
    }
}

/// A raw socket for SCTP at an address of the namespace of the calling thread.
pub(super) fn raw_sctp(address: IpAddr) -> Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::RAW, flags, Some(ipproto::SCTP))
        .context("a raw socket for SCTP")?;
    bind(&socket, &SocketAddr::new(address, 0))
        .with_context(|| format!("{address} is no address of this namespace"))?;
    Ok(socket)
}
