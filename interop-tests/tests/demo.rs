//! The demo works as it stands: every act, to the end, with nothing left behind; what documents quote
//! of it is what it says; and the rack that it leaves standing can be entered as it tells. What it shows
//! is proven in detail elsewhere; this keeps the show itself from rotting.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rack::binaries::run;
use rack::docs::documents;
use rack::docs::markdown::fences;
use rack::docs::mask::absent;
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn it_plays_to_the_end_and_says_what_documents_quote() {
    let output = Command::new(env!("CARGO_BIN_EXE_demo")).arg("--no-pause").output().unwrap();
    let (said, more) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{said}\n{more}", output.status);
    assert!(!said.contains('\x1b'), "colours only on a terminal");
    for act in
        ["are attached", "everybody", "withdrawn", "is killed", "is drained", "nothing is left"]
    {
        assert!(said.contains(act), "it says nothing of {act:?}:\n{said}");
    }
    let mut quotes = 0;
    for (path, text) in documents().unwrap() {
        for fence in fences(&text).iter().filter(|fence| fence.info == "text demo") {
            quotes += 1;
            let absent = absent(&fence.lines, &said);
            let place = format!("{}:{}", path.display(), fence.start);
            assert_eq!(absent, None, "{place}: the demo does not say that (there):\n{said}");
        }
    }
    assert!(quotes > 0, "no document quotes it");
}

#[test]
fn a_rack_that_stands_is_entered_by_the_lines_that_it_prints() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
    let mut demo = demo.arg("--stand").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told: Vec<String> = lines.by_ref().take_while(|line| !line.contains("Ctrl-C")).collect();
    let enter = |name: &str, command: &[&str]| {
        let line = told.iter().map(|line| line.trim()).find(|line| line.starts_with(name));
        let way_in = line.unwrap().split("#").next().unwrap();
        let words: Vec<_> =
            way_in.split_whitespace().skip(1).filter(|word| *word != "bash").collect();
        run(Command::new(words[0]).args(&words[1..]).args(command)).unwrap()
    };
    assert!(enter("node-1", &["flock-agent", "bgp", "show"]).contains("Established"));
    assert!(enter("tor-a", &["birdc", "show", "protocols"]).contains("Established"));
    assert!(enter("tor-b", &["vtysh", "-c", "show bgp summary"]).contains("65001"));
    assert!(enter("dns-2", &["ip", "address", "show", "dev", "lo"]).contains("192.0.2.53"));
    let pid = Pid::from_raw(i32::try_from(demo.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let end: Vec<String> = lines.collect();
    assert!(demo.wait().unwrap().success(), "{end:?}");
    assert!(end.iter().any(|line| line.contains("nothing is left behind")), "{end:?}");
}

#[test]
fn a_flag_that_is_none_is_refused_before_anything_is_built() {
    let output = Command::new(env!("CARGO_BIN_EXE_demo")).arg("--no-such-flag").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
