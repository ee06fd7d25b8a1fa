//! A drain as an operator sees it.

use std::cell::RefCell;
use std::future::pending;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::follow::{Progress, watch};
use super::*;
use crate::cli::bgp::PeerState;
use crate::cli::desk;

fn status(state: DrainState, seconds_left: Option<u64>, sessions: &[PeerState]) -> DrainStatus {
    let session = |(at, state): (usize, &PeerState)| DrainSession {
        peer: format!("tor-{at}"),
        state: *state,
    };
    DrainStatus {
        state,
        since: Some("2025-01-02T03:04:05Z".into()),
        seconds_left,
        sessions: sessions.iter().enumerate().map(session).collect(),
    }
}

/// What is printed of these, one a second, and how it ends.
async fn watched(
    terminal: bool,
    interrupt: impl Future<Output = ()>,
    statuses: Vec<anyhow::Result<DrainStatus>>,
) -> (String, anyhow::Result<Ended>) {
    let printed = RefCell::new(String::new());
    let statuses = RefCell::new(statuses.into_iter());
    let begun = statuses.borrow_mut().next().unwrap().unwrap();
    let ended = {
        let progress = Progress::new(terminal, |text: &str| {
            printed.borrow_mut().push_str(text);
            Ok(())
        });
        let ask_again = async || statuses.borrow_mut().next().unwrap();
        watch(begun, ask_again, interrupt, progress).await
    };
    (printed.into_inner(), ended)
}

fn a_drain() -> Vec<anyhow::Result<DrainStatus>> {
    use PeerState::{Established, Idle};
    vec![
        Ok(status(DrainState::Draining, Some(2), &[Established, Established])),
        Ok(status(DrainState::Draining, Some(1), &[Established, Established])),
        Ok(status(DrainState::Draining, Some(0), &[Established, Idle])),
        Ok(status(DrainState::Draining, None, &[Established, Idle])),
        Ok(status(DrainState::Drained, None, &[Idle, Idle])),
    ]
}

#[tokio::test(start_paused = true)]
async fn in_a_pipe_a_line_is_an_event() {
    let (printed, ended) = watched(false, pending(), a_drain()).await;
    assert_eq!(ended.unwrap(), Ended::Done);
    assert_eq!(
        printed,
        "\
draining: routes are withdrawn in 2s; 2 of 2 sessions up
draining: routes are withdrawn in 0s; 1 of 2 sessions up
draining: 1 of 2 sessions up
drained: 0 of 2 sessions up
"
    );
}

#[tokio::test(start_paused = true)]
async fn on_a_terminal_one_line_is_written_over() {
    let (printed, ended) = watched(true, pending(), a_drain()).await;
    assert_eq!(ended.unwrap(), Ended::Done);
    assert_eq!(printed.matches("\r\x1b[K").count(), 5);
    assert_eq!(printed.matches('\n').count(), 1);
    assert!(printed.ends_with("\r\x1b[Kdrained: 0 of 2 sessions up\n"), "{printed:?}");
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_stops_the_watch_and_says_that_the_drain_goes_on() {
    for (terminal, end) in [(false, ""), (true, "\n")] {
        let first = a_drain().into_iter().take(1).collect();
        let soon = tokio::time::sleep(std::time::Duration::from_millis(1));
        let (printed, ended) = watched(terminal, soon, first).await;
        assert_eq!(ended.unwrap(), Ended::Interrupted);
        let end = format!(
            "{end}Stopped watching. The drain goes on; undo it with `flock-agent drain --undo`.\n"
        );
        assert!(printed.ends_with(&end), "{printed:?}");
    }
    // Over before it began to be watched: there is no open line.
    let begun = vec![Ok(status(DrainState::None, None, &[]))];
    assert!(watched(true, pending(), begun).await.0.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_ends_it_otherwise_is_an_error() {
    let mut undone = a_drain();
    undone[1] = Ok(status(DrainState::None, None, &[]));
    let (printed, ended) = watched(true, pending(), undone).await;
    assert!(printed.ends_with("up\n"), "the error begins on a line of its own: {printed:?}");
    assert!(format!("{:#}", ended.unwrap_err()).contains("somebody undid the drain"));

    let away = || Err(anyhow::anyhow!("the agent is not running"));
    let mut restarted = a_drain();
    restarted.splice(1..1, [away(), away()]);
    let (_, ended) = watched(false, pending(), restarted).await;
    assert_eq!(ended.unwrap(), Ended::Done, "an agent that comes back goes on");

    let mut lost = a_drain();
    lost.truncate(1);
    lost.extend((0..100).map(|_| away()));
    let (_, ended) = watched(false, pending(), lost).await;
    assert_eq!(
        format!("{:#}", ended.unwrap_err()),
        "the drain was begun, but cannot be watched: the agent is not running"
    );
}

#[test]
fn the_agent_is_asked_until_it_is_drained() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = asked.clone();
    let desk = desk::open(move |op, args| {
        heard.lock().unwrap().push((op.to_owned(), args.clone()));
        desk::ok(match op {
            "drain" => status(DrainState::Draining, Some(0), &[PeerState::Established]),
            _ => status(DrainState::Drained, None, &[PeerState::Idle]),
        })
    });
    let wait = "7s".parse().unwrap();
    let drain = |socket: &Path| {
        run(&Drain {
            wait,
            undo: false,
            status: false,
            output: output::Form::Table,
            watch: false,
            admin_socket: socket.into(),
        })
    };
    assert_eq!(drain(&desk.socket).unwrap(), Ended::Done);
    let asked = asked.lock().unwrap();
    assert_eq!(
        *asked,
        [("drain".into(), json!({ "waitSeconds": 7 })), ("drain.status".into(), json!({}))]
    );
}

#[test]
fn undoing_says_what_it_came_to() {
    let table = [
        (DrainState::None, "There is no drain to undo"),
        (DrainState::Draining, "routes are advertised as before"),
        (DrainState::Drained, "sessions come up again"),
    ];
    for (before, words) in table {
        let desk = desk::open(move |op, _| match op {
            "drain.status" => desk::ok(status(before, None, &[])),
            "drain.undo" => desk::ok(status(DrainState::None, None, &[])),
            other => Err(format!("unknown op {other:?}")),
        });
        let said = undo(&desk.socket).unwrap();
        assert!(said.contains(words), "{said}");
    }
    let desk = desk::open(|_, _| desk::ok(status(DrainState::Draining, Some(3), &[])));
    let refused = undo(&desk.socket).unwrap_err().to_string();
    assert_eq!(refused, "the drain is not undone: the agent is still draining");
}

#[test]
fn the_json_keys_are_the_contract() {
    let json = serde_json::to_value(status(DrainState::Draining, Some(12), &[PeerState::OpenSent]));
    assert_eq!(
        json.unwrap(),
        json!({
            "state": "draining",
            "since": "2025-01-02T03:04:05Z",
            "secondsLeft": 12,
            "sessions": [{ "peer": "tor-0", "state": "OpenSent" }],
        })
    );
    let words = [DrainState::None, DrainState::Drained].map(|s| serde_json::to_value(s).unwrap());
    assert_eq!(words, [json!("none"), json!("drained")]);
}

#[test]
fn a_wait_is_whole_seconds_up_to_an_hour() {
    for (text, seconds) in [("30s", 30), ("2m", 120), ("0", 0), (" 45 ", 45), ("1h", 3600)] {
        assert_eq!(u64::from(text.parse::<Wait>().unwrap()), seconds, "{text}");
    }
    let refused = [
        ("", "not a duration"),
        ("soon", "write for example 30s"),
        ("-1", "not a duration"),
        ("500ms", "whole seconds"),
        ("61m", "3660 s is too long; write at most 3600s"),
        ("18446744073709551615", "too long"),
        ("99999999999999999999", "not a duration"),
    ];
    for (text, words) in refused {
        let why = text.parse::<Wait>().unwrap_err();
        assert!(why.contains(words), "{text}: {why}");
    }
    assert_eq!("2m".parse::<Wait>().unwrap().to_string(), "120s");
}

#[test]
fn the_arguments_are_bounded_and_nothing_else() {
    let read = |value| serde_json::from_value::<DrainArgs>(value).map_err(|e| e.to_string());
    let good = read(json!({ "waitSeconds": 30 })).unwrap();
    assert_eq!(good.wait_seconds.duration(), std::time::Duration::from_secs(30));
    let refused = [
        (json!({}), "missing field `waitSeconds`"),
        (json!({ "waitSeconds": 3601 }), "too long"),
        (json!({ "waitSeconds": -1 }), "invalid value"),
        (json!({ "waitSeconds": 1, "undo": true }), "unknown field `undo`"),
    ];
    for (value, words) in refused {
        let why = read(value.clone()).unwrap_err();
        assert!(why.contains(words), "{value}: {why}");
    }
}

#[test]
fn the_status_is_shown_and_nothing_is_asked_for() {
    use crate::cli::output::Look;
    let shown = |status: &DrainStatus| super::status::render(status, Look::PIPE);
    let draining = status(DrainState::Draining, Some(12), &[PeerState::Established]);
    assert_eq!(
        shown(&draining),
        "\
State:  draining
Since:  2025-01-02T03:04:05Z
Then:   routes are withdrawn in 12s

PEER   SESSION
tor-0  Established
"
    );
    let served = DrainStatus { since: None, ..status(DrainState::None, None, &[]) };
    assert_eq!(shown(&served), "State:  in service\n");
    let parse = |words: &[&str]| {
        use clap::Parser;
        let line = ["flock-agent", "drain"].iter().chain(words);
        crate::cli::Cli::try_parse_from(line).map(drop).map_err(|error| error.to_string())
    };
    parse(&["--status", "-o", "json", "-w"]).unwrap();
    for refused in
        [&["-w"][..], &["-o", "json"], &["--status", "--undo"], &["--status", "--wait", "1s"]]
    {
        assert!(parse(refused).is_err(), "{refused:?}");
    }
}
