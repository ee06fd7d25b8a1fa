//! Every command's table and JSON against a live rack, to the letter but for clocks and what is drawn
//! at random (`rack::docs::mask`). The files under `golden_cli/` are what a script or a person gets;
//! `FLOCK_WRITE_GOLDEN=1` writes them anew, and the difference is what to review.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rack::binaries::flock_agent;
use rack::docs::mask::{difference, masked};
use rack::fabric::{Fabric, PodOnNode};
use rack::node::Node;
use rack::router::Brand;
use rack::wait::{PATIENCE, until};
use serde_json::json;

/// What is asked, and the name of its file.
const ASKED: [(&str, &str); 31] = [
    ("bgp-show", "bgp show"),
    ("bgp-show.json", "bgp show -o json"),
    ("peers", "bgp show peers"),
    ("peers-wide", "bgp show peers -o wide"),
    ("peers.json", "bgp show peers -o json"),
    ("peer-up", "bgp show peers tor-a"),
    ("peer-down", "bgp show peers withheld"),
    ("peer-up.json", "bgp show peers tor-a -o json"),
    ("routes", "bgp show routes"),
    ("routes-wide", "bgp show routes -o wide"),
    ("routes.json", "bgp show routes -o json"),
    ("routes.yaml", "bgp show routes -o yaml"),
    ("routes-originated", "bgp show routes --originated"),
    ("routes-received", "bgp show routes --received --peer tor-a"),
    ("routes-advertised", "bgp show routes --advertised"),
    ("routes-advertised.json", "bgp show routes --advertised --peer tor-b -o json"),
    ("routes-longer", "bgp show routes 192.0.2.0/24 --longer"),
    ("routes-of-address", "bgp show routes 10.244.1.77"),
    ("explain-summary", "bgp explain 10.244.1.0/24"),
    ("explain-anycast", "bgp explain 192.0.2.53"),
    ("explain-anycast.json", "bgp explain 192.0.2.53 -o json"),
    ("explain-not-ready", "bgp explain 192.0.2.54"),
    ("explain-learned", "bgp explain 0.0.0.0/0"),
    ("explain-learned.json", "bgp explain 0.0.0.0/0 -o json"),
    ("explain-peer", "bgp explain 192.0.2.53 --peer withheld"),
    ("pods", "pods"),
    ("pods-wide", "pods -o wide"),
    ("pods.json", "pods -o json"),
    ("check", "check"),
    ("drain-status.json", "drain --status -o json"),
    ("log-level.json", "log-level -o json"),
];

/// Two ToRs, and a peer that is never dialled because its password is missing; pods whose addresses
/// are given, one of them not Ready.
fn company() -> (Fabric, Vec<PodOnNode>) {
    let builder = Fabric::builder().tor("tor-a", Brand::Bird).tor("tor-b", Brand::Bird);
    let mut fabric = builder.nodes(1).build().unwrap();
    let bgp = &mut fabric.node_config_mut(1).unwrap()["spec"]["bgp"];
    bgp["communities"] = json!(["65001:100", "65001:1:2"]);
    bgp["peers"].as_array_mut().unwrap().push(json!({
        "name": "withheld",
        "address": "203.0.113.77",
        "asn": 65009,
        "families": ["ipv4-unicast"],
        "password": { "file": "/nonexistent/password" },
    }));
    fabric.configure(1).unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    let pod = |name: &str, last: u8, annotations: &[(&str, &str)]| {
        let addresses = format!("2001:db8:0:1::{last},10.244.1.{last}");
        fabric.add_pod(1, name, &[&[("addresses", addresses.as_str())], annotations].concat())
    };
    let pods = vec![
        pod("web-0", 10, &[]).unwrap(),
        pod("dns-0", 11, &[("anycast", "2001:db8:53::53,192.0.2.53")]).unwrap(),
        pod("dns-1", 12, &[("anycast", "192.0.2.53")]).unwrap(),
        pod("dns-2", 13, &[("anycast", "192.0.2.54"), ("ready", "false")]).unwrap(),
    ];
    (fabric, pods)
}

/// What names this very rack, by what stands for it in the files.
struct Names(Vec<(String, String)>);

impl Names {
    fn of(node: &Node, pods: &[PodOnNode]) -> Self {
        let shown = |path: &Path| path.display().to_string();
        let ids = pods
            .iter()
            .map(|pod| (pod.pod.container_id.clone(), format!("CONTAINER-OF-{}", pod.pod.name)));
        let places = [
            (shown(node.state_dir()), "STATE".to_owned()),
            (shown(&node.file("")).trim_end_matches('/').to_owned(), "NODE".to_owned()),
        ];
        Self(ids.chain(places).collect())
    }

    /// A text without what differs from rack to rack and from second to second.
    fn plain(&self, text: &str) -> String {
        let named =
            self.0.iter().fold(text.to_owned(), |text, (own, name)| text.replace(own, name));
        let lines = named.lines().filter(|line| !is_of_the_machine(line));
        lines.map(|line| masked(line) + "\n").collect()
    }
}

/// What `check` finds of the machine that the rack stands on, and how much that is.
fn is_of_the_machine(line: &str) -> bool {
    let machine = ["sysctl ", "kernel feature ", "disk space ", "clock ", "limits "];
    machine.iter().any(|check| line.starts_with(check)) || line.ends_with(" well.")
}

fn asked(node: &Node, words: &str) -> Result<String> {
    let mut command = node.netns().command(flock_agent()?)?;
    command.args(words.split(' ')).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
    let output = command.output()?;
    // `check` may find something worth a look; what it found is what is compared.
    ensure!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_cli").join(name)
}

#[test]
fn every_command_says_what_it_said() {
    let (fabric, pods) = company();
    let node = fabric.node(1).unwrap();
    let names = Names::of(node, &pods);
    if std::env::var_os("FLOCK_WRITE_GOLDEN").is_some() {
        fs::create_dir_all(file("")).unwrap();
        // What is still on its way has come by then.
        std::thread::sleep(std::time::Duration::from_secs(8));
        for (name, words) in ASKED {
            fs::write(file(name), names.plain(&asked(node, words).unwrap())).unwrap();
        }
        return;
    }
    for (name, words) in ASKED {
        let wanted = fs::read_to_string(file(name)).with_context(|| format!("no {name}")).unwrap();
        until(&format!("flock-agent {words} to say what {name} has"), PATIENCE, || {
            let said = names.plain(&asked(node, words)?);
            ensure!(said == wanted, "{}", difference(&lines(&wanted), &lines(&said)));
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn every_file_is_of_a_command_that_is_asked() {
    let mut there: Vec<String> = fs::read_dir(file(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.sort();
    let mut wanted: Vec<&str> = ASKED.iter().map(|(name, _)| *name).collect();
    wanted.sort_unstable();
    assert_eq!(there, wanted);
}
