//! The command line as scripts have it: what is printed is what its schema says, exit codes mean one
//! thing, who cannot be asked is named, and shells complete it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rack::binaries::{self, flock_agent};
use rack::fabric::Fabric;
use rack::node::Node;
use rack::router::Brand;
use rack::schema;
use rack::wait::{PATIENCE, until};
use serde_json::Value;

/// Every command that asks, in a form that needs nobody to confirm.
const ASKING: [&[&str]; 10] = [
    &["pods"],
    &["check"],
    &["bgp", "show"],
    &["bgp", "show", "peers"],
    &["bgp", "show", "routes"],
    &["bgp", "refresh", "tor-a"],
    &["bgp", "reset", "tor-a", "--yes"],
    &["drain"],
    &["drain", "--undo"],
    &["drain", "--status"],
];

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn ask(words: &[&str], socket: &Path) -> Command {
    let mut command = Command::new(flock_agent().unwrap());
    command.args(words).env("FLOCK_ADMIN_SOCKET", socket);
    command
}

#[test]
fn what_is_printed_is_what_its_schema_says() {
    let builder = Fabric::builder().tor("tor-a", Brand::Bird).tor("tor-b", Brand::Frr);
    let mut fabric = builder.nodes(1).build().unwrap();
    let config = fabric.node_config_mut(1).unwrap();
    config["spec"]["bgp"]["announcePods"] = true.into();
    config["spec"]["bgp"]["peers"].as_array_mut().unwrap().push(serde_json::json!({
        "name": "nobody", "address": "203.0.113.77", "asn": 65009,
    }));
    fabric.configure(1).unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    let _pod = fabric.add_pod(1, "web", &[("anycast", "192.0.2.53")]).unwrap();
    let node = fabric.node(1).unwrap();
    until("routes of every kind", PATIENCE, || {
        let routes = node.cli_json(&["bgp", "show", "routes"])?;
        let is = |source: &str| {
            routes["routes"].as_array().unwrap().iter().any(|r| r["source"] == source)
        };
        anyhow::ensure!(is("local") && is("learned"), "{routes}");
        Ok(())
    })
    .unwrap();
    let table: [(&str, &[&str]); 9] = [
        ("bgp-show", &["bgp", "show"]),
        ("bgp-show-peers", &["bgp", "show", "peers"]),
        ("bgp-show-peers", &["bgp", "show", "peers", "nobody"]),
        ("bgp-show-routes", &["bgp", "show", "routes"]),
        ("bgp-show-routes", &["bgp", "show", "routes", "--advertised"]),
        ("bgp-show-routes", &["bgp", "show", "routes", "10.99.0.0/16"]),
        ("pods", &["pods"]),
        ("check", &["check"]),
        ("drain-status", &["drain", "--status"]),
    ];
    for (name, words) in table {
        let contract = schema::load(name).unwrap();
        let output =
            ask(&[words, &["-o", "json"]].concat(), &node.admin_socket()).output().unwrap();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        schema::check(&contract, &value).unwrap_or_else(|why| panic!("{words:?}: {why:#}"));
        let (_, printed, _) = run(&mut ask(&["schema", name], Path::new("/")));
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), contract, "{name}");
    }
}

#[test]
fn who_cannot_be_asked_is_named_and_the_exit_code_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("file"), "").unwrap();
    drop(UnixListener::bind(path("left")).unwrap());
    for (name, words) in
        [("nothing", "not running"), ("left", "not running"), ("file", "is not a socket")]
    {
        for command in ASKING {
            let (status, said, why) = run(&mut ask(command, &path(name)));
            assert_eq!((status, said.as_str()), (Some(2), ""), "{command:?}: {why}");
            let shown = path(name).display().to_string();
            assert!(why.contains(words) && why.contains(&shown), "{command:?}: {why}");
            assert!(why.contains("hint: "), "{command:?}: {why}");
        }
    }
}

/// Whatever answers there, in one line to each.
fn imposter(path: &Path, answer: &'static str) {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            let _ = stream.read_line(&mut line);
            let _ = stream.get_mut().write_all(answer.as_bytes());
        }
    });
}

#[test]
fn an_agent_of_another_version_is_told_apart_from_what_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let table = [
        ("newer", "{\"v\":2,\"ok\":{}}\n", 2, "speaks version 2 of the admin protocol"),
        ("older", "{\"v\":1,\"error\":\"unknown op \\\"x\\\"\"}\n", 2, "older than this command"),
        ("other", "HTTP/1.1 400 Bad Request\r\n\r\n", 2, "no flock-agent"),
        ("silent", "", 2, "went away"),
        ("refusing", "{\"v\":1,\"error\":\"not now\"}\n", 1, "the agent says: not now"),
    ];
    for (name, answer, code, words) in table {
        let socket = dir.path().join(name);
        imposter(&socket, answer);
        for command in ASKING {
            let (status, said, why) = run(&mut ask(command, &socket));
            assert_eq!((status, said.as_str()), (Some(code), ""), "{name} {command:?}: {why}");
            assert!(why.contains(words), "{name} {command:?}: {why}");
        }
    }
}

#[test]
fn only_root_may_ask_and_others_are_told() {
    const NOBODY: u32 = 65534;
    let node = Node::running().unwrap();
    for path in [node.file(""), node.file("run")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Where everybody can execute it.
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let agent = dir.path().join("flock-agent");
    fs::copy(flock_agent().unwrap(), &agent).unwrap();
    let mut command = Command::new(&agent);
    command.arg("pods").env("FLOCK_ADMIN_SOCKET", node.admin_socket()).uid(NOBODY).gid(NOBODY);
    let (status, _, why) = run(&mut command);
    assert_eq!(status, Some(2), "{why}");
    assert!(why.contains("only root may ask the agent; try again with sudo"), "{why}");
}

#[test]
fn wrong_usage_is_2_and_what_is_not_there_is_1() {
    let node = Node::running().unwrap();
    let socket = node.admin_socket();
    let table: [(&[&str], i32); 12] = [
        (&["pods"], 0),
        (&["bgp", "show", "peers"], 0),
        (&["bgp", "show", "routes", "10.99.0.0/16"], 0),
        (&["drain", "--status"], 0),
        (&["bgp", "show", "peers", "tor-x"], 1),
        (&["bgp", "show", "routes", "--peer", "tor-x"], 1),
        (&["bgp", "refresh", "tor-x"], 1),
        (&["bgp", "show", "routes", "10.0.0.1", "--longer"], 2),
        (&["bgp", "show", "routes", "nonsense"], 2),
        (&["pods", "-o", "xml"], 2),
        (&["explode"], 2),
        (&["schema", "nothing"], 2),
    ];
    for (words, code) in table {
        let (status, said, why) = run(&mut ask(words, &socket));
        assert_eq!(status, Some(code), "{words:?}: {said}{why}");
        assert_eq!(why.is_empty(), code == 0, "{words:?}: {why}");
    }
}

#[test]
fn shells_complete_it() {
    let dir = tempfile::tempdir().unwrap();
    for (shell, words) in [
        ("bash", "COMPREPLY"),
        ("zsh", "#compdef flock-agent"),
        ("fish", "complete -c flock-agent"),
    ] {
        let (status, script, why) =
            run(Command::new(flock_agent().unwrap()).args(["completions", shell]));
        assert_eq!((status, why.as_str()), (Some(0), ""), "{shell}");
        assert!(script.contains(words), "{shell}: {script}");
        fs::write(dir.path().join(shell), script).unwrap();
    }
    let script = dir.path().join("bash");
    let bash = binaries::tool("bash").unwrap();
    let (status, _, why) = run(Command::new(&bash).arg("-n").arg(&script));
    assert_eq!((status, why.as_str()), (Some(0), ""));
    // As somebody presses the key behind the last word.
    let completed = |words: &[&str]| -> Vec<String> {
        let line = format!(
            "source {script}; COMP_WORDS=({words}); COMP_CWORD={last}; \
             how=$(complete -p flock-agent); how=${{how#*-F }}; \
             ${{how%% *}} flock-agent {word:?} {before:?}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script = script.display(),
            words = words.iter().map(|word| format!("{word:?} ")).collect::<String>(),
            last = words.len() - 1,
            word = words[words.len() - 1],
            before = words[words.len() - 2],
        );
        let (status, said, why) = run(Command::new(&bash).args(["--norc", "-c", &line]));
        assert_eq!((status, why.as_str()), (Some(0), ""), "{line}");
        said.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(completed(&["flock-agent", "bgp", "sh"]), ["show"]);
    assert_eq!(completed(&["flock-agent", "bgp", "show", "ro"]), ["routes"]);
    assert_eq!(completed(&["flock-agent", "bgp", "re"]), ["refresh", "reset"]);
    assert_eq!(completed(&["flock-agent", "bgp", "show", "routes", "--adv"]), ["--advertised"]);
    assert_eq!(completed(&["flock-agent", "pods", "-o", "y"]), ["yaml"]);
    assert!(completed(&["flock-agent", ""]).contains(&"drain".to_owned()));
}
