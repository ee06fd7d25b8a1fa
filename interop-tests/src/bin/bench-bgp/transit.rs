//! Many routes through a speaker: scenarios, turns, targets and rows.

use std::time::Duration;

use anyhow::Result;
use rack::bench::bgp::router::Kind;
use rack::bench::bgp::table::{Table, Wish};
use rack::bench::bgp::transit::{Bench, FAR_HOST, FEEDER, FEEDER_LINK};
use rack::bench::report::{Report, Row, Target};
use rack::bench::samples::Samples;
use rack::wait::go_on;

use crate::{Options, Pick, compare};

/// From so many routes on GoBGP takes minutes.
const TOO_MANY_FOR_GOBGP: usize = 300_000;
const LIMIT: Duration = Duration::from_secs(60);
const LIMIT_FULL: Duration = Duration::from_secs(230);
/// Enough to see whether a speaker passes routes on as it should.
const VERIFIED: (usize, usize) = (5_000, 500);
/// Single routes sent after the many.
const SINGLES: u8 = 20;

/// One table and how often it goes through everybody.
struct Scenario {
    routes: usize,
    sets: usize,
    turns: usize,
}

impl Scenario {
    fn name(&self) -> String {
        format!("{} routes, {} sets", thousands(self.routes), thousands(self.sets))
    }
}

/// What a contestant's turns gave.
struct Turns {
    kind: Kind,
    /// Thousand routes a second.
    rate: Samples,
    /// Microseconds of processor time a route.
    processor: Samples,
    /// Resident bytes a route.
    resident: Samples,
    /// The same at the worst moment.
    peak: Samples,
    /// Milliseconds of a single route.
    single: Samples,
}

/// Measures and reports.
pub(crate) fn measure(options: &Options, report: &mut Report) -> Result<()> {
    let sound = verify(options, report)?;
    for scenario in scenarios(options) {
        eprintln!("transit: {}, {} turns", scenario.name(), scenario.turns);
        run(options, &scenario, &sound, report)?;
    }
    Ok(())
}

/// Who passes on what it should; the others are not measured.
fn verify(options: &Options, report: &mut Report) -> Result<Vec<Kind>> {
    let (routes, sets) = VERIFIED;
    let table = table(options, routes, sets)?;
    let bench = Bench::new(options.family)?;
    let mut sound = Vec::new();
    let wanted = |kind: &Kind| {
        let named =
            |names: &String| names.split(',').any(|name| name.eq_ignore_ascii_case(kind.name()));
        *kind == Kind::Flock || options.against.as_ref().is_none_or(named)
    };
    for kind in Kind::ALL.into_iter().filter(wanted).filter(|kind| kind.program().is_ok()) {
        match bench.verify(kind, &table) {
            Ok(()) => sound.push(kind),
            Err(error) => {
                go_on()?;
                report.note(format!("not measured: {error:#}"));
            }
        }
    }
    Ok(sound)
}

fn table(options: &Options, routes: usize, sets: usize) -> Result<Table> {
    let family = options.family;
    let next_hop = family.address(FEEDER_LINK, FAR_HOST).parse()?;
    Table::new(&Wish { family, routes, sets, asn: FEEDER, next_hop })
}

fn scenarios(options: &Options) -> Vec<Scenario> {
    let scenario = |routes, sets, turns| Scenario { routes, sets, turns };
    if let Some(routes) = options.routes {
        let sets = options.sets.unwrap_or(routes.div_ceil(10));
        return vec![scenario(routes, sets, if options.quick { 3 } else { 5 })];
    }
    let sets = |usual: usize| options.sets.unwrap_or(usual);
    if options.quick {
        vec![scenario(100_000, sets(10_000), 3), scenario(1_000_000, sets(100_000), 1)]
    } else {
        vec![
            scenario(100_000, sets(10_000), 5),
            scenario(1_000_000, sets(100_000), 3),
            // As a router with a single upstream sees it, and as benchmarks like it.
            scenario(1_000_000, sets(100), 3),
        ]
    }
}

fn run(options: &Options, scenario: &Scenario, sound: &[Kind], report: &mut Report) -> Result<()> {
    let table = table(options, scenario.routes, scenario.sets)?;
    let bench = Bench::new(options.family)?;
    let mut floor = Samples::default();
    let mut contestants = contestants(options, scenario, sound, report);
    for turn in 0..scenario.turns {
        floor.push(rate(scenario, bench.floor(&table, LIMIT)?));
        if turn % 2 == 1 {
            contestants.reverse();
        }
        let mut failed = Vec::new();
        for turns in &mut contestants {
            // Its figures do not move, and it takes longer than all others together.
            if turns.kind == Kind::GoBgp && turn > 0 {
                continue;
            }
            if let Err(error) = turns.take(&bench, &table, scenario, options) {
                go_on()?;
                report.note(format!("{}: {error:#}", scenario.name()));
                failed.push(turns.kind);
            }
        }
        contestants.retain(|turns| !failed.contains(&turns.kind));
    }
    rows(options, scenario, &floor, &contestants, report);
    Ok(())
}

fn contestants(
    options: &Options,
    scenario: &Scenario,
    sound: &[Kind],
    report: &mut Report,
) -> Vec<Turns> {
    let mut all = Vec::new();
    for kind in sound.iter().copied() {
        if kind == Kind::GoBgp && scenario.routes > TOO_MANY_FOR_GOBGP && !options.full {
            let name = scenario.name();
            report.note(format!("GoBGP is left out of {name}: it takes minutes (--full)"));
        } else {
            let [rate, processor, resident, peak, single] = Default::default();
            all.push(Turns { kind, rate, processor, resident, peak, single });
        }
    }
    all
}

impl Turns {
    fn take(
        &mut self,
        bench: &Bench,
        table: &Table,
        scenario: &Scenario,
        options: &Options,
    ) -> Result<()> {
        go_on()?;
        let limit = if options.full { LIMIT_FULL } else { LIMIT };
        let round = bench.round(self.kind, table, SINGLES, limit)?;
        let rate = rate(scenario, round.elapsed);
        let (processor, resident) = (round.processor * 1e6, round.resident);
        eprintln!("  {:9} {rate:6.0} k/s  {processor:5.2} us  {resident:5.0} B", self.kind.name());
        self.rate.push(rate);
        self.processor.push(processor);
        self.resident.push(resident);
        self.peak.push(round.peak);
        self.single.extend(round.singles);
        Ok(())
    }
}

fn rows(
    options: &Options,
    scenario: &Scenario,
    floor: &Samples,
    contestants: &[Turns],
    report: &mut Report,
) {
    let name = |what: &str| format!("{} {}: {what}", options.family.name(), scenario.name());
    report.add(Row::floor(&name("feeder to sink"), "floor", floor).unit("k/s"));
    let ours = contestants.iter().find(|turns| turns.kind == Kind::Flock);
    let mut peers: Vec<_> = contestants.iter().filter(|turns| turns.kind != Kind::Flock).collect();
    peers.sort_by_key(|turns| Kind::ALL.iter().position(|kind| *kind == turns.kind));
    let columns: [(&str, &'static str, Pick<Turns>); 5] = [
        ("rate", "k/s", |turns| &turns.rate),
        ("processor a route", "us", |turns| &turns.processor),
        ("memory a route", "B", |turns| &turns.resident),
        ("memory a route, peak", "B", |turns| &turns.peak),
        ("one more route", "ms", |turns| &turns.single),
    ];
    for (what, unit, pick) in columns {
        for peer in &peers {
            // The others are so far off that one figure says it.
            if what.ends_with("peak") && peer.kind != Kind::Bird {
                continue;
            }
            let row = compare(&name(what), ours.map(pick), peer.kind.name(), pick(peer)).unit(unit);
            report.add(match (what, peer.kind) {
                ("rate", Kind::Bird) => row.target(Target::at_least("1", 1.0)),
                ("rate", Kind::GoBgp) => row.target(Target::at_least("20", 20.0)),
                ("memory a route", Kind::Bird) => row.target(Target::at_most("1", 1.0)),
                _ => row,
            });
        }
    }
}

/// Thousand routes a second.
fn rate(scenario: &Scenario, elapsed: Duration) -> f64 {
    scenario.routes as f64 / elapsed.as_secs_f64() / 1000.0
}

fn thousands(count: usize) -> String {
    match count {
        count if count >= 1_000_000 && count % 100_000 == 0 => {
            format!("{}M", count as f64 / 1_000_000.0)
        }
        count if count >= 1_000 && count % 1_000 == 0 => format!("{}k", count / 1_000),
        count => count.to_string(),
    }
}
