//! `make rack`: the company of the demo stands until Ctrl-C. It tells how to enter,
//! in commands that can be pasted, and then only what changes. An agent that dies is
//! started again, as a kubelet would do it.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rack::place::Place;
use rack::wait::{go_on, interrupted};
use serde_json::Value;

use crate::company::{ANYCAST, Company, NODES};
use crate::console;
use crate::stage::{Stage, Tone};

/// How often a look is taken.
const EVERY: Duration = Duration::from_secs(2);

/// Builds the rack and keeps it; ends by an interruption alone.
pub(crate) fn stand(stage: &Stage) -> Result<()> {
    stage.title("flock", "a rack to look around in");
    stage.line("   building two ToRs, three nodes, six pods ...");
    let mut company = Company::build()?;
    company.start()?;
    company.speak()?;
    for node in NODES {
        for name in ["web", "dns"] {
            company.attach(node, &format!("{name}-{node}"))?;
        }
    }
    for address in ANYCAST {
        company.await_ways(address, &NODES)?;
    }
    // Dropped before the company, which they are places of.
    let places = company.fabric.places(&company.pods)?;
    tell(stage, &mut company, &places)?;
    watch(stage, &mut company)
}

fn tell(stage: &Stage, company: &mut Company, places: &[Place]) -> Result<()> {
    let way_in = |name: &str| -> Result<String> {
        let place = places.iter().find(|place| place.name() == name);
        Ok(place.with_context(|| format!("no place {name}"))?.way_in())
    };
    let line = |name: &str, way_in: &str, about: &str| {
        let name = stage.paint(Tone::Bold, &format!("{name:<7}"));
        stage.line(&format!("   {name} {way_in}   {}", stage.paint(Tone::Faint, about)));
    };
    stage.line("\n   It stands. Each line leads into one of them, in another terminal, as root:\n");
    for tor in company.fabric.tors() {
        let about = format!("# {}: {}", console::version(&tor.router)?, console::hint(&tor.router));
        line(tor.name(), &way_in(tor.name())?, &about);
    }
    for number in NODES {
        let node = company.fabric.node_mut(number)?;
        let about = format!(
            "# agent: process {}, {}",
            node.agent()?.pid(),
            node.file("agent.log").display()
        );
        line(node.name(), &way_in(node.name())?, &about);
    }
    for one in &company.pods {
        let node = way_in(&format!("node-{}", one.node))?;
        let way_in = format!("{node} ip netns exec {} bash", one.pod.name);
        let addresses: Vec<_> = one.addresses().iter().map(ToString::to_string).collect();
        line(&one.pod.name, &way_in, &format!("# {}", addresses.join(" ")));
    }
    hints(stage);
    Ok(())
}

/// What is worth a try.
fn hints(stage: &Stage) {
    stage.line(&format!("\n   {}", stage.paint(Tone::Bold, "to try, as docs/tour.md does")));
    let [v6, v4] = ANYCAST;
    for (place, command) in [
        ("node-1", "flock-agent bgp show".to_owned()),
        ("node-1", "flock-agent bgp show routes".to_owned()),
        ("node-1", "$EDITOR /etc/flock/nodeconfig.yaml".to_owned()),
        (
            "node-1",
            "$EDITOR /etc/flock/pods/default.dns-1.yaml   # flock.fritzlab.net/ready: \"false\""
                .to_owned(),
        ),
        ("tor-a", format!("ip -6 route show {v6}; ip -4 route show {v4}")),
    ] {
        stage.command(place, &command);
    }
}

/// Tells what changes, until the end.
fn watch(stage: &Stage, company: &mut Company) -> Result<()> {
    stage.line("\n   Ctrl-C takes everything down. What changes is told here.");
    let start = Instant::now();
    let mut known = look(company)?;
    loop {
        let next = Instant::now() + EVERY;
        while Instant::now() < next && !interrupted() {
            thread::sleep(Duration::from_millis(20));
        }
        go_on()?;
        let told =
            |text: &str| stage.line(&format!("   +{:>4} s  {text}", start.elapsed().as_secs()));
        for number in NODES {
            let node = company.fabric.node_mut(number)?;
            if node.agent()?.ensure_alive().is_err() {
                node.kill()?;
                node.start()?;
                let agent = node.agent()?.pid();
                told(&format!("{}: the agent is gone; process {agent} follows", node.name()));
            }
        }
        let now = look(company)?;
        for (what, state) in &now {
            let before = known.get(what).map_or("-", String::as_str);
            if before != state {
                told(&format!("{what}: {before} -> {state}"));
            }
        }
        for what in known.keys().filter(|what| !now.contains_key(*what)) {
            told(&format!("{what}: gone"));
        }
        known = now;
    }
}

/// The sessions and the pods of all nodes, each with how it is.
fn look(company: &Company) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for number in NODES {
        go_on()?;
        let node = company.fabric.node(number)?;
        // An agent that cannot be asked just now is asked again soon.
        let list = |question: &[&str], key: &str| {
            let answer = node.cli_json(question).ok();
            answer.and_then(|mut answer| answer.get_mut(key).map(Value::take))
        };
        let word = |entry: &Value, key: &str| {
            entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        for peer in list(&["bgp", "show", "peers"], "peers").iter().flat_map(items) {
            all.insert(
                format!("{}, session with {}", node.name(), word(peer, "name")),
                word(peer, "state"),
            );
        }
        for pod in list(&["pods"], "pods").iter().flat_map(items) {
            let ready = pod.get("ready").and_then(Value::as_bool).unwrap_or_default();
            all.insert(
                format!("{}, pod {}", node.name(), word(pod, "name")),
                if ready { "ready" } else { "not ready" }.to_owned(),
            );
        }
    }
    Ok(all)
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}
