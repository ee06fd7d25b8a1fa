//! Nothing secret is ever printed: not in the log at its most talkative, not by any command, not in
//! any file but the one that it came from.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Result, ensure};
use rack::binaries;
use rack::fabric::Fabric;
use rack::node::Node;
use rack::router::Brand;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

/// Found nowhere else by chance. Parts of them would be a leak, too.
const RIGHT: &str = "MARKER-right-zebra-4711-horse-battery";
const WRONG: &str = "MARKER-wrong-zebra-4712-staple-correct";
const INLINE: &str = "MARKER-inline-zebra-4713-hunter2";
const PARTS: [&str; 4] = ["MARKER", "zebra", "horse-battery", "hunter2"];

/// Everything that a node's files hold, but for the passwords' own.
fn files(dir: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            files(&path, found);
        } else if kind.is_file() && !path.ends_with("password") {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
}

/// Every command, in every form, whatever it answers.
fn everything_said(node: &Node) -> Vec<(String, Vec<u8>)> {
    let commands: [&[&str]; 9] = [
        &["pods"],
        &["check"],
        &["bgp", "show"],
        &["bgp", "show", "peers"],
        &["bgp", "show", "routes"],
        &["bgp", "show", "routes", "--advertised"],
        &["log-level"],
        &["drain", "--status"],
        &["bgp", "show", "peers", "tor-a"],
    ];
    let mut said = Vec::new();
    for command in commands {
        for form in ["table", "wide", "json", "yaml"] {
            let mut run = node.netns().command(binaries::flock_agent().unwrap()).unwrap();
            run.args(command).args(["-o", form]).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
            let output = run.output().unwrap();
            let what = format!("{command:?} -o {form}");
            said.push((what, [output.stdout, output.stderr].concat()));
        }
    }
    said
}

fn assert_nothing_secret(node: &Node) {
    let mut all = everything_said(node);
    files(&node.file(""), &mut all);
    assert!(all.iter().any(|(name, _)| name.ends_with("agent.log")));
    assert!(all.iter().any(|(name, _)| name.ends_with("speaker.json")));
    for (name, bytes) in &all {
        let text = String::from_utf8_lossy(bytes);
        for part in PARTS {
            if let Some(at) = text.find(part) {
                let around: String = text.chars().skip(at.saturating_sub(200)).take(400).collect();
                panic!("{name} has {part}: {around}");
            }
        }
    }
}

fn state(node: &Node) -> Result<Value> {
    Ok(node.cli_json(&["bgp", "show", "peers", "tor-a"])?["peers"][0].clone())
}

fn await_state(node: &Node, what: &str, pleases: impl Fn(&Value) -> bool) {
    until(what, PATIENCE, || {
        let row = state(node)?;
        ensure!(pleases(&row), "{row}");
        Ok(())
    })
    .unwrap();
}

fn passwords_stay_secret(format: &str) {
    let builder = Fabric::builder().tor("tor-a", Brand::Bird).nodes(1).adjust(|_, config| {
        for peer in config.peers.iter_mut().filter(|peer| peer.asn != config.asn) {
            peer.password = Some(RIGHT.to_owned());
        }
    });
    let mut fabric = builder.build().unwrap();
    let file = fabric.node(1).unwrap().file("password");
    fs::write(&file, RIGHT).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let peer = fabric.node_config_mut(1).unwrap().pointer_mut("/spec/bgp/peers/0").unwrap();
    peer["password"] = json!({ "file": file });
    fabric.configure(1).unwrap();
    let node = fabric.node_mut(1).unwrap();
    node.start_with(&[("RUST_LOG", "trace"), ("FLOCK_LOG_FORMAT", format)]).unwrap();
    node.await_ready().unwrap();
    let up = |row: &Value| row["state"] == "Established";
    await_state(node, "the session", up);
    assert_nothing_secret(node);

    // Wrong, too long, empty, and right again.
    let error =
        |row: &Value, words: &str| row["lastError"].as_str().unwrap_or_default().contains(words);
    fs::write(&file, WRONG).unwrap();
    await_state(node, "no session", |row| !up(row) && error(row, "TCP-MD5"));
    fs::write(&file, WRONG.repeat(9)).unwrap();
    await_state(node, "it is too long", |row| error(row, "longer than"));
    fs::write(&file, "").unwrap();
    await_state(node, "it is empty", |row| error(row, "is empty"));
    assert_nothing_secret(node);
    fs::write(&file, RIGHT).unwrap();
    await_state(node, "the session again", up);

    // Written into the NodeConfig by mistake, in several ways.
    let name = node.name().to_owned();
    let peers = [
        json!({ "name": "t", "address": "192.0.2.1", "asn": 65000, "password": INLINE }),
        json!({ "name": "t", "address": "192.0.2.1", "asn": 65000, "password": { "value": INLINE } }),
        json!({ "name": "t", "address": "192.0.2.1", "asn": 65000, "password": { "file": INLINE } }),
        json!({ "name": "t", "address": "192.0.2.1", "asn": 65000, "passwd": INLINE }),
    ];
    let config = fs::read(node.file("standalone/nodeconfig.yaml")).unwrap();
    for peer in peers {
        let mut bad = rack::manifests::node_config(&name, &["2001:db8:a::/64"], &[]);
        bad["spec"]["bgp"]["peers"] = json!([peer]);
        node.configure(&bad).unwrap();
        until("it to be refused", PATIENCE, || {
            let found = node.findings("NodeConfig")?;
            ensure!(found.iter().any(|one| one["status"] == "fail"), "{found:?}");
            Ok(())
        })
        .unwrap();
        // The document itself is the operator's.
        fs::write(node.file("standalone/nodeconfig.yaml"), &config).unwrap();
        assert_nothing_secret(node);
    }
    // Nor is it to be seen from outside of the process.
    let pid = node.agent().unwrap().pid();
    for name in ["cmdline", "environ"] {
        let shown = fs::read(format!("/proc/{pid}/{name}")).unwrap();
        assert!(!String::from_utf8_lossy(&shown).contains("MARKER"));
    }
}

#[test]
fn passwords_stay_secret_in_text() {
    passwords_stay_secret("text");
}

#[test]
fn passwords_stay_secret_in_json() {
    passwords_stay_secret("json");
}
