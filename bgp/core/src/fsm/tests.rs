//! The machine as a table: every state, every input, under two settings, with the exact state and
//! acts that follow. `table.txt` is the table; a change of the machine is a change of that file.
//! `FLOCK_WRITE_TABLE=1` writes it anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use flock_bgp_wire::encode::Form;
use flock_bgp_wire::{Context, frame};

use super::*;

const OLD: ConnId = ConnId(10);
const NEXT: ConnId = ConnId(12);
const RIVAL: ConnId = ConnId(7);

fn negotiated(hold: Option<u64>) -> Arc<Negotiated> {
    Arc::new(Negotiated {
        peer_asn: 65_000,
        peer_id: Ipv4Addr::new(10, 0, 0, 2),
        internal: false,
        hold: hold.map(Duration::from_secs),
        keepalive: hold.map(|hold| Duration::from_secs(hold / 3)),
        families: [true, true],
        context: Context::default(),
        form: Form { four_octet_as: true, max: frame::MAX },
        send_extended_next_hop: false,
        refresh: true,
        enhanced_refresh: true,
        graceful_restart: None,
        peer_role: None,
        offered: Vec::new(),
        received: Vec::new(),
    })
}

fn states(hold: Option<u64>) -> Vec<State> {
    vec![
        State::Idle(Idle::Stopped),
        State::Idle(Idle::Resting),
        State::Connect { conn: OLD },
        State::Active,
        State::OpenSent { conn: OLD },
        State::OpenConfirm { conn: OLD, negotiated: negotiated(hold) },
        State::Established { conn: OLD, negotiated: negotiated(hold) },
    ]
}

fn inputs(hold: Option<u64>) -> Vec<Input> {
    let stop = Notification::new(6, 2);
    vec![
        Input::Start,
        Input::Stop(stop),
        Input::Interrupt(Notification::new(6, 4)),
        Input::Vanish,
        Input::IdleHoldExpired,
        Input::ConnectRetryExpired,
        Input::HoldExpired,
        Input::KeepaliveExpired,
        Input::SendHoldExpired,
        Input::Dialled,
        Input::DialFailed,
        Input::Accepted(RIVAL),
        Input::Closed,
        Input::Open(negotiated(hold)),
        Input::OpenError(Notification::new(2, 2)),
        Input::HeaderError(Notification::new(1, 1)),
        Input::CollisionDump,
        Input::NotificationVersion(Notification::new(2, 1)),
        Input::NotificationCollision(Notification::new(6, 7)),
        Input::Notification(Notification::new(6, 0)),
        Input::Keepalive,
        Input::Update,
        Input::UpdateError(Notification::new(3, 1)),
        Input::Refresh,
    ]
}

/// A new input does not compile until it has a line here, and is missed until it is in `inputs`.
fn input_name(input: &Input) -> (usize, &'static str) {
    match input {
        Input::Start => (0, "Start"),
        Input::Stop(_) => (1, "Stop(6/2)"),
        Input::Interrupt(_) => (2, "Interrupt(6/4)"),
        Input::Vanish => (3, "Vanish"),
        Input::IdleHoldExpired => (4, "IdleHoldExpired"),
        Input::ConnectRetryExpired => (5, "ConnectRetryExpired"),
        Input::HoldExpired => (6, "HoldExpired"),
        Input::KeepaliveExpired => (7, "KeepaliveExpired"),
        Input::SendHoldExpired => (8, "SendHoldExpired"),
        Input::Dialled => (9, "Dialled"),
        Input::DialFailed => (10, "DialFailed"),
        Input::Accepted(_) => (11, "Accepted(#7)"),
        Input::Closed => (12, "Closed"),
        Input::Open(_) => (13, "Open"),
        Input::OpenError(_) => (14, "OpenError(2/2)"),
        Input::HeaderError(_) => (15, "HeaderError(1/1)"),
        Input::CollisionDump => (16, "CollisionDump"),
        Input::NotificationVersion(_) => (17, "NotificationVersion"),
        Input::NotificationCollision(_) => (18, "Notification(6/7)"),
        Input::Notification(_) => (19, "Notification(6/0)"),
        Input::Keepalive => (20, "Keepalive"),
        Input::Update => (21, "Update"),
        Input::UpdateError(_) => (22, "UpdateError(3/1)"),
        Input::Refresh => (23, "Refresh"),
    }
}
const INPUTS: usize = 24;

fn state_name(state: &State) -> (usize, String) {
    match state {
        State::Idle(Idle::Stopped) => (0, "Idle/stopped".into()),
        State::Idle(Idle::Resting) => (1, "Idle/resting".into()),
        State::Connect { conn } => (2, format!("Connect #{}", conn.0)),
        State::Active => (3, "Active".into()),
        State::OpenSent { conn } => (4, format!("OpenSent #{}", conn.0)),
        State::OpenConfirm { conn, .. } => (5, format!("OpenConfirm #{}", conn.0)),
        State::Established { conn, .. } => (6, format!("Established #{}", conn.0)),
    }
}
const STATES: usize = 7;

fn said(notification: &Notification) -> String {
    let Notification { code, subcode, data } = notification;
    let data: String = data.iter().map(|octet| format!(" {octet:02x}")).collect();
    format!("{code}/{subcode}{data}")
}

fn act_name(act: &Act) -> String {
    match act {
        Act::Arm(timer, span) => format!("arm {timer:?} {}s", span.as_secs()),
        Act::Disarm(timer) => format!("disarm {timer:?}"),
        Act::Rest => "rest".into(),
        Act::Dial(conn) => format!("dial #{}", conn.0),
        Act::Close(conn) => format!("close #{}", conn.0),
        Act::Rival(conn) => format!("rival #{}", conn.0),
        Act::SendOpen => "send OPEN".into(),
        Act::SendKeepalive => "send KEEPALIVE".into(),
        Act::SendNotification(notification) => format!("send NOTIFICATION {}", said(notification)),
        Act::Up => "up".into(),
        Act::Learn => "learn".into(),
        Act::Answer => "answer".into(),
        Act::Down(Cause::Sent(notification)) => format!("down (sent {})", said(notification)),
        Act::Down(Cause::Received(notification)) => {
            format!("down (received {})", said(notification))
        }
        Act::Down(Cause::Closed) => "down (closed)".into(),
        Act::Down(Cause::DialFailed) => "down (dial failed)".into(),
        Act::Down(Cause::Local) => "down (local)".into(),
    }
}

fn table() -> String {
    let mut table = String::from(
        "# Every state and every input of the machine, and what follows (src/fsm/tests.rs).\n\
         # Its own connection or attempt is #10, the next dial would be #12, the peer's is #7.\n",
    );
    for (passive, hold) in [(false, Some(90)), (true, None)] {
        let who = if passive { "never dials" } else { "dials" };
        let time = hold.map_or("none".into(), |hold| format!("{hold}s"));
        let _ = writeln!(table, "\n## {who}, hold time {time}, ConnectRetry 5s");
        for state in states(hold) {
            let _ = writeln!(table);
            for input in inputs(hold) {
                let settings =
                    Settings { passive, connect_retry: Duration::from_secs(5), next_dial: NEXT };
                let (from, on) = (state_name(&state).1, input_name(&input).1);
                let mut acts = Vec::new();
                let to = step(state.clone(), input, &settings, &mut acts);
                let acts: Vec<String> = acts.iter().map(act_name).collect();
                let acts = if acts.is_empty() { "-".into() } else { acts.join(", ") };
                let to = state_name(&to).1;
                let _ = writeln!(table, "{from:<15} {on:<20} -> {to:<15} {acts}");
            }
        }
    }
    table
}

#[test]
fn the_table_is_as_written() {
    let now = table();
    if std::env::var_os("FLOCK_WRITE_TABLE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/fsm/table.txt");
        std::fs::write(path, &now).unwrap();
        return;
    }
    let then = include_str!("table.txt");
    for (line, (now, then)) in now.lines().zip(then.lines()).enumerate() {
        assert_eq!(now, then, "line {} of table.txt", line + 1);
    }
    assert_eq!(now.lines().count(), then.lines().count());
}

#[test]
fn no_state_and_no_input_is_missing() {
    let states: BTreeSet<usize> = states(None).iter().map(|s| state_name(s).0).collect();
    let inputs: BTreeSet<usize> = inputs(None).iter().map(|i| input_name(i).0).collect();
    assert!(states.into_iter().eq(0..STATES));
    assert!(inputs.into_iter().eq(0..INPUTS));
}

/// A hold time of zero never arms the hold or keepalive timer, whatever comes (RFC 4271 §4.2).
#[test]
fn hold_time_zero_arms_nothing() {
    let settings =
        Settings { passive: false, connect_retry: Duration::from_secs(5), next_dial: NEXT };
    for state in states(None).into_iter().skip(5) {
        for input in inputs(None) {
            let mut acts = Vec::new();
            step(state.clone(), input.clone(), &settings, &mut acts);
            let arms = |act: &Act| matches!(act, Act::Arm(Timer::Hold | Timer::Keepalive, _));
            assert!(!acts.iter().any(arms), "{state:?} {input:?}: {acts:?}");
        }
    }
}

/// Whatever ends leaves nothing running: no connection without a machine, no timer without one.
#[test]
fn an_end_closes_and_disarms() {
    let settings =
        Settings { passive: false, connect_retry: Duration::from_secs(5), next_dial: NEXT };
    for state in states(Some(90)) {
        for input in inputs(Some(90)) {
            let mut acts = Vec::new();
            let before = state.conn();
            let after = step(state.clone(), input.clone(), &settings, &mut acts);
            let what = format!("{state:?} {input:?} -> {after:?}: {acts:?}");
            let gone_by_itself = matches!(
                (&state, &input),
                (State::Connect { .. }, Input::DialFailed | Input::Closed)
            );
            if before.is_some() && after.conn() != before && !gone_by_itself {
                assert!(acts.contains(&Act::Close(OLD)), "{what}");
            }
            if before.is_some() && after.conn().is_none() {
                assert!(acts.iter().any(|act| matches!(act, Act::Down(_))), "{what}");
            }
            let resting = after == State::Idle(Idle::Resting) && state != after;
            assert_eq!(acts.contains(&Act::Rest), resting, "{what}");
        }
    }
}
