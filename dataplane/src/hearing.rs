//! What a listener for the kernel's events is not told: routes that this dataplane made or removed.
//!
//! Decides that the kernel passes them over, by a filter on the socket. A full table is an event for each
//! route, and queueing it, waking us and our reading it was 31 % of the agent's processor time while
//! routes came and went (by profile, 100,000 routes of each family). What others do, the kernel itself
//! included, is told as before: an event carries the port of the socket that asked for it. The filter is
//! there to spare work; whoever listens knows our ports, too (`worker::Ports`), and needs no filter to be
//! right.

use std::sync::{Mutex, PoisonError, Weak};

use netlink_sys::{AsyncSocket, TokioSocket};
use socket2::{SockFilter, SockRef};

/// Type and port of a netlink message are at these places of its header.
const TYPE: u32 = 4;
const PORT: u32 = 12;

const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;

/// Classic BPF (linux/bpf_common.h): load two or four bytes, compare, return.
const LOAD_HALF: u16 = 0x28;
const LOAD_WORD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ALL_OF_IT: u32 = u32::MAX;

/// The sockets that listen, each for as long as somebody has it.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<Weak<TokioSocket>>>);

impl Listeners {
    pub(crate) fn add(&self, socket: Weak<TokioSocket>, ports: &[u32]) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.push(socket);
        pass_over(&mut listeners, ports);
    }

    /// Our ports are these now. To be told before one of them is given up: the next to have it may be
    /// anybody.
    pub(crate) fn pass_over(&self, ports: &[u32]) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pass_over(&mut listeners, ports);
    }
}

impl std::fmt::Debug for Listeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("listeners")
    }
}

fn pass_over(listeners: &mut Vec<Weak<TokioSocket>>, ports: &[u32]) {
    listeners.retain(|socket| {
        let Some(socket) = socket.upgrade() else { return false };
        let socket = SockRef::from(socket.socket_ref());
        if let Err(error) = socket.attach_filter(&program(ports)) {
            tracing::warn!(%error, "the kernel tells of our own routes, too; that costs time only");
            // The one from before may name a port that is ours no longer. There may be none.
            let _ = socket.detach_filter();
        }
        true
    });
}

/// Takes everything but routes by one of these ports.
fn program(ports: &[u32]) -> Vec<SockFilter> {
    // 0 is the kernel's own, and that of a socket whose number could not be had.
    let ports: Vec<u32> = ports.iter().copied().filter(|port| *port != 0).collect();
    // There are three. A jump is a byte, and what did not fit would only not be passed over.
    let count = u8::try_from(ports.len()).unwrap_or(u8::MAX);
    let mut program = vec![
        SockFilter::new(LOAD_HALF, 0, 0, TYPE),
        SockFilter::new(JUMP_EQUAL, 1, 0, half(RTM_NEWROUTE)),
        // Neither: over the port and its comparisons.
        SockFilter::new(JUMP_EQUAL, 0, count.saturating_add(1), half(RTM_DELROUTE)),
        SockFilter::new(LOAD_WORD, 0, 0, PORT),
    ];
    for (port, left) in ports.into_iter().zip((1..=count).rev()) {
        program.push(SockFilter::new(JUMP_EQUAL, left, 0, word(port)));
    }
    program.push(SockFilter::new(RETURN, 0, 0, ALL_OF_IT));
    program.push(SockFilter::new(RETURN, 0, 0, 0));
    program
}

/// A filter reads as the network writes, a netlink header is as the processor writes.
fn half(number: u16) -> u32 {
    u32::from(u16::from_be_bytes(number.to_ne_bytes()))
}

fn word(number: u32) -> u32 {
    u32::from_be_bytes(number.to_ne_bytes())
}
