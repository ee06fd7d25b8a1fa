//! The program in the pods of `make e2e`: it serves, is Ready as it is told, and ends in its own time.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::process::{Command, Output};

use rack::netns::Netns;
use rack::process::Daemon;
use rack::wait::{PATIENCE, until};
use rustix::process::Signal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_workload");

fn ask(netns: &Netns, words: &[&str]) -> Output {
    netns.within(|| Ok(Command::new(PROGRAM).args(words).output()?)).unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn it_serves_is_ready_as_told_and_lingers() {
    let dir = tempfile::tempdir().unwrap();
    let netns = Netns::new("workload").unwrap();
    netns.loopback_up().unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--linger", "1"]).env("HOSTNAME", "web-0");
    let log = dir.path().join("log");
    let mut server = netns.within(|| Daemon::start("workload", &mut command, &log)).unwrap();
    for url in ["http://127.0.0.1:8080/", "http://[::1]:8080/"] {
        until("an answer", PATIENCE, || {
            let said = text(&ask(&netns, &["get", url]));
            anyhow::ensure!(said.contains(r#""pod":"web-0""#), "{said}");
            Ok(())
        })
        .unwrap();
    }
    let ready =
        |netns: &Netns| ask(netns, &["get", "http://127.0.0.1:8080/readyz"]).status.success();
    assert!(ready(&netns));
    let unready = ask(&netns, &["post", "http://127.0.0.1:8080/ready?value=false"]);
    assert!(unready.status.success() && text(&unready).contains("false"));
    assert!(!ready(&netns));
    assert!(ask(&netns, &["get", "http://127.0.0.1:8080/healthz"]).status.success());
    ask(&netns, &["post", "http://127.0.0.1:8080/ready?value=true"]);
    server.signal(Signal::TERM).unwrap();
    until("the last words", PATIENCE, || {
        let log = std::fs::read_to_string(&log)?;
        anyhow::ensure!(log.contains("asked to end"), "{log}");
        Ok(())
    })
    .unwrap();
    assert!(ready(&netns), "it serves on");
    assert!(server.await_exit().unwrap().success());
    assert!(!ready(&netns), "nobody is there any more");
}

#[test]
fn what_is_not_understood_is_named() {
    let said = Command::new(PROGRAM).args(["serve", "--porter", "1"]).output().unwrap();
    assert!(!said.status.success());
    assert!(String::from_utf8_lossy(&said.stderr).contains("--porter"));
}
