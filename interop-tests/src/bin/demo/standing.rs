//! `make rack`: the company of the demo stands until Ctrl-C. It tells how to enter,
//! in commands that can be pasted, and then only what changes. An agent that dies is
//! started again, as a kubelet would do it.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rack::binaries;
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
    tell(stage, &mut company)?;
    watch(stage, &mut company)
}

fn tell(stage: &Stage, company: &mut Company) -> Result<()> {
    let place = |name: &str, about: &str| {
        let name = stage.paint(Tone::Bold, &format!("{name:<7}"));
        stage.line(&format!("   {name} {about}"));
    };
    stage.line("\n   It stands. In another terminal, as root:\n");
    for tor in company.fabric.tors() {
        let [v6, v4] = tor.addresses();
        place(tor.name(), &format!("{}, {v6} {v4}", console::version(&tor.router)?));
        stage.output(&format!("ip netns exec {} bash", tor.netns().name()));
        let command = console::command(&tor.router)?.join(" ");
        let question = console::summary(&tor.router);
        stage.output(&format!("{command} {question}"));
    }
    let program = binaries::flock_agent()?;
    for number in NODES {
        let node = company.fabric.node_mut(number)?;
        let [v6, v4] = Company::prefixes(number);
        let agent = node.agent()?.pid();
        place(node.name(), &format!("pods in {v6} {v4}, the agent is process {agent}"));
        stage.output(&format!("ip netns exec {} bash", node.netns().name()));
        stage.output(&format!(
            "FLOCK_ADMIN_SOCKET={} {} bgp show",
            node.admin_socket().display(),
            program.display()
        ));
        stage.output(&format!("$EDITOR {}", node.file("standalone/nodeconfig.yaml").display()));
        stage.output(&format!("tail -f {}", node.file("agent.log").display()));
    }
    place("pods", &format!("the dns ones serve {}", ANYCAST.join(" ")));
    for one in &company.pods {
        let addresses: Vec<_> = one.addresses().iter().map(ToString::to_string).collect();
        stage.output(&format!(
            "ip netns exec {:<20} bash   # {}",
            one.pod.netns.name(),
            addresses.join(" ")
        ));
    }
    hints(stage, company)
}

/// What is worth a try.
fn hints(stage: &Stage, company: &Company) -> Result<()> {
    let tor = company.fabric.tors().first().context("no ToR")?;
    let node = company.fabric.node(1)?;
    let manifest = node.file("standalone/pods/default.dns-1.yaml");
    stage.line(&format!("   {}", stage.paint(Tone::Bold, "to try")));
    for address in ANYCAST {
        let family = if address.contains(':') { "-6" } else { "-4" };
        stage.output(&format!("ip -n {} {family} route show {address}", tor.netns().name()));
    }
    stage
        .output(&format!("$EDITOR {}   # flock.fritzlab.net/ready: \"false\"", manifest.display()));
    Ok(())
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
