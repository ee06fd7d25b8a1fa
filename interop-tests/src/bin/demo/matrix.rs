//! Everybody pings everybody, in both families, and the round trips make a table.

use std::net::IpAddr;

use anyhow::{Result, bail};
use rack::netns::Netns;
use rack::probe::ping;
use rack::wait::go_on;

use crate::stage::{Stage, Tone};

/// How wide a column is.
const WIDTH: usize = 9;

/// Someone who pings and is pinged.
pub(crate) struct Party<'a> {
    pub(crate) name: &'a str,
    pub(crate) netns: &'a Netns,
    pub(crate) v6: IpAddr,
    pub(crate) v4: IpAddr,
}

/// Pings every pair and prints a matrix for each family.
pub(crate) fn ping_everybody(stage: &Stage, parties: &[Party<'_>]) -> Result<()> {
    let mut failures = Vec::new();
    for family in ["IPv6", "IPv4"] {
        let heads: String = parties.iter().map(|party| format!("{:>WIDTH$}", party.name)).collect();
        let corner = format!("{family}, ms");
        stage.line(&stage.paint(Tone::Faint, &format!("   {corner:<WIDTH$}{heads}")));
        for from in parties {
            let mut row = format!("   {:<WIDTH$}", from.name);
            for to in parties {
                go_on()?;
                row.push_str(&cell(stage, family, from, to, &mut failures));
            }
            stage.line(&row);
        }
    }
    if !failures.is_empty() {
        bail!("no answer: {}", failures.join("; "));
    }
    let pairs = parties.len() * parties.len().saturating_sub(1);
    stage.tick(&format!("{pairs} pairs, both families, every one answered"));
    Ok(())
}

fn cell(
    stage: &Stage,
    family: &str,
    from: &Party<'_>,
    to: &Party<'_>,
    failures: &mut Vec<String>,
) -> String {
    if from.name == to.name {
        return stage.paint(Tone::Faint, &format!("{:>WIDTH$}", "·"));
    }
    let target = if family == "IPv6" { to.v6 } else { to.v4 };
    match ping(from.netns, target) {
        Ok(time) => stage.paint(Tone::Green, &format!("{time:>WIDTH$.2}")),
        Err(_) => {
            failures.push(format!("{} to {} at {target}", from.name, to.name));
            stage.paint(Tone::Red, &format!("{:>WIDTH$}", "none"))
        }
    }
}
