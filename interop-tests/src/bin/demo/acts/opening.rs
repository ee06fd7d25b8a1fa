//! The rack is built, the agents start, the sessions come up.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rack::router::Brand;
use rack::wait::{PATIENCE, until};
use serde_json::Value;

use crate::company::{Company, NODE_ASN, NODES};
use crate::stage::Stage;
use crate::{console, milliseconds};

const PICTURE: [&str; 5] = [
    "  tor-a ───────────────── tor-b      AS 65000, iBGP between the two",
    "    │  ╲     ╲   ╱     ╱  │",
    "    │     ╲   ╱ ╲   ╱     │          every node has a cable to each ToR,",
    "    │      ╱ ╲   ╱ ╲      │          and a session on it",
    "  node-1     node-2     node-3       AS 65001",
];

pub(super) fn build(stage: &mut Stage) -> Result<Company> {
    stage.act("Two ToRs and three nodes, in network namespaces");
    let start = Instant::now();
    let company = Company::build()?;
    stage.picture(&PICTURE);
    for tor in company.fabric.tors() {
        let [v6, v4] = tor.addresses().map(|address| address.to_string());
        stage.place(tor.name(), &v6, &v4, &console::version(&tor.router)?);
    }
    for node in NODES {
        let [v6, v4] = Company::prefixes(node);
        stage.place(&format!("node-{node}"), &v6, &v4, "for its pods");
    }
    stage.tick(&format!("built in {:.1} s", start.elapsed().as_secs_f64()));
    Ok(company)
}

pub(super) fn start(stage: &mut Stage, company: &mut Company) -> Result<()> {
    stage.act("The agents start, without Kubernetes");
    for node in NODES {
        company.write(node, &Company::node_config(node))?;
    }
    stage.command("node-1", "cat DIR/nodeconfig.yaml");
    stage.output(&Company::node_config(1));
    stage.command("node-1", "flock-agent run --standalone DIR &");
    let start = Instant::now();
    company.start()?;
    stage.tick(&format!("all three are ready to attach pods after {}", milliseconds(start)));
    let node = company.fabric.node(1)?;
    stage.command("node-1", "flock-agent bgp show");
    stage.output(&node.cli(&["bgp", "show"])?);
    let summary = node.cli_json(&["bgp", "show"])?;
    ensure!(summary.get("asn").is_none_or(Value::is_null), "it speaks BGP already: {summary}");
    Ok(())
}

pub(super) fn speak(stage: &mut Stage, company: &Company) -> Result<()> {
    stage.act("spec.bgp is added to the files, and the sessions come up");
    let node = company.fabric.node(1)?;
    let start = Instant::now();
    company.speak()?;
    let took = milliseconds(start);
    let file = fs::read_to_string(node.file("standalone/nodeconfig.yaml"))?;
    let added = file.lines().skip(Company::node_config(1).lines().count());
    stage.command("node-1", "sed -n '/bgp:/,$p' DIR/nodeconfig.yaml");
    stage.output(&added.collect::<Vec<_>>().join("\n"));
    stage.tick(&format!("six sessions are Established {took} after the first file was renamed"));
    await_exchange(company)?;
    stage.command("node-1", "flock-agent bgp show");
    stage.output(&node.cli(&["bgp", "show"])?);
    Ok(())
}

/// Awaits that every ToR's kernel has the way to every node's prefixes, and that
/// every node has learned the defaults from each ToR.
fn await_exchange(company: &Company) -> Result<()> {
    for node in NODES {
        for prefix in Company::prefixes(node) {
            company.await_ways(&prefix, &[node])?;
        }
        let node = company.fabric.node(node)?;
        until(&format!("the defaults at {}", node.name()), PATIENCE, || {
            let shown = node.cli_json(&["bgp", "show", "peers"])?;
            let peers = shown.get("peers").and_then(Value::as_array).context("no peers")?;
            let learned = |peer: &&Value| {
                peer.get("state").is_some_and(|state| state == "Established")
                    && peer.get("accepted").and_then(Value::as_u64) == Some(2)
            };
            let all = peers.iter().filter(learned).count() == company.fabric.tors().len();
            ensure!(all, "not every peer has told them: {shown}");
            Ok(())
        })?;
    }
    Ok(())
}

pub(super) fn ask_tors(stage: &mut Stage, company: &Company) -> Result<()> {
    stage.act("The ToRs agree: their sessions, and the routes of their kernels");
    for tor in company.fabric.tors() {
        let (shown, lines, routes) = match tor.router.brand() {
            Brand::Frr => (
                "vtysh -c 'show bgp ipv6 unicast summary' | awk '/65001/ {print $1, $3, $9, $10}'",
                columns(&console::ask(&tor.router, "show bgp ipv6 unicast summary")?),
                "-4 route show proto bgp",
            ),
            _ => {
                let said = console::ask(&tor.router, "show protocols")?;
                let sessions = said.lines().filter(|line| line.contains("BGP"));
                let lines = sessions.map(str::to_owned).collect();
                ("birdc show protocols | grep BGP", lines, "-6 route show proto bird")
            }
        };
        ensure!(lines.len() >= NODES.len(), "{} shows other sessions: {lines:?}", tor.name());
        stage.command(tor.name(), shown);
        stage.output(&lines.join("\n"));
        stage.command(tor.name(), &format!("ip {routes}"));
        stage.output(&tor.netns().ip(routes)?);
    }
    Ok(())
}

/// Of FRR's summary the peer, its AS, since when, and how much it told; the whole
/// line is wider than a terminal.
fn columns(summary: &str) -> Vec<String> {
    let asn = NODE_ASN.to_string();
    let of_nodes = summary.lines().filter(|line| line.contains(&asn));
    let columns = of_nodes.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let some =
        |row: Vec<&str>| [0, 2, 8, 9].map(|at| row.get(at).copied().unwrap_or("-")).join(" ");
    columns.map(some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_summary_the_nodes_and_four_columns_are_shown() {
        let summary = "Neighbor          V         AS   MsgRcvd   MsgSent   TblVer  InQ OutQ  Up/Down State/PfxRcd   PfxSnt Desc\n\
            2001:db8:f2:1::2  4      65001        10        12        0    0    0 00:00:26            2        7 N/A\n\
            2001:db8:ff:12::1 4      65000        15        10        0    0    0 00:00:27            6        6 N/A\n";
        assert_eq!(columns(summary), ["2001:db8:f2:1::2 65001 00:00:26 2"]);
    }
}
