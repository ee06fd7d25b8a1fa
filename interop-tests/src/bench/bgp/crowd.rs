//! Many peers of one speaker, each a plain socket at an address of its own, and one
//! thread that hears them all.
//!
//! What is awaited is read from one after the other: whoever was told meanwhile
//! waits in its socket, so that the moment at which the last one is read is the
//! moment at which all have been told. Decides nothing about the speaker.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Family;
use super::configs::Peer;
use super::count::Count;
use super::kernel::Change;
use super::session::{Greeting, Identity, Session, listen, take};
use super::start::FAR;
use crate::link::{End, connect};
use crate::netns::Netns;

/// Peers on one link.
const PER_LINK: usize = 64;
/// The speaker's host number on every link; the peers' follow.
const SPEAKER_HOST: u8 = 1;
const LIMIT: Duration = Duration::from_secs(60);

/// All peers of one speaker.
#[derive(Debug)]
pub struct Crowd {
    listeners: Vec<TcpListener>,
    sessions: Vec<(Session, Count)>,
    far: Netns,
    places: Vec<(u8, u8)>,
}

impl Crowd {
    /// So many peers in a namespace of their own; nobody listens there yet.
    pub fn new(peers: usize) -> Result<Self> {
        let far = Netns::new("far")?;
        far.loopback_up()?;
        let places = (0..peers).map(place).collect::<Result<_>>()?;
        Ok(Self { listeners: Vec::new(), sessions: Vec::new(), far, places })
    }

    /// Cables from the speaker's namespace to all of them.
    pub fn plug(&self, speaker: &Netns) -> Result<()> {
        for link in self.links() {
            let near = Family::V4.with_length(link, SPEAKER_HOST);
            let hosts = self.places.iter().filter(|(on, _)| *on == link);
            let far: Vec<_> = hosts.map(|(_, host)| Family::V4.with_length(link, *host)).collect();
            let far: Vec<_> = far.iter().map(String::as_str).collect();
            connect(
                End { netns: speaker, ifname: &format!("crowd{link}"), addresses: &[&near] },
                End { netns: &self.far, ifname: &format!("node{link}"), addresses: &far },
            )?;
        }
        Ok(())
    }

    fn links(&self) -> Vec<u8> {
        let mut links: Vec<_> = self.places.iter().map(|(link, _)| *link).collect();
        links.dedup();
        links
    }

    /// All peers, as a speaker that dials is told of them.
    pub fn peers(&self) -> Vec<Peer> {
        let peer = |(link, host): &(u8, u8)| Peer {
            name: format!("far{link}x{host}"),
            address: Family::V4.address(*link, *host),
            local: Family::V4.address(*link, SPEAKER_HOST),
            asn: FAR,
            passive: false,
        };
        self.places.iter().map(peer).collect()
    }

    /// From now on they listen.
    pub fn listen(&mut self) -> Result<()> {
        let at =
            |(link, host): &(u8, u8)| listen(&self.far, Family::V4.address(*link, *host).parse()?);
        self.listeners = self.places.iter().map(at).collect::<Result<_>>()?;
        Ok(())
    }

    /// Hangs up on everybody.
    pub fn hang_up(&mut self) {
        self.sessions.clear();
    }

    /// Awaits that the speaker dials everybody, tells everybody so many routes, and
    /// ends with End-of-RIB; returns when the last one had heard all of it.
    pub fn meet(&mut self, routes: u64) -> Result<Instant> {
        let identity = |number: usize| -> Result<Identity> {
            let [.., high, low] = u32::try_from(number + 1)?.to_be_bytes();
            let id = Ipv4Addr::new(192, 168, high, low);
            Ok(Identity { asn: FAR, id, family: Family::V4, hold: 0 })
        };
        // In steps, so that nobody waits for somebody else's answer.
        let streams: Vec<TcpStream> =
            self.listeners.iter().map(|listener| take(listener, LIMIT)).collect::<Result<_>>()?;
        let mut greetings = Vec::with_capacity(streams.len());
        for (number, stream) in streams.into_iter().enumerate() {
            greetings.push(Greeting::say(stream, &identity(number)?)?);
        }
        greetings.iter_mut().try_for_each(Greeting::answer)?;
        for greeting in greetings {
            self.sessions.push((greeting.established()?, Count::default()));
        }
        self.until(|count| count.announced >= routes && count.ends_of_rib > 0)
    }

    /// Awaits so many more changes of one kind at every peer; returns when the last
    /// one had heard of them.
    pub fn hear(&mut self, change: Change, count: u64) -> Result<Instant> {
        let of = move |count: &Count| match change {
            Change::Installed => count.announced,
            Change::Removed => count.withdrawn,
        };
        for (_, heard) in &mut self.sessions {
            *heard = Count::default();
        }
        self.until(|heard| of(heard) >= count)
    }

    fn until(&mut self, enough: impl Fn(&Count) -> bool) -> Result<Instant> {
        let mut last = None;
        let peers = self.sessions.len();
        for (number, (session, count)) in self.sessions.iter_mut().enumerate() {
            let heard = session.read_until(count, LIMIT, &enough);
            let heard = heard.with_context(|| format!("peer {number} of {peers}: {count:?}"))?;
            last = last.max(Some(heard));
        }
        last.context("there are no peers")
    }
}

/// The link and the host of a peer.
fn place(number: usize) -> Result<(u8, u8)> {
    let (link, host) = (number / PER_LINK + 1, number % PER_LINK + 2);
    ensure!(link < 100, "{number} peers are more than there are links for");
    Ok((u8::try_from(link)?, u8::try_from(host)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_has_an_address_of_its_own() {
        let places: Vec<_> = (0..256).map(|number| place(number).unwrap()).collect();
        assert_eq!((places.first(), places.last()), (Some(&(1, 2)), Some(&(4, 65))));
        let distinct: std::collections::HashSet<_> = places.iter().collect();
        assert_eq!(distinct.len(), 256);
    }
}
