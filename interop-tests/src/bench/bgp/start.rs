//! From the start of a speaker's process to everything told: how long until the
//! session, the first UPDATE, the last one and End-of-RIB (RFC 4724 §2).
//!
//! The speaker dials; the other end is a plain socket that answers at once.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Family;
use super::configs::{Peer, Role, Wishes};
use super::count::Count;
use super::router::{Kind, Router};
use super::session::{Identity, Session, listen};
use crate::bench::samples::Samples;
use crate::link::{End, connect};
use crate::netns::Netns;

/// Pods on a full node.
pub const ROUTES: u8 = 110;
/// The ASN of the speaker, and of who is told.
pub const SPEAKER: u32 = 65_001;
/// See [`SPEAKER`].
pub const FAR: u32 = 65_000;
const LIMIT: Duration = Duration::from_secs(30);

/// What starts took, in milliseconds.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// From the start of the process to the session.
    pub established: Samples,
    /// From the session to the first UPDATE.
    pub first: Samples,
    /// From the last UPDATE to End-of-RIB.
    pub end_of_rib: Samples,
    /// From the start of the process until the last route was told.
    pub all: Samples,
}

/// A node and the far end of its uplink.
#[derive(Debug)]
pub struct Bench {
    listener: TcpListener,
    node: Netns,
    _far: Netns,
}

impl Bench {
    /// Lays it out.
    pub fn new() -> Result<Self> {
        let (node, far) = (Netns::new("node")?, Netns::new("far")?);
        let [near_address, far_address] = [1, 2].map(|host| Family::V4.with_length(1, host));
        connect(
            End { netns: &node, ifname: "uplink", addresses: &[&near_address] },
            End { netns: &far, ifname: "node", addresses: &[&far_address] },
        )?;
        node.loopback_up()?;
        let listener = listen(&far, Family::V4.address(1, 2).parse()?)?;
        Ok(Self { listener, node, _far: far })
    }

    /// Starts a speaker once.
    pub fn round(&self, kind: Kind, times: &mut Times) -> Result<()> {
        let wishes = Wishes {
            family: Family::V4,
            asn: SPEAKER,
            id: "192.0.2.1".to_owned(),
            peers: vec![Peer {
                name: "far".to_owned(),
                address: Family::V4.address(1, 2),
                local: Family::V4.address(1, 1),
                asn: FAR,
                passive: false,
            }],
            role: Role::Node((0..ROUTES).map(|last| format!("10.99.0.{last}/32")).collect()),
        };
        let mut router = Router::start(kind, &self.node, &wishes)?;
        let outcome = watch(&self.listener, router.started, u64::from(ROUTES), times);
        let session =
            router.explain(outcome).with_context(|| format!("the start of {}", kind.name()));
        // The speaker first: it must not dial again.
        drop(router);
        session.map(drop)
    }
}

/// Awaits that a speaker, whose process was made at `started`, dials and tells so
/// many routes.
pub fn watch(
    listener: &TcpListener,
    started: Instant,
    routes: u64,
    times: &mut Times,
) -> Result<Session> {
    let id = Ipv4Addr::new(192, 0, 2, 2);
    let identity = Identity { asn: FAR, id, family: Family::V4, hold: 0 };
    let mut session = Session::accept(listener, &identity, LIMIT)?;
    let deadline = Instant::now() + LIMIT;
    let mut count = Count::default();
    let first = session.take_update(&mut count, deadline)?;
    let mut last = first;
    while count.announced < routes {
        last = session.take_update(&mut count, deadline)?;
    }
    let end = session.read_until(&mut count, LIMIT, |count| count.ends_of_rib > 0)?;
    let milliseconds = |from: Instant, to: Instant| (to - from).as_secs_f64() * 1000.0;
    times.established.push(milliseconds(started, session.established));
    times.first.push(milliseconds(session.established, first));
    times.end_of_rib.push(milliseconds(last, end));
    times.all.push(milliseconds(started, last));
    Ok(session)
}
