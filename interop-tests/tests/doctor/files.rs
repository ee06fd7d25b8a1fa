//! Files: modes, owners, room, the runtime's own, and times to come.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rack::binaries;
use rack::manifests::node_config;
use rack::node::{Builder, Node, OUTSIDE_V4, POD_CIDR4, POD_CIDR6};
use rack::pod::Pod;
use serde_json::{Value, json};

use super::scene::{await_found, await_well};

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_others_may_read_or_write() {
    let node = Node::running().unwrap();
    node.plugin().unwrap().add(&Pod::new("pod").unwrap()).unwrap();
    let state = node.state_dir().join("allocations.json");
    let places = [
        ("CNI socket", node.socket(), 0o666, 0o600),
        ("admin socket", node.admin_socket(), 0o660, 0o600),
        ("state directory", node.state_dir().to_owned(), 0o777, 0o700),
        ("state file", state, 0o644, 0o600),
        ("spool", node.spool(), 0o777, 0o755),
    ];
    for (name, path, bad, good) in places {
        mode(&path, bad);
        let found = format!("{} has mode {bad:04o}", path.display());
        await_found(&node, name, "fail", &found, "chmod 0");
        mode(&path, good);
        std::os::unix::fs::chown(&path, Some(4242), None).unwrap();
        await_found(&node, name, "fail", "belongs to uid 4242", "chown 0:0");
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    }
    fs::remove_file(node.socket()).unwrap();
    fs::write(node.socket(), "").unwrap();
    await_found(&node, "CNI socket", "fail", "is not a socket", "restart the agent");
}

#[test]
fn a_password_that_everybody_may_read() {
    let node = Node::running().unwrap();
    let file = node.file("password");
    fs::write(&file, "a password").unwrap();
    mode(&file, 0o644);
    let mut config = node_config(node.name(), &[POD_CIDR6], &[POD_CIDR4]);
    config["spec"]["bgp"]["peers"] = json!([{
        "name": "tor", "address": OUTSIDE_V4, "asn": 65000, "password": { "file": file },
    }]);
    node.configure(&config).unwrap();
    await_found(&node, "password file", "warn", "everybody may read it", "chmod 0600");
    fs::remove_file(&file).unwrap();
    await_found(&node, "BGP peer", "fail", "No such file", "write the password");
}

/// A small file system, unmounted with the test.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new(options: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir.path());
        binaries::run(&mut mount).unwrap();
        Self(dir)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_fills() {
    let disk = Tmpfs::new("size=20m");
    let mut node = Builder::default().state_in(disk.0.path()).build().unwrap();
    node.start().unwrap();
    node.await_ready().unwrap();
    await_well(&node);
    let filler = disk.0.path().join("filler");
    fs::write(&filler, vec![0; 8 << 20]).unwrap();
    await_found(&node, "disk space", "warn", "of 20 MiB are free", "free space");
    let _full = fs::write(&filler, vec![0; 21 << 20]);
    node.plugin().unwrap().try_add(&Pod::new("pod").unwrap()).unwrap().unwrap_err();
    await_found(&node, "state file", "fail", "the last write failed", "free space");
    fs::remove_file(&filler).unwrap();
    await_well(&node);
}

#[test]
fn a_state_file_of_tomorrow() {
    let node = Node::running().unwrap();
    node.plugin().unwrap().add(&Pod::new("pod").unwrap()).unwrap();
    let state = File::options().write(true).open(node.state_dir().join("allocations.json"));
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    state.unwrap().set_modified(tomorrow).unwrap();
    await_found(&node, "clock", "warn", "which is to come", "set the clock");
}

#[test]
fn a_spool_that_cannot_be_emptied() {
    let node = Node::running().unwrap();
    fs::remove_dir_all(node.spool()).unwrap();
    fs::write(node.spool(), "in the way").unwrap();
    await_found(&node, "spool", "fail", "is not a directory", "restart the agent");
}

/// What the runtime reads: each trouble, and what it is mended by.
#[test]
fn the_runtimes_files() {
    let dir = tempfile::tempdir().unwrap();
    let (bin, conf) = (dir.path().join("bin"), dir.path().join("conf"));
    fs::create_dir_all(&bin).unwrap();
    fs::copy(binaries::reference_plugin("portmap").unwrap(), bin.join("portmap")).unwrap();
    let places = format!("{}:{}", bin.display(), conf.display());
    let mut node = Node::new().unwrap();
    node.start_with(&[("FLOCK_INSTALL_CNI", &places)]).unwrap();
    node.await_ready().unwrap();
    await_well(&node);

    let list = conf.join("01-flock.conflist");
    let (text, plugin) = (fs::read(&list).unwrap(), fs::read(bin.join("flock")).unwrap());
    let ours: Value = serde_json::from_slice(&text).unwrap();
    let rewritten = |change: &dyn Fn(&mut Value)| {
        let mut ours = ours.clone();
        change(&mut ours);
        fs::write(&list, ours.to_string()).unwrap();
    };
    let found = |check, status, words, remedy| await_found(&node, check, status, words, remedy);

    fs::write(conf.join("00-other.conf"), "{}").unwrap();
    found("conflist", "fail", "00-other.conf comes before", "remove");
    fs::remove_file(conf.join("00-other.conf")).unwrap();
    rewritten(&|ours| ours["plugins"][0]["socket"] = json!("/elsewhere.sock"));
    found("conflist", "fail", "names the socket \"/elsewhere.sock\"", "writes");
    rewritten(&|ours| ours["plugins"] = json!([{ "type": "ptp" }]));
    found("conflist", "fail", "does not begin with the plugin flock", "writes");
    found("conflist", "fail", "names the plugin ptp, which is not there", "put ptp into");
    rewritten(&|ours| drop(ours["plugins"].as_array_mut().unwrap().pop()));
    found("conflist", "warn", "hostPort has no effect", "writes");
    fs::write(&list, "{").unwrap();
    found("conflist", "fail", "cannot be read", "writes");
    fs::remove_file(&list).unwrap();
    found("conflist", "warn", "is not there", "restart the agent");
    fs::write(&list, &text).unwrap();

    fs::remove_file(bin.join("loopback")).unwrap();
    found("plugin", "fail", "loopback is not there", "flock-agent install");
    fs::write(bin.join("loopback"), &plugin).unwrap();
    found("plugin", "fail", "loopback cannot be executed", "chmod 0755");
    mode(&bin.join("loopback"), 0o755);
    fs::write(bin.join("flock"), [&plugin[..], b"older"].concat()).unwrap();
    found("plugin", "warn", "another version", "flock-agent install");
    fs::write(bin.join("flock"), &plugin).unwrap();
    await_well(&node);
}

#[test]
fn without_an_agent_the_exit_status_is_another() {
    let node = Node::new().unwrap();
    let mut command = node.netns().command(binaries::flock_agent().unwrap()).unwrap();
    command.arg("check").env("FLOCK_ADMIN_SOCKET", node.admin_socket());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
