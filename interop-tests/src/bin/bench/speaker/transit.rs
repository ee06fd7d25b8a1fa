//! Many routes through a speaker: scenarios, turns, targets and rows.

use std::time::Duration;

use anyhow::Result;
use rack::bench::bgp::Family;
use rack::bench::bgp::router::Kind;
use rack::bench::bgp::table::{Table, Wish};
use rack::bench::bgp::transit::{Bench, FAR_HOST, FEEDER, FEEDER_LINK};
use rack::bench::chart::{self, Chart};
use rack::bench::report::{Report, Row};
use rack::bench::samples::Samples;
use rack::wait::go_on;

use super::Pick;
use crate::options::Run;

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
    family: Family,
    routes: usize,
    /// Different sets of attributes.
    sets: usize,
    turns: usize,
}

impl Scenario {
    fn name(&self) -> String {
        let [routes, sets] = [self.routes, self.sets].map(thousands);
        format!("{} {routes} routes, {sets} sets", self.family.name())
    }

    fn table(&self) -> Result<Table> {
        table(self.family, self.routes, self.sets)
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
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    let sound = verify(report)?;
    let mut races = Vec::new();
    for scenario in scenarios(run) {
        eprintln!("transit: {}, {} turns", scenario.name(), scenario.turns);
        let contestants = race(run, &scenario, &sound, report)?;
        races.push((scenario, contestants));
    }
    let rates: Pick<Turns> = |turns| &turns.rate;
    draw("transit", "Routes in and out, a second", "k/s", rates, &races, report);
    let memory: Pick<Turns> = |turns| &turns.resident;
    draw("memory-a-route", "Resident memory a route", "B", memory, &races, report);
    Ok(())
}

/// Who passes on what it should; the others are not measured.
fn verify(report: &mut Report) -> Result<Vec<Kind>> {
    let (routes, sets) = VERIFIED;
    let mut sound = Kind::ALL.to_vec();
    for family in [Family::V4, Family::V6] {
        let (table, bench) = (table(family, routes, sets)?, Bench::new(family)?);
        let mut unsound = Vec::new();
        for kind in &sound {
            if let Err(error) = kind.program().and_then(|_| bench.verify(*kind, &table)) {
                go_on()?;
                report.note(format!("not measured: {error:#}"));
                unsound.push(*kind);
            }
        }
        sound.retain(|kind| !unsound.contains(kind));
    }
    Ok(sound)
}

fn table(family: Family, routes: usize, sets: usize) -> Result<Table> {
    let next_hop = family.address(FEEDER_LINK, FAR_HOST).parse()?;
    Table::new(&Wish { family, routes, sets, asn: FEEDER, next_hop })
}

fn scenarios(run: &Run) -> Vec<Scenario> {
    use Family::{V4, V6};
    let scenario = |family, routes, sets, turns| Scenario { family, routes, sets, turns };
    if run.quick {
        return vec![
            scenario(V4, 100_000, 10_000, 3),
            scenario(V6, 100_000, 10_000, 3),
            scenario(V4, 1_000_000, 100_000, 1),
        ];
    }
    vec![
        scenario(V4, 100_000, 10_000, 5),
        scenario(V6, 100_000, 10_000, 5),
        scenario(V4, 500_000, 50_000, 3),
        scenario(V6, 500_000, 50_000, 3),
        scenario(V4, 1_000_000, 100_000, 3),
        scenario(V6, 1_000_000, 100_000, 3),
        // As a router with a single upstream sees it, and as benchmarks like it.
        scenario(V4, 1_000_000, 100, 3),
    ]
}

fn race(run: &Run, scenario: &Scenario, sound: &[Kind], report: &mut Report) -> Result<Vec<Turns>> {
    let (table, bench) = (scenario.table()?, Bench::new(scenario.family)?);
    let mut floor = Samples::default();
    let mut contestants = contestants(run, scenario, sound, report);
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
            if let Err(error) = turns.take(&bench, &table, scenario, run) {
                go_on()?;
                report.note(format!("{}: {error:#}", scenario.name()));
                failed.push(turns.kind);
            }
        }
        contestants.retain(|turns| !failed.contains(&turns.kind));
    }
    contestants.sort_by_key(|turns| Kind::ALL.iter().position(|kind| *kind == turns.kind));
    rows(scenario, &floor, &contestants, report);
    Ok(contestants)
}

fn contestants(run: &Run, scenario: &Scenario, sound: &[Kind], report: &mut Report) -> Vec<Turns> {
    let mut all = Vec::new();
    for kind in sound.iter().copied() {
        if kind == Kind::GoBgp && scenario.routes > TOO_MANY_FOR_GOBGP && !run.full {
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
    fn take(&mut self, bench: &Bench, table: &Table, scenario: &Scenario, run: &Run) -> Result<()> {
        go_on()?;
        let limit = if run.full { LIMIT_FULL } else { LIMIT };
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

fn rows(scenario: &Scenario, floor: &Samples, contestants: &[Turns], report: &mut Report) {
    let name = |what: &str| format!("{}: {what}", scenario.name());
    report.add(Row::floor(&name("rate"), "feeder to sink", floor).rate("k/s"));
    let Some(ours) = contestants.iter().find(|turns| turns.kind == Kind::Flock) else { return };
    let columns: [(&str, &'static str, Pick<Turns>); 5] = [
        ("rate", "k/s", |turns| &turns.rate),
        ("processor a route", "µs", |turns| &turns.processor),
        ("memory a route", "B", |turns| &turns.resident),
        ("memory a route, peak", "B", |turns| &turns.peak),
        ("one more route", "ms", |turns| &turns.single),
    ];
    for (what, unit, pick) in columns {
        for peer in contestants.iter().filter(|turns| turns.kind != Kind::Flock) {
            // The others are so far off that one figure says it.
            if what.ends_with("peak") && peer.kind != Kind::Bird {
                continue;
            }
            let row = Row::beside(&name(what), pick(ours), peer.kind.name(), pick(peer));
            let row = if what == "rate" { row.rate(unit) } else { row.unit(unit) };
            report.add(match (what, peer.kind) {
                ("rate", Kind::Bird) => row.at_least(1.0),
                ("rate", Kind::GoBgp) => row.at_least(20.0),
                ("memory a route", Kind::Bird) => row.at_most(1.0),
                _ => row,
            });
        }
    }
}

fn draw(
    name: &str,
    title: &str,
    unit: &str,
    pick: Pick<Turns>,
    races: &[(Scenario, Vec<Turns>)],
    report: &mut Report,
) {
    let mut chart = Chart::new(name, title, unit, chart::Kind::LogBars);
    for kind in Kind::ALL {
        let points = races.iter().map(|(scenario, contestants)| {
            let turns = contestants.iter().find(|turns| turns.kind == kind);
            (scenario.name(), turns.and_then(|turns| pick(turns).figure()))
        });
        chart = chart.with(kind.name(), points.collect());
    }
    report.draw(chart);
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
