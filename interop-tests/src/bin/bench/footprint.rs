//! What flock takes of a node that has other things to do: bytes on disk, resident memory, and a
//! processor while nothing happens.

use std::time::Duration;

use anyhow::Result;
use rack::bench::agent::{memory, rest};
use rack::bench::report::{Report, Row};
use rack::bench::samples::Samples;
use rack::bench::size;

use crate::options::Run;

/// Pods on a node, and the most that one may take.
const POPULATIONS: &[usize] = &[0, 110, 1000];
const FULL_NODE: usize = 110;
const MEGABYTES: f64 = 15.0;
/// The most that is shipped.
const PLUGIN: f64 = 1.3;
const IMAGE: f64 = 25.0;

/// Measures and reports.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    sizes(report)?;
    eprintln!("footprint: {POPULATIONS:?} pods");
    for (pods, resident) in memory::resident(&run.dir, POPULATIONS)? {
        let row = megabytes(&format!("resident, two peers, {pods} pods"), resident);
        report.add(if pods == FULL_NODE { row.figure_at_most(MEGABYTES) } else { row });
    }
    at_rest(run, report)
}

/// Two peers with their KEEPALIVEs, and nothing else.
fn at_rest(run: &Run, report: &mut Report) -> Result<()> {
    let during = Duration::from_secs(run.extent(15, 60));
    eprintln!("footprint: {} s at rest", during.as_secs());
    let ours = rest::flock(&run.dir, FULL_NODE, during)?;
    let theirs = rest::bird(u8::try_from(FULL_NODE)?, during)?;
    let rows = [
        ("at rest: processor, a second", "ms", ours.processor, theirs.processor),
        ("at rest: threads woken, a second", "/s", ours.wakes, theirs.wakes),
    ];
    for (name, unit, ours, theirs) in rows {
        let row = Row::beside(name, &Samples::one(ours), "BIRD", &Samples::one(theirs));
        report.add(row.unit(unit));
    }
    Ok(())
}

fn sizes(report: &mut Report) -> Result<()> {
    let (plugin, agent, image) = size::megabytes()?;
    report.add(megabytes("size: plugin flock", plugin).figure_at_most(PLUGIN));
    report.add(megabytes("size: flock-agent", agent));
    match image {
        Some(image) => report.add(megabytes("size: image", image).figure_at_most(IMAGE)),
        None => report.note("FLOCK_IMAGE_TAR names no image: `make bench` builds one".to_owned()),
    }
    Ok(())
}

fn megabytes(name: &str, figure: f64) -> Row {
    Row::own(name, &Samples::one(figure)).unit("MB")
}
