//! Routes as the kernel of a namespace reports them, at the moment when it has
//! them: a multicast socket, read by the thread that holds the stopwatch.

use std::net::Ipv4Addr;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size_force, set_socket_timeout};
use std::time::Duration;

use crate::netns::Netns;
use crate::wait::go_on;

/// RTMGRP_IPV4_ROUTE (rtnetlink.h).
const IPV4_ROUTES: u32 = 1 << 6;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTA_DST: u16 = 1;
const NLMSGHDR: usize = 16;
const RTMSG: usize = 12;
/// Room for tens of thousands of routes that nobody has read yet.
const ROOM: usize = 64 << 20;
const GLANCE: Duration = Duration::from_millis(100);

/// What became of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is there.
    Installed,
    /// It is gone.
    Removed,
}

/// The news of one namespace.
#[derive(Debug)]
pub struct News {
    socket: Socket,
    buffer: Vec<u8>,
}

impl News {
    /// Subscribes.
    pub fn of(netns: &Netns) -> Result<Self> {
        let socket = netns.within(|| {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, IPV4_ROUTES))?;
            Ok(socket)
        })?;
        set_socket_recv_buffer_size_force(&socket, ROOM)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(GLANCE))?;
        Ok(Self { socket, buffer: vec![0; 256 * 1024] })
    }

    /// Reads what nobody has read, and forgets it. A socket that had no room for something is told nothing
    /// more by the kernel until it is read empty: what happens before that is never heard of.
    pub fn catch_up(&mut self) -> Result<()> {
        loop {
            go_on()?;
            match self.socket.recv(&mut self.buffer.as_mut_slice(), 0) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {}
                Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => {
                    return Ok(());
                }
                Err(error) => return Err(error).context("listening to the kernel"),
            }
        }
    }

    /// Awaits `count` changes of one kind among the routes that `ours` picks,
    /// and returns when the last one was read.
    pub fn until(
        &mut self,
        change: Change,
        count: usize,
        limit: Duration,
        ours: impl Fn(Ipv4Addr) -> bool,
    ) -> Result<Instant> {
        let deadline = Instant::now() + limit;
        let mut seen = 0;
        while seen < count {
            go_on()?;
            let read = match self.socket.recv(&mut self.buffer.as_mut_slice(), 0) {
                Ok(read) => read,
                Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => {
                    if Instant::now() > deadline {
                        bail!("{seen} of {count} routes were {change:?} within {limit:?}");
                    }
                    continue;
                }
                Err(error) => return Err(error).context("listening to the kernel"),
            };
            let messages = self.buffer.get(..read).unwrap_or_default();
            let news = Messages(messages);
            seen += news.filter(|(what, where_to)| *what == change && ours(*where_to)).count();
        }
        Ok(Instant::now())
    }
}

/// Walks what one read gave.
struct Messages<'a>(&'a [u8]);

impl Iterator for Messages<'_> {
    type Item = (Change, Ipv4Addr);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let length = u32::from_ne_bytes(*self.0.first_chunk()?);
            let length = usize::try_from(length).ok().filter(|length| *length >= NLMSGHDR)?;
            let (message, rest) = self.0.split_at_checked(length)?;
            self.0 = rest;
            let kind = message.get(4..6)?.first_chunk().map(|kind| u16::from_ne_bytes(*kind));
            let change = match kind {
                Some(RTM_NEWROUTE) => Change::Installed,
                Some(RTM_DELROUTE) => Change::Removed,
                _ => continue,
            };
            if let Some(address) = message.get(NLMSGHDR + RTMSG..).and_then(destination) {
                return Some((change, address));
            }
        }
    }
}

fn destination(mut attributes: &[u8]) -> Option<Ipv4Addr> {
    loop {
        let [a, b, c, d] = *attributes.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = attributes.get(4..length)?;
        if u16::from_ne_bytes([c, d]) == RTA_DST {
            return value.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets));
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_seen_when_they_come_and_go() {
        let netns = Netns::new("news").unwrap();
        netns.loopback_up().unwrap();
        let mut news = News::of(&netns).unwrap();
        let ours = |address: Ipv4Addr| address.octets().starts_with(&[10, 9]);
        for (verb, change) in [("add", Change::Installed), ("del", Change::Removed)] {
            for number in 0..3 {
                netns.ip(&format!("route {verb} blackhole 10.9.0.{number}")).unwrap();
            }
            netns.ip(&format!("route {verb} blackhole 10.8.0.1")).unwrap();
            news.until(change, 3, Duration::from_secs(20), ours).unwrap();
        }
        news.until(Change::Removed, 1, Duration::ZERO, ours).unwrap_err();
    }
}
