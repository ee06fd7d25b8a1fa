//! Runs the real plugin as a runtime does, and stands in for the agent.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test support: each test file uses its part, and a failure should be loud"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flock_cni::Request;
use serde_json::{Value, json};

/// What an execution of the plugin gave.
#[derive(Debug)]
pub struct Outcome {
    pub status: i32,
    pub stdout: String,
    pub took: Duration,
}

impl Outcome {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not JSON ({error}): {self:?}"))
    }

    /// Success that prints nothing.
    pub fn assert_silent(&self) {
        assert_eq!((self.status, self.stdout.as_str()), (0, ""), "{self:?}");
    }

    /// Failure with this code, told in JSON as the spec wants it.
    pub fn assert_code(&self, code: u64) -> Value {
        let json = self.json();
        assert_eq!(self.status, 1, "{self:?}");
        assert_eq!(json["code"], code, "{self:?}");
        assert!(json["msg"].as_str().is_some_and(|msg| !msg.is_empty()), "{self:?}");
        assert!(json["cniVersion"].as_str().is_some_and(|v| !v.is_empty()), "{self:?}");
        json
    }
}

/// One execution, with all that a runtime gives; each part can be changed.
pub struct Plugin {
    command: Command,
    stdin: Vec<u8>,
}

impl Plugin {
    pub fn new(verb: &str, stdin: impl Into<Vec<u8>>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flock"));
        command
            .env_clear()
            .env("CNI_COMMAND", verb)
            .env("CNI_CONTAINERID", "c0ffee")
            .env("CNI_NETNS", "/proc/self/ns/net")
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", "/opt/cni/bin");
        Self { command, stdin: stdin.into() }
    }

    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn unset(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub fn named(mut self, name: &str) -> Self {
        self.command.arg0(name);
        self
    }

    pub fn arg(mut self, argument: &str) -> Self {
        self.command.arg(argument);
        self
    }

    pub fn stdout(mut self, file: std::fs::File) -> i32 {
        let mut child =
            self.command.stdin(Stdio::piped()).stdout(file).stderr(Stdio::null()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(&self.stdin);
        child.wait().unwrap().code().expect("killed by a signal")
    }

    pub fn run(mut self) -> Outcome {
        let started = Instant::now();
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may have seen enough before it has read all.
        let _ = child.stdin.take().unwrap().write_all(&self.stdin);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("panicked"), "{stderr}");
        Outcome {
            status: output.status.code().expect("killed by a signal"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            took: started.elapsed(),
        }
    }
}

/// A directory for one test, with a socket and a spool to be.
pub struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("flock.sock")
    }

    pub fn spool(&self) -> PathBuf {
        self.dir.path().join("state/spool")
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A network config that leads here.
    pub fn conf(&self, version: &str) -> Value {
        json!({
            "cniVersion": version,
            "name": "pods",
            "type": "flock",
            "socket": self.socket(),
            "spool": self.spool(),
        })
    }

    /// A plugin whose config leads here.
    pub fn plugin(&self, verb: &str, version: &str) -> Plugin {
        Plugin::new(verb, self.conf(version).to_string())
    }

    /// An agent that takes one call: `behave` gets the request and the connection.
    pub fn agent(
        &self,
        behave: impl FnOnce(Request, UnixStream) + Send + 'static,
    ) -> JoinHandle<()> {
        let listener = UnixListener::bind(self.socket()).unwrap();
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut line = Vec::new();
            BufReader::new(&stream).read_until(b'\n', &mut line).unwrap();
            behave(Request::decode(&line).unwrap(), stream);
        })
    }

    /// An agent that answers one call with these bytes.
    pub fn agent_saying(&self, answer: impl Into<Vec<u8>>) -> JoinHandle<()> {
        let answer = answer.into();
        self.agent(move |_, mut stream| {
            let _ = stream.write_all(&answer);
        })
    }
}

/// An answer to ADD as the agent gives it.
pub fn sample_answer() -> Value {
    json!({ "result": {
        "cniVersion": "1.0.0",
        "interfaces": [
            { "name": "flock0badcafe", "mac": "02:00:00:00:00:01", "mtu": 9000 },
            { "name": "eth0", "mac": "02:00:00:00:00:02", "mtu": 9000, "sandbox": "/run/netns/a" },
        ],
        "ips": [
            { "address": "2001:db8::7/128", "gateway": "fe80::1", "interface": 1 },
            { "address": "10.244.1.7/32", "gateway": "169.254.1.1", "interface": 1 },
        ],
        "routes": [{ "dst": "::/0", "gw": "fe80::1" }, { "dst": "169.254.1.1/32" }],
        "dns": { "nameservers": ["10.96.0.10"] },
    }})
}

pub fn line(value: &Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}
