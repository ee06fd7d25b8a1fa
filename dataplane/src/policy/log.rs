//! Hears of packets that the table's rules drop, some of them (NFLOG).
//!
//! Decides how the group is bound (linux/netfilter/nfnetlink_log.h) and that
//! what nobody takes is thrown away: it is a log, and the counters have all.
//! What a packet says is read in `packet`; how many there are is limited in
//! the rules.

use std::io;

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST};
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{AsyncSocket, SocketAddr, TokioSocket};
use rustix::io::Errno;
use rustix::net::netdevice::index_to_name;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::rules::{LOG_EGRESS, LOG_GROUP, LOG_INGRESS, LOG_LENGTH};
use super::{Direction, DroppedPacket, packet};
use crate::error::Error;
use crate::netns::Netns;
use crate::nftables::{attribute, find, raw};
use crate::reply::{Collector, split};

/// Packets waiting for whoever asked; when full, they are thrown away.
const PACKETS: usize = 256;
const RECEIVE: usize = 64 * 1024;

/// The subsystem is the upper byte of a message's type.
const PACKET: u16 = 4 << 8;
const CONFIG: u16 = 4 << 8 | 1;

const NFULA_CFG_CMD: u16 = 1;
const NFULA_CFG_MODE: u16 = 2;
const NFULA_CFG_QTHRESH: u16 = 5;
const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;

const NFULA_IFINDEX_INDEV: u16 = 4;
const NFULA_IFINDEX_OUTDEV: u16 = 5;
const NFULA_PAYLOAD: u16 = 9;
const NFULA_PREFIX: u16 = 10;

/// Binds the group in the node's namespace. The runtime around the caller must
/// have its I/O driver on.
pub(crate) fn watch(home: &Netns) -> Result<mpsc::Receiver<DroppedPacket>, Error> {
    let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
    let socket = home.within({
        let runtime = runtime.clone();
        move || {
            let _registers_here = runtime.enter();
            open()
        }
    })?;
    let (sender, receiver) = mpsc::channel(PACKETS);
    runtime.spawn(run(socket, sender));
    Ok(receiver)
}

fn open() -> Result<TokioSocket, Error> {
    let failed = |source| Error::Socket { what: "subscribe to dropped packets", source };
    let mut socket = TokioSocket::new(NETLINK_NETFILTER).map_err(failed)?;
    socket.socket_mut().bind(&SocketAddr::new(0, 0)).map_err(failed)?;
    let kernel = SocketAddr::new(0, 0);
    socket.socket_ref().send_to(&bind_request(), &kernel, 0).map_err(failed)?;
    let mut collector = Collector::new(1, 1);
    while !collector.complete() {
        let mut bytes = Vec::with_capacity(RECEIVE);
        // The kernel answers within the call that asks.
        socket.socket_ref().recv(&mut bytes, 0).map_err(failed)?;
        let what = || "a request for dropped packets".to_owned();
        collector.feed(&bytes).map_err(|detail| Error::Malformed { what: what(), detail })?;
    }
    match collector.into_answers().into_iter().find_map(|answer| answer.verdict) {
        Some(Err(refusal)) => {
            let what = format!("hear of dropped packets (NFLOG group {LOG_GROUP})");
            Err(Error::Kernel { what, refusal })
        }
        _ => Ok(socket),
    }
}

/// The whole of what is kept of a packet, one at a time. The kernel's choice
/// of a logger for whoever names none (PF_BIND) is left as it is.
fn bind_request() -> Vec<u8> {
    let mode = [&LOG_LENGTH.to_be_bytes()[..], &[COPY_PACKET, 0]].concat();
    let words = [
        attribute(NFULA_CFG_CMD, &[BIND]),
        attribute(NFULA_CFG_MODE, &mode),
        attribute(NFULA_CFG_QTHRESH, &1u32.to_be_bytes()),
    ];
    raw(CONFIG, NLM_F_REQUEST | NLM_F_ACK, 1, 0, LOG_GROUP, &words.concat())
}

async fn run(socket: TokioSocket, sender: mpsc::Sender<DroppedPacket>) {
    let mut bytes = Vec::with_capacity(RECEIVE);
    loop {
        let received = std::future::poll_fn(|context| {
            bytes.clear();
            socket.poll_recv(context, &mut bytes)
        });
        let result: io::Result<()> = tokio::select! {
            () = sender.closed() => return,
            result = received => result,
        };
        match result {
            Ok(()) => tell(&socket, &bytes, &sender),
            Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {}
            Err(error) => {
                tracing::warn!(%error, "dropped packets are no longer heard of");
                return;
            }
        }
    }
}

fn tell(socket: &TokioSocket, mut bytes: &[u8], sender: &mpsc::Sender<DroppedPacket>) {
    while let Some((header, payload, rest)) = split(bytes) {
        bytes = rest;
        if header.kind != PACKET {
            continue;
        }
        let Some((direction, index, headers)) = read(payload) else { continue };
        // A link that is gone by now is nobody's any more.
        let Ok(ifname) = index_to_name(socket.socket_ref(), index) else { continue };
        let packet::Headers { source, destination, protocol, port } = headers;
        let _ = sender.try_send(DroppedPacket {
            ifname,
            direction,
            source,
            destination,
            protocol,
            port,
        });
    }
}

/// Which way, the pod's link, and the packet.
fn read(payload: &[u8]) -> Option<(Direction, u32, packet::Headers)> {
    let prefix = find(payload, NFULA_PREFIX)?;
    let (direction, link) = match prefix.strip_suffix(&[0])? {
        word if word == LOG_INGRESS.as_bytes() => (Direction::Ingress, NFULA_IFINDEX_OUTDEV),
        word if word == LOG_EGRESS.as_bytes() => (Direction::Egress, NFULA_IFINDEX_INDEV),
        _ => return None,
    };
    let index = find(payload, link)?;
    let index = u32::from_be_bytes(*index.first_chunk::<4>()?);
    Some((direction, index, packet::read(&find(payload, NFULA_PAYLOAD)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_is_not_told() {
        let packet = [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17][..], &[0; 14], &[0, 80, 0, 8]].concat();
        let words = [
            attribute(NFULA_IFINDEX_INDEV, &7u32.to_be_bytes()),
            attribute(NFULA_IFINDEX_OUTDEV, &8u32.to_be_bytes()),
            attribute(NFULA_PREFIX, b"out\0"),
            attribute(NFULA_PAYLOAD, &packet),
        ];
        let whole = [vec![2, 0, 0, 241], words.concat()].concat();
        let (direction, index, headers) = read(&whole).unwrap();
        assert_eq!((direction, index, headers.protocol), (Direction::Egress, 7, 17));
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_none(), "{length}");
        }
        let other = attribute(NFULA_PREFIX, b"theirs\0");
        assert!(read(&[whole[..20].to_vec(), other].concat()).is_none());
    }
}
