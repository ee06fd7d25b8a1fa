//! An address that three pods share, and what their readiness does to it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rack::fabric::Tor;
use rack::probe;
use rack::router::Brand;
use rack::wait::go_on;

use crate::company::{ANYCAST, Company, NODES};
use crate::monitor::{Event, Monitor};
use crate::stage::Stage;

/// How many connections the kernel of a ToR is asked about.
const FLOWS: u16 = 48;

pub(super) fn share(stage: &mut Stage, company: &Company) -> Result<()> {
    stage.act("An anycast address: three pods, three nodes, one route with three ways");
    let list = ANYCAST.join(",");
    stage.tick(&format!("annotation of all three: flock.fritzlab.net/anycast: {list}"));
    for address in ANYCAST {
        company.await_ways(address, &NODES)?;
    }
    for tor in company.fabric.tors() {
        for address in ANYCAST {
            let family = if address.contains(':') { "-6" } else { "-4" };
            stage.command(tor.name(), &format!("ip {family} route show {address}"));
            stage.output(&tor.netns().ip(&format!("{family} route show {address}"))?);
        }
    }
    let tor = company.fabric.tors().first().context("no ToR")?;
    for address in ANYCAST {
        probe::ping(tor.netns(), address.parse()?)?;
        let spread = spread(tor, address.parse()?)?;
        ensure!(spread.len() == NODES.len(), "{address} is not shared by all: {spread:?}");
        let shares: Vec<_> = spread.iter().map(|(node, n)| format!("{n} {node}")).collect();
        stage.tick(&format!("{address:<15} answers; {FLOWS} flows: {}", shares.join(", ")));
    }
    Ok(())
}

/// By which interfaces the kernel of a ToR would send so many connections.
fn spread(tor: &Tor, to: IpAddr) -> Result<BTreeMap<String, usize>> {
    let mut spread = BTreeMap::new();
    for port in (1024..).take(FLOWS.into()) {
        go_on()?;
        let route = tor.netns().ip(&format!("route get {to} ipproto tcp sport {port} dport 53"))?;
        let device = route.split(" dev ").nth(1).and_then(|rest| rest.split(' ').next());
        let device = device.with_context(|| format!("no interface: {route}"))?;
        *spread.entry(device.to_owned()).or_default() += 1;
    }
    Ok(spread)
}

pub(super) fn follow_readiness(stage: &mut Stage, company: &Company) -> Result<()> {
    stage.act("One of the three is not Ready, and is withdrawn");
    let monitors = listen(company)?;
    let others: Vec<_> = NODES.into_iter().filter(|node| *node != 2).collect();
    stage.command("node-2", "mv dns-2.new DIR/pods/default.dns-2.yaml   # ready: \"false\"");
    let start = company.set_ready("dns-2", false)?;
    let mut slowest = Vec::new();
    for (tor, monitor) in company.fabric.tors().iter().zip(&monitors) {
        // Its work queue rests that long between two changes, whoever the peer is.
        let batches = tor.router.brand() == Brand::Frr;
        let remark = if batches { "; FRR itself batches for 50 ms" } else { "" };
        stage.command(tor.name(), &format!("ip monitor route   # since the rename{remark}"));
        let mut last = Duration::ZERO;
        let news = news(monitor, start, &others);
        for event in news.with_context(|| format!("in {}", tor.name()))? {
            let took = event.at - start;
            last = last.max(took);
            for (at, line) in event.lines.iter().enumerate() {
                let time = if at == 0 { shown(took) } else { String::new() };
                stage.output(&format!("{time:>9}  {}", line.replace('\t', "    ").trim_end()));
            }
        }
        slowest.push(format!("{} {}", tor.name(), shown(last)));
    }
    for address in ANYCAST {
        company.await_ways(address, &others)?;
    }
    stage.tick(&format!("from the rename to the ToR's kernel: {}", slowest.join(", ")));
    let start = company.set_ready("dns-2", true)?;
    let mut slowest = Vec::new();
    for (tor, monitor) in company.fabric.tors().iter().zip(&monitors) {
        let last = news(monitor, start, &NODES)?.iter().map(|event| event.at - start).max();
        slowest.push(format!("{} {}", tor.name(), shown(last.unwrap_or_default())));
    }
    stage.tick(&format!("Ready again, and back as a third way: {}", slowest.join(", ")));
    Ok(())
}

fn listen(company: &Company) -> Result<Vec<Monitor>> {
    company.fabric.tors().iter().map(|tor| Monitor::start(tor.netns())).collect()
}

/// The events by which the anycast addresses lead to these nodes, in their order.
fn news(monitor: &Monitor, since: Instant, nodes: &[usize]) -> Result<Vec<Event>> {
    let devices: Vec<_> = nodes.iter().map(|node| format!("node-{node}")).collect();
    let events = ANYCAST.iter().map(|address| monitor.await_ways(since, address, &devices));
    let mut events: Vec<_> = events.collect::<Result<_>>()?;
    events.sort_by_key(|event| event.at);
    Ok(events)
}

fn shown(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}
