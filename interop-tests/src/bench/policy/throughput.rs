//! iperf3 between two pods of a node, with policies and without any.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::place::{Place, Size};
use crate::bench::samples::Samples;
use crate::binaries::tool;
use crate::process::Daemon;
use crate::wait::{PATIENCE, until};

/// Seconds that do not count: TCP begins slowly, and the agent, which has just been given hundreds of
/// policies or has lost them, is not at rest yet.
const OMITTED: &str = "1";

/// Gigabits a second.
#[derive(Debug, Default)]
pub struct Throughput {
    /// With policies in force.
    pub with: Samples,
    /// Without any: not even the table is there.
    pub without: Samples,
    /// Without any, the node's kernel keeping track of connections all the same.
    pub tracked: Samples,
}

/// The least that makes a kernel keep track, and accept what it knows: a file for `nft -f`.
const TRACKING: &str = "table inet bench {
  chain forward {
    type filter hook forward priority 0
    ct state established,related accept
  }
}
";

/// Takes turns, each of so many seconds with policies, without, and with tracking only.
pub fn measure(dir: &Path, size: Size, turns: usize, seconds: usize) -> Result<Throughput> {
    let mut place = Place::new(dir)?;
    place.populate(size)?;
    let _server = serve(&mut place)?;
    let rules = place.node_mut().file("tracking.nft");
    std::fs::write(&rules, TRACKING)?;
    let rules = rules.display().to_string();
    let mut throughput = Throughput::default();
    for turn in 0..=turns {
        place.decree(size.policies)?;
        let with = transfer(&place, seconds)?;
        place.decree(0)?;
        let without = transfer(&place, seconds)?;
        place.node_mut().netns().exec("nft", &["-f", &rules])?;
        let tracked = transfer(&place, seconds)?;
        place.node_mut().netns().exec("nft", &["delete", "table", "inet", "bench"])?;
        if turn > 0 {
            // The first turn only warmed it up.
            throughput.with.push(with);
            throughput.without.push(without);
            throughput.tracked.push(tracked);
        }
    }
    Ok(throughput)
}

fn serve(place: &mut Place) -> Result<Daemon> {
    let log = place.node_mut().file("iperf3.log");
    let (_, server, address) = place.ends();
    let mut command = server.command(tool("iperf3")?)?;
    command.args(["--server", "--bind", &address.to_string()]);
    let daemon = Daemon::start("iperf3", &mut command, &log)?;
    until("iperf3 to listen", PATIENCE, || client(place, "1").map(drop))?;
    Ok(daemon)
}

fn transfer(place: &Place, seconds: usize) -> Result<f64> {
    let said: Value = serde_json::from_str(&client(place, &seconds.to_string())?)?;
    let rate = said.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64);
    Ok(rate.with_context(|| format!("iperf3 said no rate: {said}"))? / 1e9)
}

fn client(place: &Place, seconds: &str) -> Result<String> {
    let (client, _, address) = place.ends();
    let target = address.to_string();
    let arguments = ["--client", &target, "--time", seconds, "--omit", OMITTED, "--json"];
    client.exec("iperf3", &arguments)
}
