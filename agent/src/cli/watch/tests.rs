//! What a pipe gets of answers that follow each other.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::json;

use super::*;
use crate::cli::bgp::sample;
use crate::cli::bgp::{PeerList, PeerState};
use crate::cli::{desk, exit};

fn view() -> View<'static, PeerList> {
    View::new("bgp.peers", |list: &PeerList, _| Ok(format!("{} peers\n", list.peers.len())))
        .with_clocks(&["uptimeSeconds", "stateSeconds", "drain"])
}

fn told(list: &PeerList) -> Told<PeerList> {
    let said = serde_json::to_value(list).unwrap();
    Told { answer: list.clone(), said, more: false }
}

#[test]
fn time_that_passes_is_no_news() {
    let mut said = None;
    let mut prints =
        |list: &PeerList| document(&view(), Form::Json, &mut said, told(list)).unwrap();
    let mut list = PeerList { peers: sample::peers().into() };
    let first = prints(&list).unwrap();
    assert_eq!(first.lines().count(), 1, "an object a line");
    assert_eq!(serde_json::from_str::<PeerList>(&first).unwrap(), list);
    assert_eq!(prints(&list), None);
    list.peers[0].uptime_seconds += 1;
    list.peers[1].state_seconds += 1;
    assert_eq!(prints(&list), None, "a second passed");
    list.peers[0].state = PeerState::Idle;
    assert!(prints(&list).is_some());
    list.peers[0].hold_time_seconds = Some(90);
    assert!(prints(&list).is_some(), "no clock, though it has seconds");
}

#[test]
fn documents_are_told_apart() {
    for (form, between) in [(Form::Yaml, "---\n"), (Form::Table, "\n"), (Form::Json, "")] {
        let mut said = None;
        let mut list = PeerList { peers: vec![] };
        let first = document(&view(), form, &mut said, told(&list)).unwrap().unwrap();
        list.peers.extend(sample::peers());
        let second = document(&view(), form, &mut said, told(&list)).unwrap().unwrap();
        assert!(!first.starts_with('\n') && !first.starts_with("---"), "{first}");
        assert!(second.starts_with(between), "{form:?}: {second}");
    }
}

#[test]
fn numbers_in_a_text_may_be_a_clock() {
    let still = |mut value: Value| {
        stop_clocks(&mut value, &["drain"], false);
        value
    };
    let draining = |left: u32| still(json!({ "drain": format!("draining, {left} s left") }));
    assert_eq!(draining(12), draining(7));
    assert_ne!(draining(12), still(json!({ "drain": null })));
    assert_ne!(draining(12), still(json!({ "drain": "drained since 2025-01-02T03:04:05Z" })));
    assert_eq!(still(json!({ "a": [7, "7"] })), json!({ "a": [7, "7"] }));
}

#[test]
fn a_list_that_is_cut_cannot_be_compared() {
    let cut = Told { more: true, ..told(&PeerList { peers: vec![] }) };
    let rows = View { rows: Some("peers"), ..view() };
    let refused = document(&rows, Form::Json, &mut None, cut).unwrap_err().to_string();
    assert!(refused.contains("narrow it"), "{refused}");
    let cut = Told { more: true, ..told(&PeerList { peers: vec![] }) };
    let wanted = View { may_be_cut: true, ..rows };
    assert!(
        document(&wanted, Form::Json, &mut None, cut).unwrap().is_some(),
        "as many as asked for"
    );
}

/// Keeps what it is told, until there are no peers.
#[derive(Default)]
struct Notes(Rc<RefCell<Vec<String>>>);

impl Paper<PeerList> for Notes {
    fn size(&self) -> Option<Size> {
        None
    }

    fn answered(&mut self, told: Told<PeerList>) -> anyhow::Result<ControlFlow<()>> {
        let peers = told.answer.peers.len();
        self.0.borrow_mut().push(format!("{peers} peers"));
        Ok(if peers > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }

    fn away(&mut self, _: &anyhow::Error) -> anyhow::Result<()> {
        self.0.borrow_mut().push("away".into());
        Ok(())
    }

    fn resized(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

#[test]
fn an_agent_that_goes_away_is_waited_for_and_one_that_never_was_is_an_error() {
    let first = desk::open(|_, _| desk::ok(PeerList { peers: sample::peers().into() }));
    let (socket, heard) = (first.socket.clone(), Rc::<RefCell<Vec<String>>>::default());
    let second = RefCell::new(None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let until = async |wanted: &str| {
            while heard.borrow().last().is_none_or(|last| last != wanted) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let events = async {
            until("2 peers").await;
            let place = first.close();
            until("away").await;
            let returns = |_: &str, _: &Value| desk::ok(PeerList { peers: vec![] });
            *second.borrow_mut() = Some(desk::open_at(place, returns));
        };
        let view = view();
        let watching = watch(&view, &socket, Box::new(Notes(heard.clone())));
        tokio::join!(async { watching.await.unwrap() }, events);
    });
    let heard = heard.borrow();
    assert_eq!((heard[0].as_str(), heard.last().unwrap().as_str()), ("2 peers", "0 peers"));

    let nowhere = Path::new("/nonexistent/admin.sock");
    let refused = runtime.block_on(watch(&view(), nowhere, Box::new(Notes::default())));
    assert_eq!(exit::code(&Err(refused.unwrap_err())), 2);
}

#[test]
fn news_are_told_at_once_and_the_seconds_as_they_pass() {
    let desk = desk::open(|_, _| desk::ok(PeerList { peers: vec![] }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let question = ask::question("bgp.peers", &Value::Null, true).unwrap();
        let mut agent = Agent::open(&desk.socket, &question).await.unwrap();
        for _ in 0..3 {
            desk.news.ring();
            assert_eq!(agent.answer(None).await.unwrap(), (json!({ "peers": [] }), false));
        }
    });
}
