//! Many routes in at one side of a speaker and out at the other: how fast, with
//! how much processor time and memory a route, and what a single route takes
//! once they are all there.
//!
//! A feeder sends what was encoded beforehand, a sink counts; both are eBGP
//! peers in one namespace, the speaker is alone in another. Each round takes a
//! new process. The floor is the feeder joined to the sink by the same kind of
//! cable, with nobody in between.

use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::Family;
use super::configs::{Peer, Role, Wishes};
use super::count::{Count, fingerprint};
use super::message::{announce, plain_attributes, prefix};
use super::router::{Kind, Router};
use super::session::{Identity, Session, listen};
use super::table::Table;
use super::usage::Usage;
use super::verify::Routes;
use crate::link::{End, connect};
use crate::netns::Netns;
use crate::wait::PATIENCE;

/// The feeder's ASN.
pub const FEEDER: u32 = 65_010;
const SINK: u32 = 65_020;
const SPEAKER: u32 = 65_001;
/// GoBGP cannot write to a peer whose hold time is zero; with this one nobody
/// has to keep anything alive for as long as a round takes.
const HOLD: u16 = 240;
/// The link to the feeder.
pub const FEEDER_LINK: u8 = 1;
const SINK_LINK: u8 = 2;
/// Host numbers on a link.
const SPEAKER_HOST: u8 = 1;
/// The far end of a link.
pub const FAR_HOST: u8 = 2;
/// How long nothing must come before a speaker counts as settled.
const SILENCE: Duration = Duration::from_millis(300);

/// What a round gave.
#[derive(Debug, Clone)]
pub struct Round {
    /// From the first byte in to the last route out.
    pub elapsed: Duration,
    /// Processor time a route, in seconds; none for the floor.
    pub processor: f64,
    /// Resident bytes a route.
    pub resident: f64,
    /// The same at the worst moment.
    pub peak: f64,
    /// Milliseconds for each of a few single routes afterwards.
    pub singles: Vec<f64>,
}

/// The namespaces and cables of one contestant.
#[derive(Debug)]
pub struct Bench {
    speaker: Netns,
    world: Netns,
    family: Family,
}

impl Bench {
    /// Lays it out.
    pub fn new(family: Family) -> Result<Self> {
        let speaker = Netns::new("speaker")?;
        let world = Netns::new("world")?;
        for netns in [&speaker, &world] {
            netns.loopback_up()?;
        }
        for (link, names) in [(FEEDER_LINK, ["in", "feed"]), (SINK_LINK, ["out", "sink"])] {
            let [near, far] = [SPEAKER_HOST, FAR_HOST].map(|host| family.with_length(link, host));
            let [near_name, far_name] = names;
            connect(
                End { netns: &speaker, ifname: near_name, addresses: &[&near] },
                End { netns: &world, ifname: far_name, addresses: &[&far] },
            )?;
        }
        Ok(Self { speaker, world, family })
    }

    /// One round of one contestant. `limit` bounds its time.
    pub fn round(&self, kind: Kind, table: &Table, singles: u8, limit: Duration) -> Result<Round> {
        let mut router = Router::start(kind, &self.speaker, &self.wishes())?;
        let outcome = self.through(&mut router, table, singles, limit);
        router.explain(outcome).with_context(|| format!("transit through {}", kind.name()))
    }

    fn through(
        &self,
        router: &mut Router,
        table: &Table,
        singles: u8,
        limit: Duration,
    ) -> Result<Round> {
        let mut sink = self.dial(SINK_LINK, SINK)?;
        let mut feeder = self.dial(FEEDER_LINK, FEEDER)?;
        let mut count = Count::default();
        sink.quiet(&mut count, SILENCE)?;
        ensure!(count.announced == 0, "the speaker announces what nobody told it");
        let before = router.usage()?;
        let elapsed = pump(&mut feeder, &mut sink, table, limit)?;
        let after = router.usage()?;
        let singles = (0..singles)
            .map(|number| self.single(&mut feeder, &mut sink, number))
            .collect::<Result<_>>()?;
        let routes = table.expected.announced as f64;
        Ok(Round {
            elapsed,
            processor: spent(before, after).as_secs_f64() / routes,
            resident: (after.resident as f64 - before.resident as f64) / routes,
            peak: (after.peak as f64 - before.resident as f64) / routes,
            singles,
        })
    }

    /// Whether a contestant passes on what it should.
    pub fn verify(&self, kind: Kind, table: &Table) -> Result<()> {
        let mut router = Router::start(kind, &self.speaker, &self.wishes())?;
        let outcome = self.compare(table);
        router.explain(outcome).with_context(|| format!("what {} passes on", kind.name()))
    }

    fn compare(&self, table: &Table) -> Result<()> {
        let mut sink = self.dial(SINK_LINK, SINK)?;
        let mut feeder = self.dial(FEEDER_LINK, FEEDER)?;
        let sent = Routes::of_stream(&table.bytes)?;
        // Small enough for the kernel's buffers, so nobody has to read meanwhile.
        feeder.write(&table.bytes)?;
        let deadline = Instant::now() + PATIENCE;
        let mut received = Routes::default();
        while received.count() < sent.count() {
            received.learn(sink.next_update(deadline)?)?;
        }
        let speaker = self.family.address(SINK_LINK, SPEAKER_HOST).parse()?;
        received.passed_on(&sent, SPEAKER, speaker)
    }

    /// The feeder and the sink with nobody between them.
    pub fn floor(&self, table: &Table, limit: Duration) -> Result<Duration> {
        let at: IpAddr = self.family.address(FEEDER_LINK, SPEAKER_HOST).parse()?;
        let listener = listen(&self.speaker, at)?;
        let dial = || self.world.within(|| Ok(TcpStream::connect((at, super::session::PORT))?));
        let stream = dial()?;
        thread::scope(|scope| {
            let identity = self.identity(FEEDER);
            let feeder = scope.spawn(move || Session::establish(stream, &identity));
            let mut sink = Session::accept(&listener, &self.identity(SINK), limit)?;
            let mut feeder = feeder.join().map_err(|_| anyhow!("panicked"))??;
            pump(&mut feeder, &mut sink, table, limit)
        })
    }

    /// One more route, that nobody has yet.
    fn single(&self, feeder: &mut Session, sink: &mut Session, number: u8) -> Result<f64> {
        let (address, length): (IpAddr, _) = match self.family {
            Family::V4 => (Ipv4Addr::new(223, 255, 255, number).into(), 32),
            Family::V6 => (format!("2c0f:ffff::{number:x}").parse()?, 128),
        };
        let next_hop = self.family.address(FEEDER_LINK, FAR_HOST).parse()?;
        let attributes = plain_attributes(&[FEEDER, 1234])?;
        let nlri = prefix(address, length);
        let update = announce(&attributes, next_hop, &nlri)?;
        let mut count = Count::default();
        let start = Instant::now();
        feeder.write(&update)?;
        let end =
            sink.read_until(&mut count, Duration::from_secs(10), |count| count.announced > 0)?;
        ensure!(count.sum == fingerprint(&nlri), "another route came out");
        Ok((end - start).as_secs_f64() * 1000.0)
    }

    fn dial(&self, link: u8, asn: u32) -> Result<Session> {
        let speaker = self.family.address(link, SPEAKER_HOST).parse()?;
        Session::dial(&self.world, speaker, &self.identity(asn))
    }

    fn identity(&self, asn: u32) -> Identity {
        let number = if asn == FEEDER { 10 } else { 20 };
        Identity { asn, id: Ipv4Addr::new(192, 0, 2, number), family: self.family, hold: HOLD }
    }

    fn wishes(&self) -> Wishes {
        let peer = |name: &str, link, asn| Peer {
            name: name.to_owned(),
            address: self.family.address(link, FAR_HOST),
            local: self.family.address(link, SPEAKER_HOST),
            asn,
            passive: true,
        };
        Wishes {
            family: self.family,
            asn: SPEAKER,
            id: "192.0.2.1".to_owned(),
            peers: vec![peer("feeder", FEEDER_LINK, FEEDER), peer("collector", SINK_LINK, SINK)],
            role: Role::Transit,
        }
    }
}

fn spent(before: Usage, after: Usage) -> Duration {
    after.processor.saturating_sub(before.processor)
}

/// Sends the table and awaits that all of it has come out.
fn pump(
    feeder: &mut Session,
    sink: &mut Session,
    table: &Table,
    limit: Duration,
) -> Result<Duration> {
    let wanted = table.expected.announced;
    let mut count = Count::default();
    let (start, end) = thread::scope(|scope| {
        let start = Instant::now();
        let hang_up = feeder.hang_up()?;
        let feeding = scope.spawn(move || feeder.write(&table.bytes));
        let end = sink.read_until(&mut count, limit, |count| count.announced >= wanted);
        let end = end.with_context(|| format!("{} of {wanted} routes came out", count.announced));
        if end.is_err() {
            // Else the feeder would wait for room for ever.
            hang_up();
        }
        let fed = feeding.join().map_err(|_| anyhow!("panicked"))?;
        let end = end?;
        fed?;
        Ok::<_, anyhow::Error>((start, end))
    })?;
    sink.quiet(&mut count, SILENCE)?;
    ensure!(
        (count.announced, count.sum) == (wanted, table.expected.sum),
        "{} routes came out, not {wanted}, or other ones",
        count.announced
    );
    Ok(end - start)
}
