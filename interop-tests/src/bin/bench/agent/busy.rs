//! A single change while a thousand others are made each second, beside the same node at rest, with few and
//! with many prefixes originated: turns, targets and rows.

use anyhow::Result;
use rack::bench::agent::busy::Scene;
use rack::bench::agent::change::Times;
use rack::bench::chart::{Chart, Kind};
use rack::bench::report::{Report, Row};
use rack::bench::samples::Samples;

use crate::options::Run;

const SIZES: &[usize] = &[10, 1_000, 10_000];
const SIZES_QUICK: &[usize] = &[10, 10_000];
/// Changes of others a second.
const LOAD: u32 = 1_000;
/// What may be slower than at the smallest size by.
const GROWTH: f64 = 1.5;
/// Milliseconds that one of a hundred may take.
const TAIL: f64 = 5.0;

/// What was measured at one size.
struct Size {
    originated: usize,
    rest: Times,
    busy: Times,
    processor: Samples,
}

/// Measures and reports.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    let (rounds, block) = (run.extent(3, 8), run.extent(20, 25));
    let mut sizes: Vec<Size> = Vec::new();
    for originated in run.extent(SIZES_QUICK, SIZES).iter().copied() {
        eprintln!("busy: {originated} originated, {rounds} rounds");
        let mut scene = Scene::new(&run.dir, originated, false)?;
        let mut size = Size {
            originated,
            rest: Times::default(),
            busy: Times::default(),
            processor: Samples::default(),
        };
        for _ in 0..rounds {
            size.rest.join(scene.measure(0, block)?.times);
            let busy = scene.measure(LOAD, block)?;
            size.processor.push(busy.processor * 100.0);
            size.busy.join(busy.times);
        }
        scene.dismiss()?;
        rows(&size, sizes.first(), report);
        sizes.push(size);
    }
    draw(&sizes, report);
    Ok(())
}

fn rows(size: &Size, smallest: Option<&Size>, report: &mut Report) {
    let Size { originated, rest, busy, processor } = size;
    let verbs = [
        ("announce", &busy.announce, &rest.announce, smallest.map(|size| &size.busy.announce)),
        ("withdraw", &busy.withdraw, &rest.withdraw, smallest.map(|size| &size.busy.withdraw)),
    ];
    for (verb, ours, rest, smallest) in verbs {
        let name = format!("busy: {verb}, {originated} originated");
        report.add(Row::beside(&name, ours, "at rest", rest));
        let row = Row::beside(&format!("{name}, p99"), &ours.tail(), "at rest", &rest.tail());
        report.add(row.figure_at_most(TAIL));
        if let (Some(smallest), Some(least)) = (smallest, SIZES.first()) {
            let row = Row::beside(&name, ours, &format!("flock, {least} originated"), smallest);
            report.add(row.at_most(GROWTH));
        }
    }
    let name = format!("busy: processor, {LOAD} changes a second, {originated} originated");
    report.add(Row::own(&name, processor).unit("%"));
}

fn draw(sizes: &[Size], report: &mut Report) {
    let points = |pick: fn(&Size) -> &Samples| {
        let one = |size: &Size| (format!("{} originated", size.originated), pick(size).figure());
        sizes.iter().map(one).collect()
    };
    let title = "From the rename of a pod's manifest to the ToR's kernel";
    report.draw(
        Chart::new("busy", title, "ms", Kind::Lines)
            .with("announce, 1,000 others a second", points(|size| &size.busy.announce))
            .with("announce, at rest", points(|size| &size.rest.announce))
            .with("withdraw, 1,000 others a second", points(|size| &size.busy.withdraw))
            .with("withdraw, at rest", points(|size| &size.rest.withdraw)),
    );
}
