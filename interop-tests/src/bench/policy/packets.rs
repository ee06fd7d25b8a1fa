//! What a packet costs between two pods. One thread has the sockets of both ends:
//! a packet is taken through the node within the very call that sends it, so that
//! nobody has to be woken, and what is measured is the way and not the scheduler.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::net::sockopt::set_socket_linger;

use crate::netns::Netns;

/// In a batch. Short, so that few batches are interrupted.
const ROUND_TRIPS: u32 = 20;
const CONNECTIONS: u32 = 5;
const LIMIT: Duration = Duration::from_secs(2);

/// Two pods that talk.
#[derive(Debug)]
pub struct Talk {
    client: Netns,
    near: UdpSocket,
    far: UdpSocket,
    listener: TcpListener,
    target: SocketAddr,
}

impl Talk {
    /// Between a pod and another one's address.
    pub fn new(client: &Netns, server: &Netns, target: IpAddr) -> Result<Self> {
        let (far, listener) = server
            .within(|| Ok((UdpSocket::bind((target, 0))?, TcpListener::bind((target, 0))?)))?;
        let echo = far.local_addr()?;
        let near = client.within(|| {
            let unspecified = if echo.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
            let near = UdpSocket::bind(unspecified)?;
            near.connect(echo)?;
            Ok(near)
        })?;
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(LIMIT))?;
        }
        let target = listener.local_addr()?;
        let client = Netns::of_someone_else(&client.path())?;
        let talk = Self { client, near, far, listener, target };
        // The first one opens the connection that all others belong to.
        talk.round_trip()?;
        Ok(talk)
    }

    /// Microseconds of a UDP round trip of a connection that is known, by batch.
    pub fn round_trips(&self, batches: usize) -> Result<Vec<f64>> {
        // Whatever else talked meanwhile, it is known and answered again.
        self.round_trip()?;
        (0..batches).map(|_| each(ROUND_TRIPS, || self.round_trip())).collect()
    }

    /// Microseconds of opening and closing a TCP connection, by batch.
    pub fn connections(&self, batches: usize) -> Result<Vec<f64>> {
        self.client
            .within(|| (0..batches).map(|_| each(CONNECTIONS, || self.connection())).collect())
    }

    fn round_trip(&self) -> Result<()> {
        let mut byte = [0; 64];
        self.near.send(&byte)?;
        let (_, from) = self.far.recv_from(&mut byte).context("a packet between pods")?;
        self.far.send_to(&byte, from)?;
        self.near.recv(&mut byte).context("its answer")?;
        Ok(())
    }

    fn connection(&self) -> Result<()> {
        let near = TcpStream::connect_timeout(&self.target, LIMIT).context("connecting")?;
        let (far, _) = self.listener.accept()?;
        // Without this every one would keep its port for a minute.
        set_socket_linger(&near, Some(Duration::ZERO))?;
        drop(near);
        drop(far);
        Ok(())
    }
}

fn each(times: u32, act: impl Fn() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..times {
        act()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1_000_000.0 / f64::from(times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{End, connect};

    #[test]
    fn two_namespaces_talk() {
        let [client, server] = ["client", "server"].map(|role| Netns::new(role).unwrap());
        connect(
            End { netns: &client, ifname: "eth0", addresses: &["10.1.0.1/24"] },
            End { netns: &server, ifname: "eth0", addresses: &["10.1.0.2/24"] },
        )
        .unwrap();
        let talk = Talk::new(&client, &server, "10.1.0.2".parse().unwrap()).unwrap();
        assert_eq!(talk.round_trips(3).unwrap().len(), 3);
        assert_eq!(talk.connections(2).unwrap().len(), 2);
    }
}
