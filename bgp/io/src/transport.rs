//! How sockets are made: for a listener, for a dial, and what an accepted one gets. Decides the
//! options that are the same for all (NODELAY, DSCP, how much may wait unsent); a peer's own come
//! with its [`Transport`].
//!
//! TCP_USER_TIMEOUT is not set on a session: the hold timers of both directions (RFC 4271 §6.5,
//! RFC 9687) know better when a peer is dead. It is set when a connection is given up, so that the
//! kernel does not hold the last bytes for a dead peer for minutes.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;
use std::time::Duration;

use flock_bgp::{Transport, Ttl};
use rustix::net::sockopt as safe;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::sockopt;

/// DSCP CS6, network control (RFC 2474, RFC 4594 §3.1), in the place of the old TOS octet.
const CS6: u8 = 0xC0;
/// What waits in the kernel cannot be replaced by something newer any more.
const MOST_UNSENT: u32 = 256 * 1024;
/// Connections that wait to be accepted.
const WAITING: u32 = 256;

/// A socket that listens. Its SYN-ACKs have TTL 255 for whomever: a peer with GTSM takes no less,
/// and any other does not mind.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address.ip())?;
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() {
        safe::set_ipv6_v6only(&socket, true)?;
    }
    dress(&socket, address.ip(), 255)?;
    socket.bind(address)?;
    socket.listen(WAITING)
}

/// A socket to dial `remote` with.
pub(crate) fn dialler(
    remote: SocketAddr,
    local: Option<IpAddr>,
    transport: &Transport,
) -> io::Result<TcpSocket> {
    let socket = socket(remote.ip())?;
    let key = transport.md5.as_ref().map(|secret| &*secret.0);
    if key.is_some() {
        sockopt::set_md5(&socket, remote.ip(), key)?;
    }
    distance(&socket, remote.ip(), transport.ttl)?;
    if let Some(local) = local {
        socket.bind(source(local, remote))?;
    }
    Ok(socket)
}

/// An accepted connection. The key is inherited from the listener, but not by one that waited to be
/// accepted when the listener had none yet: so it is set again, and what is unsigned is dropped from
/// here on. So it is with GTSM; the handshake is not guarded, and a spoofer could not complete it.
pub(crate) fn accepted(
    stream: &TcpStream,
    remote: IpAddr,
    transport: &Transport,
) -> io::Result<()> {
    if let Some(secret) = &transport.md5 {
        sockopt::set_md5(stream, remote, Some(&*secret.0))?;
    }
    distance(stream, remote, transport.ttl)
}

/// The connection is given up: the kernel tries this long to bring out what it has.
pub(crate) fn give_up_after(stream: &TcpStream, time: Duration) -> io::Result<()> {
    let millis = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    Ok(safe::set_tcp_user_timeout(stream, millis)?)
}

pub(crate) fn socket(family: IpAddr) -> io::Result<TcpSocket> {
    if family.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
}

/// A link-local address needs its link, which is the remote's.
fn source(local: IpAddr, remote: SocketAddr) -> SocketAddr {
    match (local, remote) {
        (IpAddr::V6(local), SocketAddr::V6(remote)) if local.is_unicast_link_local() => {
            SocketAddrV6::new(local, 0, 0, remote.scope_id()).into()
        }
        _ => SocketAddr::new(local, 0),
    }
}

fn distance(fd: impl AsFd, remote: IpAddr, ttl: Ttl) -> io::Result<()> {
    match ttl {
        Ttl::Hops(hops) => dress(fd, remote, hops),
        Ttl::Security => {
            // RFC 5082 §3
            sockopt::set_least_ttl(&fd, remote, 255)?;
            dress(fd, remote, 255)
        }
    }
}

fn dress(fd: impl AsFd, family: IpAddr, ttl: u8) -> io::Result<()> {
    if family.is_ipv4() {
        safe::set_ip_ttl(&fd, u32::from(ttl))?;
        safe::set_ip_tos(&fd, CS6)?;
    } else {
        safe::set_ipv6_unicast_hops(&fd, Some(ttl))?;
        safe::set_ipv6_tclass(&fd, u32::from(CS6))?;
    }
    safe::set_tcp_nodelay(&fd, true)?;
    sockopt::set_most_unsent(&fd, MOST_UNSENT)
}

#[cfg(test)]
mod tests;
