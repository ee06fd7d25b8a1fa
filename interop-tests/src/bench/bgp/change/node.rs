//! A node of the rack: who originates on it, and how each of them is told.

use std::io::{PipeWriter, Read, Write, pipe};
use std::net::{IpAddr, Ipv4Addr};
use std::process::Child;
use std::thread;

use anyhow::Result;
use rustix::process::Signal;
use serde_json::json;

use super::{Entrant, Who};
use crate::bench::bgp::Family;
use crate::bench::bgp::configs::{self, Peer, Role, Wishes, flock_routes};
use crate::bench::bgp::kernel::Change;
use crate::bench::bgp::message::{HEADER, LONGEST, announce, plain_attributes, prefix, withdraw};
use crate::bench::bgp::router::{Kind, Router};
use crate::bench::bgp::session::{Identity, Session};
use crate::netns::Netns;

/// The ASN of the router.
pub const TOR: u32 = 65_000;
/// Its host number on every link, and the node's.
pub const TOR_HOST: u8 = 1;
/// See [`TOR_HOST`].
pub const NODE_HOST: u8 = 2;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) number: u8,
    speaker: Speaker,
    pub(super) base: Vec<Ipv4Addr>,
    _netns: Netns,
}

#[derive(Debug)]
enum Speaker {
    Plain(Session),
    Relay(PipeWriter),
    Flock(Router),
    Bird(Router, Wishes),
}

/// A change that only has to be said.
pub(super) enum Prepared {
    Bytes(Vec<u8>),
    Line(String),
    Config(String),
}

impl Node {
    pub(super) fn start(number: u8, entrant: &Entrant, netns: Netns) -> Result<Self> {
        let base = addresses(number, 0, entrant.originated);
        let wishes = Wishes {
            family: Family::V4,
            asn: asn(number),
            id: format!("192.0.2.{number}"),
            peers: vec![Peer {
                name: "tor".to_owned(),
                address: Family::V4.address(number, TOR_HOST),
                local: Family::V4.address(number, NODE_HOST),
                asn: TOR,
                passive: false,
            }],
            role: Role::Node(base.iter().map(text).collect()),
        };
        let speaker = match entrant.who {
            Who::Floor | Who::Relay => {
                let id = wishes.id.parse()?;
                let identity = Identity { asn: asn(number), id, family: Family::V4, hold: 0 };
                let tor = Family::V4.address(number, TOR_HOST).parse()?;
                let session = Session::dial(&netns, tor, &identity)?;
                if entrant.who == Who::Floor { Speaker::Plain(session) } else { relay(session)? }
            }
            Who::Flock => Speaker::Flock(Router::start(Kind::Flock, &netns, &wishes)?),
            Who::Bird => Speaker::Bird(Router::start(Kind::Bird, &netns, &wishes)?, wishes),
        };
        Ok(Self { number, speaker, base, _netns: netns })
    }

    /// Everything that can be done before the clock starts. Without addresses it
    /// is about what is originated throughout.
    pub(super) fn prepare(&self, change: Change, addresses: &[Ipv4Addr]) -> Result<Prepared> {
        let addresses = if addresses.is_empty() { &self.base } else { addresses };
        let routes: Vec<_> = addresses.iter().map(text).collect();
        Ok(match (&self.speaker, change) {
            (Speaker::Plain(_) | Speaker::Relay(_), _) => {
                Prepared::Bytes(self.updates(change, addresses)?)
            }
            (Speaker::Flock(_), Change::Installed) => {
                Prepared::Line(json!({ "originate": flock_routes(&routes) }).to_string() + "\n")
            }
            (Speaker::Flock(_), Change::Removed) => {
                Prepared::Line(json!({ "withdraw": routes }).to_string() + "\n")
            }
            (Speaker::Bird(_, wishes), _) => {
                let mut all: Vec<_> = self.base.iter().map(text).collect();
                if change == Change::Installed {
                    all.extend(routes);
                }
                let role = Role::Node(all);
                Prepared::Config(configs::bird(&Wishes { role, ..wishes.clone() }))
            }
        })
    }

    fn updates(&self, change: Change, addresses: &[Ipv4Addr]) -> Result<Vec<u8>> {
        let attributes = plain_attributes(&[asn(self.number)])?;
        let next_hop: IpAddr = Family::V4.address(self.number, NODE_HOST).parse()?;
        let room = LONGEST - HEADER - announce(&attributes, next_hop, &[])?.len();
        let nlri: Vec<_> = addresses.iter().map(|to| prefix(IpAddr::V4(*to), 32)).collect();
        let mut bytes = Vec::new();
        for together in nlri.chunks(room / 5) {
            let nlri = together.concat();
            bytes.extend(match change {
                Change::Installed => announce(&attributes, next_hop, &nlri)?,
                Change::Removed => withdraw(&nlri)?,
            });
        }
        Ok(bytes)
    }

    pub(super) fn perform(&mut self, prepared: &Prepared) -> Result<Option<Child>> {
        match (&mut self.speaker, prepared) {
            (Speaker::Plain(session), Prepared::Bytes(bytes)) => session.write(bytes)?,
            (Speaker::Relay(pipe), Prepared::Bytes(bytes)) => pipe.write_all(bytes)?,
            (Speaker::Flock(router), Prepared::Line(line)) => router.say(line)?,
            (Speaker::Bird(router, _), Prepared::Config(text)) => {
                return router.configure(text).map(Some);
            }
            _ => {}
        }
        Ok(None)
    }

    /// A program of ours, which says only what it is told.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.speaker, Speaker::Plain(_) | Speaker::Relay(_))
    }

    /// The plain ones are threads of ours and go on.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        match &self.speaker {
            Speaker::Plain(_) | Speaker::Relay(_) => Ok(()),
            Speaker::Flock(router) | Speaker::Bird(router, _) => router.signal(signal),
        }
    }

    pub(super) fn explain<T>(&mut self, outcome: Result<T>) -> Result<T> {
        match &mut self.speaker {
            Speaker::Plain(_) | Speaker::Relay(_) => outcome,
            Speaker::Flock(router) | Speaker::Bird(router, _) => router.explain(outcome),
        }
    }
}

/// A thread that writes what it reads, until the pipe is closed.
fn relay(mut session: Session) -> Result<Speaker> {
    let (mut from, to) = pipe()?;
    thread::spawn(move || -> Result<()> {
        let mut buffer = [0; 64 * 1024];
        loop {
            match from.read(&mut buffer)? {
                0 => return Ok(()),
                read => session.write(buffer.get(..read).unwrap_or_default())?,
            }
        }
    });
    Ok(Speaker::Relay(to))
}

/// The ASN of a node.
pub fn asn(number: u8) -> u32 {
    65_100 + u32::from(number)
}

/// Host addresses in 10.(100 + node).(third and on).*.
pub fn addresses(number: u8, third: u8, count: usize) -> Vec<Ipv4Addr> {
    let first = u32::from(Ipv4Addr::new(10, 100 + number, third, 0));
    (first..).take(count).map(Ipv4Addr::from).collect()
}

/// The same address, but this node's.
pub(super) fn of_node(number: u8, address: Ipv4Addr) -> Ipv4Addr {
    let [first, _, third, fourth] = address.octets();
    Ipv4Addr::new(first, 100 + number, third, fourth)
}

/// Whether an address is one that this node originates.
pub fn is_of(number: u8) -> impl Fn(Ipv4Addr) -> bool {
    move |address| address.octets().starts_with(&[10, 100 + number])
}

fn text(address: &Ipv4Addr) -> String {
    format!("{address}/32")
}
