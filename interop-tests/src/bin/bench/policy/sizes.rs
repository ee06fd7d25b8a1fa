//! Packets, events and ADD at each size: turns, targets and rows.

use anyhow::Result;
use rack::bench::policy::floor::Floor;
use rack::bench::policy::packets::Talk;
use rack::bench::policy::place::{Place, Size};
use rack::bench::report::{Report, Row};
use rack::bench::samples::Samples;

use crate::options::Run;

const SMALLEST: Size = Size { pods: 10, policies: 10 };
const PODS: [u16; 3] = [10, 100, 1000];
const POLICIES: [usize; 3] = [10, 100, 500];
/// In a turn: so many rounds in which each talks for a millisecond or two, or a slow moment of the
/// machine falls on one of them alone.
const ROUNDS: usize = 10;
const BATCHES: usize = 5;
const CHANGES: usize = 3;
const ADDS: usize = 2;
/// What does not grow may look this much larger.
const FLAT: f64 = 1.1;
/// What may grow a little.
const GROWTH: f64 = 1.5;

/// What one node's turns gave.
#[derive(Default)]
struct Times {
    /// In microseconds.
    round_trip: Samples,
    connection: Samples,
    /// In milliseconds.
    allow: Samples,
    deny: Samples,
    labelled: Samples,
    unlabelled: Samples,
    add: Samples,
}

/// A node and its two pods that talk.
struct Contestant {
    place: Place,
    talk: Talk,
    times: Times,
}

impl Contestant {
    fn new(run: &Run, size: Option<Size>) -> Result<Self> {
        let mut place = Place::new(&run.dir)?;
        if let Some(size) = size {
            place.populate(size)?;
        }
        let talk = place.talk()?;
        Ok(Self { place, talk, times: Times::default() })
    }

    fn talk(&mut self) -> Result<()> {
        self.times.round_trip.extend(self.talk.round_trips(BATCHES)?);
        self.times.connection.extend(self.talk.connections(BATCHES)?);
        Ok(())
    }

    fn add(&mut self) -> Result<()> {
        self.times.add.extend(self.place.adds(ADDS)?);
        Ok(())
    }

    fn change(&mut self) -> Result<()> {
        let [deny, allow] = self.place.policy_rounds(CHANGES)?;
        let [labelled, unlabelled] = self.place.peer_rounds(CHANGES)?;
        self.times.deny.extend(deny);
        self.times.allow.extend(allow);
        self.times.labelled.extend(labelled);
        self.times.unlabelled.extend(unlabelled);
        Ok(())
    }
}

/// Everybody who takes turns.
struct Stage {
    free: Contestant,
    small: Contestant,
    growing: Contestant,
    floor: Floor,
    floor_allow: Samples,
    floor_deny: Samples,
}

impl Stage {
    fn take_turn(&mut self, turn: usize) -> Result<()> {
        let mut all = [&mut self.free, &mut self.small, &mut self.growing];
        if turn % 2 == 1 {
            all.reverse();
        }
        for _ in 0..ROUNDS {
            for contestant in &mut all {
                contestant.talk()?;
            }
            all.reverse();
        }
        for contestant in &mut all {
            contestant.add()?;
        }
        for contestant in [&mut self.small, &mut self.growing] {
            contestant.change()?;
        }
        for _ in 0..CHANGES {
            let [allow, deny] = self.floor.round()?;
            self.floor_allow.push(allow);
            self.floor_deny.push(deny);
        }
        Ok(())
    }

    fn forget(&mut self) {
        for contestant in [&mut self.free, &mut self.small, &mut self.growing] {
            contestant.times = Times::default();
        }
        self.floor_allow = Samples::default();
        self.floor_deny = Samples::default();
    }
}

/// Measures and reports.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    let turns = run.rounds(5, 20);
    eprintln!("sizes: setting up three agents");
    let mut stage = Stage {
        free: Contestant::new(run, None)?,
        small: Contestant::new(run, Some(SMALLEST))?,
        growing: Contestant::new(run, None)?,
        floor: Floor::new()?,
        floor_allow: Samples::default(),
        floor_deny: Samples::default(),
    };
    let all = PODS.into_iter().zip(0..).flat_map(|(pods, row)| {
        let sizes = POLICIES.into_iter().zip(0..);
        sizes.map(move |(policies, column)| (Size { pods, policies }, row == column))
    });
    for (size, on_diagonal) in all {
        if run.quick && !on_diagonal {
            continue;
        }
        eprintln!("sizes: {} pods, {} policies, {turns} turns", size.pods, size.policies);
        stage.growing.place.populate(size)?;
        for turn in 0..=turns {
            if turn == 1 {
                // The first turn only warmed everybody up.
                stage.forget();
            }
            stage.take_turn(turn)?;
        }
        rows(size, &stage, report);
    }
    Ok(())
}

fn rows(size: Size, stage: &Stage, report: &mut Report) {
    let Stage { free, small, growing, floor_allow, floor_deny, .. } = stage;
    let (ours, small, free) = (&growing.times, &small.times, &free.times);
    let at = |what: &str| format!("{what}, {} pods, {} policies", size.pods, size.policies);
    let smallest = format!("{} pods, {} policies", SMALLEST.pods, SMALLEST.policies);
    let packets = [
        ("UDP round trip", &ours.round_trip, &small.round_trip, &free.round_trip),
        ("TCP connection", &ours.connection, &small.connection, &free.connection),
    ];
    for (what, ours, small, free) in packets {
        let row = Row::beside(&at(what), ours, &smallest, small).unit("µs");
        report.add(row.at_most(FLAT));
        report.add(Row::beside(&at(what), ours, "no policies", free).unit("µs"));
    }
    let events = [
        ("policy allows", &ours.allow, &small.allow, floor_allow),
        ("policy denies", &ours.deny, &small.deny, floor_deny),
        ("pod elsewhere labelled", &ours.labelled, &small.labelled, floor_allow),
        ("label taken away", &ours.unlabelled, &small.unlabelled, floor_deny),
    ];
    for (what, ours, small, floor) in events {
        report.add(Row::beside(&at(what), ours, "nft -f", floor));
        report.add(Row::beside(&at(what), ours, &smallest, small).at_most(GROWTH));
    }
    report.add(Row::beside(&at("ADD of an isolated pod"), &ours.add, "no policies", &free.add));
}
