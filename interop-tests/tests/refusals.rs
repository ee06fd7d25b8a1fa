//! Bad surroundings: a full or read-only disk, a broken state file, a socket in use, a namespace
//! that is none. Each a clear error; nothing is lost, and the agent lives or says why it does not.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::fs;
use std::path::Path;

use rack::binaries;
use rack::node::{Builder, Node};
use rack::pod::{Pod, addresses};
use rack::probe::ping;

/// A small file system of its own, unmounted with the test.
struct Tmpfs {
    dir: tempfile::TempDir,
}

impl Tmpfs {
    fn new(options: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().to_str().unwrap();
        mount(&["-t", "tmpfs", "-o", options, "tmpfs", at]);
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn remount(&self, options: &str) {
        mount(&["-o", &format!("remount,{options}"), self.path().to_str().unwrap()]);
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn mount(arguments: &[&str]) {
    binaries::run(std::process::Command::new("mount").args(arguments)).unwrap();
}

fn node_on(disk: &Tmpfs) -> Node {
    let mut node = Builder::default().state_in(disk.path()).build().unwrap();
    node.start().unwrap();
    node.await_ready().unwrap();
    node
}

#[test]
fn a_full_disk_refuses_add_and_loses_nothing() {
    let disk = Tmpfs::new("size=256k");
    let node = node_on(&disk);
    let plugin = node.plugin().unwrap();
    let (first, second) = (Pod::new("first").unwrap(), Pod::new("second").unwrap());
    let result = plugin.add(&first).unwrap();
    let filler = disk.path().join("filler");
    let _full = fs::write(&filler, vec![0; 1 << 20]);

    let refusal = plugin.try_add(&second).unwrap().unwrap_err();
    assert!(
        refusal.msg.contains("allocations.json") && refusal.msg.contains("free space"),
        "{refusal}"
    );
    for address in addresses(&result).unwrap() {
        ping(node.netns(), address).unwrap();
    }
    plugin.check(&first, &result).unwrap().unwrap();
    let told = node.cli(&["check"]).unwrap_err().to_string();
    assert!(told.contains("the last write failed"), "{told}");
    let status = || node.plugin().unwrap().speaking("1.1.0").status().unwrap();
    assert_eq!(status().unwrap_err().code, 50);
    fs::remove_file(&filler).unwrap();
    status().unwrap();
    plugin.add(&second).unwrap();
    plugin.del(&first).unwrap();
    plugin.del(&second).unwrap();
    node.await_no_leftovers().unwrap();
}

#[test]
fn a_disk_that_turns_read_only_refuses_add_and_del_until_it_is_back() {
    let disk = Tmpfs::new("size=1m");
    let node = node_on(&disk);
    let plugin = node.plugin().unwrap();
    let (first, second) = (Pod::new("first").unwrap(), Pod::new("second").unwrap());
    plugin.add(&first).unwrap();
    disk.remount("ro");
    let refusal = plugin.try_add(&second).unwrap().unwrap_err();
    assert!(refusal.msg.to_lowercase().contains("read-only"), "{refusal}");
    assert!(plugin.del(&first).is_err(), "a DEL that is not durable is not answered");
    disk.remount("rw");
    plugin.add(&second).unwrap();
    plugin.del(&first).unwrap();
    plugin.del(&second).unwrap();
    node.await_no_leftovers().unwrap();
}

/// Starts an agent that must refuse, and returns what it says.
fn refused(node: &mut Node) -> String {
    node.start().unwrap();
    let status = node.agent().unwrap().await_exit().unwrap();
    assert!(!status.success(), "it exited as if all were well");
    fs::read_to_string(node.file("agent.log")).unwrap()
}

#[test]
fn a_state_file_that_is_not_ours_is_refused_and_left_as_it_is() {
    for (content, words) in [
        ("{\"version\":2,\"node\":\"n\",\"allocations\":[]}", "version"),
        ("not json at all", "allocations.json"),
        ("{\"version\":1,\"node\":\"n\",\"allocations\":[{}]}", "container_id"),
        ("", "allocations.json"),
    ] {
        let mut node = Node::new().unwrap();
        let file = node.state_dir().join("allocations.json");
        fs::write(&file, content).unwrap();
        let said = refused(&mut node);
        assert!(said.contains("allocations.json") && said.contains(words), "{content}: {said}");
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
        assert!(!node.socket().exists());
    }
}

#[test]
fn a_second_agent_on_the_same_socket_or_state_is_refused_and_the_first_lives() {
    let node = Node::running().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = node.netns().command(binaries::flock_agent().unwrap()).unwrap();
        let standalone = node.file("standalone");
        command.arg("run").arg("--standalone").arg(standalone).args(arguments);
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let path = |name: &str| elsewhere.path().join(name).to_str().unwrap().to_owned();
    let state = node.state_dir().to_str().unwrap().to_owned();
    let socket = node.socket().to_str().unwrap().to_owned();
    let said =
        run(&["--state-dir", &path("state"), "--socket", &socket, "--admin-socket", &path("a")]);
    assert!(said.contains(&socket) && said.contains("in use"), "{said}");
    let said = run(&["--state-dir", &state, "--socket", &path("s"), "--admin-socket", &path("a")]);
    assert!(said.contains(&state) && said.contains("in use"), "{said}");
    fs::write(path("file"), "x").unwrap();
    let said = run(&[
        "--state-dir",
        &path("state"),
        "--socket",
        &path("file"),
        "--admin-socket",
        &path("a"),
    ]);
    assert!(said.contains("not a socket"), "{said}");
    let pod = Pod::new("pod").unwrap();
    node.plugin().unwrap().add(&pod).unwrap();
}

#[test]
fn what_is_not_a_network_namespace_is_named() {
    let node = Node::running().unwrap();
    let plugin = node.plugin().unwrap();
    let pod = Pod::new("pod").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let fifo = dir.path().join("fifo");
    binaries::run(std::process::Command::new("mkfifo").arg(&fifo)).unwrap();
    let own = node.netns().path();
    let cases = [
        dir.path().join("missing").to_str().unwrap().to_owned(),
        file.to_str().unwrap().to_owned(),
        fifo.to_str().unwrap().to_owned(),
        "/proc/self/ns/pid".to_owned(),
        own.to_str().unwrap().to_owned(),
        String::new(),
    ];
    for path in cases {
        let mut call = pod.call("ADD");
        call.netns.clone_from(&path);
        let refusal = plugin.call(&call, &plugin.input()).unwrap().unwrap_err();
        let named = if path.is_empty() { "CNI_NETNS" } else { &path };
        assert!(refusal.msg.contains(named), "{path}: {refusal}");
        node.await_no_leftovers().unwrap();
    }
    plugin.add(&pod).unwrap();
}

#[test]
fn a_standalone_directory_that_is_not_there_is_refused() {
    let output = std::process::Command::new(binaries::flock_agent().unwrap())
        .args(["run", "--standalone", "/nonexistent/flock"])
        .arg("--state-dir")
        .arg(tempfile::tempdir().unwrap().path())
        .args(["--socket", "/nonexistent/s", "--admin-socket", "/nonexistent/a"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("/nonexistent/flock"), "{said}");
}

#[test]
fn a_missing_agent_is_told_to_the_operator() {
    for command in ["pods", "check"] {
        let output = std::process::Command::new(binaries::flock_agent().unwrap())
            .args([command, "--admin-socket", "/nonexistent/admin.sock"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(said.contains("/nonexistent/admin.sock") && said.contains("not running"), "{said}");
    }
}
