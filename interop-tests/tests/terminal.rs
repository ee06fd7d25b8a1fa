//! A person's session at a real terminal, narrow and wide, with colours and without, piped and not:
//! nothing wraps badly, nothing flickers, nothing is coloured where nobody looks.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use anyhow::ensure;
use rack::fabric::{Fabric, PodOnNode};
use rack::router::Brand;
use rack::terminal::Terminal;
use rack::wait::{PATIENCE, until};

const NARROW: (usize, usize) = (80, 24);
const WIDE: (usize, usize) = (200, 50);

/// Two ToRs, a node, a pod that serves an anycast address and one that does not yet.
fn company() -> (Fabric, Vec<PodOnNode>) {
    let builder = Fabric::builder().tor("tor-a", Brand::Bird).tor("tor-b", Brand::Frr);
    let mut fabric = builder.nodes(1).build().unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    let anycast = ("anycast", "2001:db8:53::53,192.0.2.53");
    let pods = vec![
        fabric.add_pod(1, "web-0", &[]).unwrap(),
        fabric.add_pod(1, "dns-0", &[anycast]).unwrap(),
        fabric.add_pod(1, "dns-1", &[anycast, ("ready", "false")]).unwrap(),
    ];
    (fabric, pods)
}

/// What a person types in a first quarter of an hour, and how each ends. The last column: whether it
/// is for eyes, and so has to fit; JSON and the widest tables are as wide as they are.
const SESSION: [(&str, i32, bool); 27] = [
    ("flock-agent --help", 0, true),
    ("flock-agent run --help", 0, true),
    ("flock-agent bgp --help", 0, true),
    ("flock-agent bgp show --help", 0, true),
    ("flock-agent bgp show routes --help", 0, true),
    ("flock-agent bgp reset --help", 0, true),
    ("flock-agent drain --help", 0, true),
    ("flock-agent check --help", 0, true),
    ("flock-agent bgp show", 0, true),
    ("flock-agent bgp show peers", 0, true),
    ("flock-agent bgp show peers tor-b", 0, true),
    ("flock-agent bgp show routes", 0, true),
    ("flock-agent bgp show routes --advertised", 0, true),
    ("flock-agent bgp show routes --received --peer tor-b", 0, true),
    ("flock-agent bgp show routes -o wide", 0, false),
    ("flock-agent bgp show routes ::/0 -o yaml", 0, false),
    ("flock-agent bgp explain 2001:db8:53::53", 0, true),
    ("flock-agent bgp explain ::/0", 0, true),
    ("flock-agent bgp explain 203.0.113.77 --peer tor-a", 0, true),
    ("flock-agent pods", 0, true),
    ("flock-agent pods -o wide", 0, false),
    ("flock-agent check", 0, true),
    ("flock-agent bgp show peers -o json", 0, false),
    ("flock-agent bgp show peers tor-x", 1, true),
    ("flock-agent bgp show routes 10.0.0.1/8", 2, true),
    ("flock-agent bgp shwo", 2, true),
    ("flock-agent pods --admin-socket /nowhere", 2, true),
];

/// Long output of a command that is for eyes breaks at words: no line is longer than the terminal.
fn plays_well(terminal: &Terminal) {
    for (line, code, fits) in SESSION {
        let shown = terminal.run(line).unwrap();
        assert_eq!(shown.code, code, "{line}\n{}", shown.text());
        assert!(!shown.lines.is_empty(), "{line} says nothing");
        let broken = terminal.broken().unwrap();
        assert!(!fits || broken.is_empty(), "{line}: {} columns: {broken:#?}", terminal.columns);
    }
}

#[test]
fn a_session_on_eighty_columns_and_on_two_hundred() {
    let (fabric, _pods) = company();
    let node = fabric.node(1).unwrap();
    for size in [NARROW, WIDE] {
        plays_well(&Terminal::for_operator(node, size, &[]).unwrap());
    }
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let (fabric, _pods) = company();
    let node = fabric.node(1).unwrap();
    let commands = ["flock-agent bgp show", "flock-agent pods", "flock-agent check"];
    let painted = |more: &[(&str, &str)], suffix: &str| -> Vec<bool> {
        let terminal = Terminal::for_operator(node, WIDE, more).unwrap();
        let colours = |line: &&str| {
            // tmux itself paints nothing of the prompt.
            terminal.run(&format!("{line}{suffix}")).unwrap();
            terminal.painted().unwrap().contains("\x1b[3")
        };
        commands.iter().map(colours).collect()
    };
    assert_eq!(painted(&[], ""), [true; 3], "on a terminal");
    assert_eq!(painted(&[("NO_COLOR", "1")], ""), [false; 3], "who wants none gets none");
    assert_eq!(painted(&[("NO_COLOR", "")], ""), [true; 3], "an empty word says nothing");
    assert_eq!(painted(&[], " | cat"), [false; 3], "in a pipe");
}

/// Whether a screen is a whole frame of `bgp show --watch`.
fn is_whole(screen: &str) -> bool {
    let lines = ["flock-agent bgp show", "Node:", "Routes:", "PEER ", "tor-a ", "tor-b "];
    lines.iter().all(|line| screen.contains(line))
}

#[test]
fn what_is_watched_is_whole_at_every_moment_and_leaves_the_terminal_in_order() {
    let (fabric, _pods) = company();
    let node = fabric.node(1).unwrap();
    let terminal = Terminal::for_operator(node, NARROW, &[]).unwrap();
    terminal.record().unwrap();
    terminal.enter("flock-agent bgp show --watch").unwrap();
    until("the first frame", PATIENCE, || {
        let screen = terminal.screen()?;
        ensure!(is_whole(&screen), "it shows:\n{screen}");
        Ok(())
    })
    .unwrap();
    let mut clocks = std::collections::BTreeSet::new();
    until("a few frames", PATIENCE, || {
        let screen = terminal.screen()?;
        assert!(is_whole(&screen), "a part of a frame:\n{screen}");
        clocks.extend(screen.lines().next().map(str::to_owned));
        ensure!(clocks.len() > 3, "only {clocks:?}");
        Ok(())
    })
    .unwrap();

    // Something happens: it is seen, and the frame is whole all the time.
    node.cli(&["bgp", "reset", "tor-a", "--yes", "--message", "a test of the watch"]).unwrap();
    until("the reset on the screen", PATIENCE, || {
        let screen = terminal.screen()?;
        assert!(is_whole(&screen), "a part of a frame:\n{screen}");
        let peer = screen.lines().find(|line| line.starts_with("tor-a ")).unwrap_or_default();
        ensure!(!peer.contains("Established"), "it shows:\n{screen}");
        Ok(())
    })
    .unwrap();

    // Too small for everything: cropped, not scrolled, and it says so.
    terminal.resize(60, 6).unwrap();
    until("a smaller frame", PATIENCE, || {
        let screen = terminal.screen()?;
        ensure!(screen.contains("flock-agent bgp show") && !screen.contains("tor-b "), "{screen}");
        ensure!(screen.contains("more"), "it does not say that there is more:\n{screen}");
        Ok(())
    })
    .unwrap();
    terminal.resize(NARROW.0, NARROW.1).unwrap();
    terminal.await_screen("all peers", |screen| screen.contains("tor-b ")).unwrap();

    terminal.keys(&["C-c"]).unwrap();
    assert_eq!(terminal.await_prompt().unwrap(), 130);
    let bytes = terminal.recorded().unwrap();
    assert!(!bytes.contains("\x1b[2J"), "the screen is cleared before it is drawn: that flickers");
    let hidden = bytes.matches("\x1b[?25l").count();
    assert!(hidden > 0, "the cursor is hidden meanwhile");
    assert!(terminal.has_cursor().unwrap(), "and given back");
}
