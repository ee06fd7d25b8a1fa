//! How long attach, retire and reap take, raw: `attach_bench [PODS]`.
//!
//! Works in namespaces of its own making (it needs root and `ip`), prints
//! medians in microseconds, and how attach grows with the pods before it.

use std::process::Command;
use std::time::{Duration, Instant};

use flock_dataplane::{Dataplane, Netns, NodeSettings, PodLink, host_ifname};

type Failure = Box<dyn std::error::Error>;

fn ip(arguments: &[&str]) -> Result<(), Failure> {
    let status = Command::new("ip").args(arguments).status()?;
    if status.success() { Ok(()) } else { Err(format!("ip {}", arguments.join(" ")).into()) }
}

fn main() -> Result<(), Failure> {
    let pods: usize = std::env::args().nth(1).map_or(Ok(200), |text| text.parse())?;
    let node = format!("fbench{}", std::process::id());
    let names: Vec<String> = (0..pods).map(|n| format!("{node}-{n}")).collect();
    ip(&["netns", "add", &node])?;
    for name in &names {
        ip(&["netns", "add", name])?;
    }
    let entered = std::thread::spawn({
        let names = names.clone();
        let node = node.clone();
        move || measure(&node, &names).map_err(|error| error.to_string())
    });
    let result = entered.join().map_err(|_| "the measuring thread ended early");
    for name in names.iter().chain([&node]) {
        ip(&["netns", "del", name])?;
    }
    Ok(result??)
}

fn measure(node: &str, names: &[String]) -> Result<(), Failure> {
    let file = std::fs::File::open(format!("/run/netns/{node}"))?;
    rustix::thread::move_into_link_name_space(
        std::os::fd::AsFd::as_fd(&file),
        Some(rustix::thread::LinkNameSpaceType::Network),
    )?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(names))
}

async fn run(names: &[String]) -> Result<(), Failure> {
    let dataplane = Dataplane::start()?;
    dataplane.prepare_node(&NodeSettings::default()).await?;
    let mut links = Vec::new();
    for (n, name) in names.iter().enumerate() {
        let n = u16::try_from(n)?;
        let [high, low] = n.to_be_bytes();
        links.push(PodLink {
            host_ifname: host_ifname(name),
            ifname: "eth0".to_owned(),
            netns: Netns::open(format!("/run/netns/{name}"))?,
            mtu: 1500,
            host_mac: None,
            pod_mac: None,
            ip6: Some(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, n)),
            ip4: Some(std::net::Ipv4Addr::new(10, 1, high, low)),
            addresses: Vec::new(),
            anycast: Vec::new(),
        });
    }
    let mut attach = Vec::new();
    for link in &links {
        let start = Instant::now();
        dataplane.attach(link.clone()).await?;
        attach.push(start.elapsed());
    }
    let mut verify = Vec::new();
    for link in &links {
        let start = Instant::now();
        let differences = dataplane.verify(link.clone()).await?;
        verify.push(start.elapsed());
        if let Some(difference) = differences.first() {
            return Err(difference.to_string().into());
        }
    }
    let mut retire = Vec::new();
    for link in &links {
        let start = Instant::now();
        dataplane.retire(&link.host_ifname, link.own_addresses().collect(), vec![]).await?;
        retire.push(start.elapsed());
    }
    let start = Instant::now();
    dataplane.reap().await?;
    let reap = start.elapsed();
    let tenth = (links.len() / 10).max(1);
    let (first, last): (Vec<_>, Vec<_>) = (
        attach.iter().take(tenth).copied().collect(),
        attach.iter().rev().take(tenth).copied().collect(),
    );
    report("attach", attach);
    report("attach, first tenth", first);
    report("attach, last tenth", last);
    report("verify", verify);
    report("retire", retire);
    eprintln!("{:24} {:>9} us in all for {}", "reap", reap.as_micros(), links.len());
    Ok(())
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times.get(times.len() * part / 100).map_or(0, Duration::as_micros);
    eprintln!("{what:24} {:>9} us median {:>9} us p90 {:>9} us p99", at(50), at(90), at(99));
}
