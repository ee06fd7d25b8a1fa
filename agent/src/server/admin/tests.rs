//! Conversations, on a pair of sockets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::talk::{read, talk};
use super::*;
use crate::news::News;

/// Says what it was asked; `bgp.routes` in parts.
#[derive(Default)]
struct Echo {
    news: News,
    asked: AtomicUsize,
    /// Pieces of rows that were asked for.
    pieces: std::sync::Arc<AtomicUsize>,
}

struct Counted {
    left: usize,
    pieces: std::sync::Arc<AtomicUsize>,
}

impl Rows for Counted {
    type Row = String;

    async fn next(&mut self) -> Result<Option<Vec<String>>, String> {
        self.pieces.fetch_add(1, Ordering::SeqCst);
        if self.left == 0 {
            return Ok(None);
        }
        if self.left == 13 {
            return Err("that brings ill luck".into());
        }
        let some = self.left.min(5_000);
        self.left -= some;
        Ok(Some(vec!["x".repeat(1000); some]))
    }

    fn is_cut(&self) -> bool {
        true
    }
}

impl Answers for Echo {
    type Rows = Counted;

    async fn answer(&self, op: &str, given: &Value) -> Result<Answer<Counted>, String> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if op == op::CHECK {
            args::<NoArgs>(given)?;
        }
        if op == op::BGP_ROUTES {
            let left = serde_json::from_value(given["rows"].clone()).unwrap();
            return Ok(Answer::Parts(Counted { left, pieces: self.pieces.clone() }));
        }
        Ok(Answer::Whole(json!([op, given])))
    }

    fn news(&self) -> Listener {
        self.news.listen()
    }
}

/// A client's end of a conversation.
struct Client(BufReader<UnixStream>);

impl Client {
    async fn line(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    async fn ended(&mut self) -> bool {
        self.0.read(&mut [0; 16]).await.is_ok_and(|read| read == 0)
    }
}

/// Asks, and the other end on a task of its own.
async fn ask(desk: &'static Echo, watchers: &'static Semaphore, line: &str) -> Client {
    let (near, far) = UnixStream::pair().unwrap();
    tokio::spawn(talk(far, desk, watchers));
    let mut near = BufReader::new(near);
    near.write_all(line.as_bytes()).await.unwrap();
    near.write_all(b"\n").await.unwrap();
    Client(near)
}

fn desk() -> (&'static Echo, &'static Semaphore) {
    (Box::leak(Box::default()), Box::leak(Box::new(Semaphore::new(2))))
}

#[tokio::test]
async fn arguments_reach_the_desk_and_may_be_missing() {
    let (echo, watchers) = desk();
    let table = [
        (r#"{"v":1,"op":"pods"}"#, Ok(json!(["pods", null]))),
        (r#"{"v":1,"op":"x","args":{"a":1}}"#, Ok(json!(["x", { "a": 1 }]))),
        (r#"{"v":1,"op":"check","args":{}}"#, Ok(json!(["check", {}]))),
        (r#"{"v":1,"op":"check","args":{"a":1}}"#, Err("args.a: unknown field `a`")),
        (r#"{"v":1,"op":"check","args":7}"#, Err("args: expected an object or nothing, not 7")),
        (r#"{"v":1}"#, Err("decode: missing field `op`")),
        (r#"{"v":1,"op":"pods","wach":true}"#, Err("decode: unknown field `wach`")),
        (r#"{"v":1,"op":"pods","watch":1}"#, Err("decode: invalid type: integer `1`")),
        (r#"{"v":2,"op":"pods"}"#, Err("the agent speaks version 1")),
        (r#"{"v":1,"op":"drain","watch":true}"#, Err("\"drain\" cannot be watched")),
        (r#"{"v":1,"op":"x","watch":true}"#, Err("\"x\" cannot be watched")),
    ];
    for (line, wanted) in table {
        let mut client = ask(echo, watchers, line).await;
        let answer = client.line().await;
        match wanted {
            Ok(wanted) => assert_eq!(answer, json!({ "v": 1, "ok": wanted }), "{line}"),
            Err(words) => {
                let why = answer["error"].as_str().unwrap_or_else(|| panic!("{answer}"));
                assert!(why.starts_with(words), "{line}: {why}");
            }
        }
        assert!(client.ended().await, "{line}");
    }
    assert!(op::WATCHABLE.iter().all(|op| op::ALL.contains(op)));
}

#[test]
fn nothing_is_not_written() {
    let request = Request { v: VERSION, op: op::PODS.into(), args: Value::Null, watch: false };
    assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"v":1,"op":"pods"}"#);
    let watching = Request { watch: true, ..request };
    let text = serde_json::to_string(&watching).unwrap();
    assert_eq!(read(text.as_bytes()), Ok(watching));
}

#[tokio::test]
async fn many_rows_come_in_parts_and_are_counted() {
    let (echo, watchers) = desk();
    let mut client =
        ask(echo, watchers, r#"{"v":1,"op":"bgp.routes","args":{"rows":12000}}"#).await;
    let (mut rows, mut parts) = (0, 0);
    let closing = loop {
        let line = client.line().await;
        let Some(part) = line.get("part") else { break line };
        let count = part.as_array().unwrap().len();
        assert!((1..=2000).contains(&count), "{count}");
        assert!(line.to_string().len() < (1 << 20) + 2000);
        (rows, parts) = (rows + count, parts + 1);
    };
    assert_eq!(closing, json!({ "v": 1, "ok": { "rows": 12_000, "more": true } }));
    assert_eq!(rows, 12_000);
    assert!(parts > 10, "a thousand bytes each: {parts}");
    let mut none = ask(echo, watchers, r#"{"v":1,"op":"bgp.routes","args":{"rows":0}}"#).await;
    assert_eq!(none.line().await["ok"]["rows"], 0);
    let mut bad = ask(echo, watchers, r#"{"v":1,"op":"bgp.routes","args":{"rows":5013}}"#).await;
    while bad.line().await.get("part").is_some() {}
    assert!(bad.ended().await, "an error ends it");
}

#[tokio::test(start_paused = true)]
async fn rows_are_made_when_they_can_be_sent_and_who_takes_none_is_cut_off() {
    let (echo, watchers) = desk();
    let line = r#"{"v":1,"op":"bgp.routes","args":{"rows":1000000}}"#;
    let mut client = ask(echo, watchers, line).await;
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(echo.pieces.load(Ordering::SeqCst), 1, "a piece is more than the socket takes");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() < 4 << 20, "{}", rest.len());
    assert_eq!(echo.pieces.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn who_watches_is_told_again_when_something_happens_but_not_too_often() {
    let (echo, watchers) = desk();
    let mut client = ask(echo, watchers, r#"{"v":1,"op":"pods","watch":true}"#).await;
    let began = Instant::now();
    let mut times = Vec::new();
    for _ in 0..3 {
        client.line().await;
        times.push(began.elapsed().as_millis() / 10);
    }
    assert_eq!(times, [0, 100, 200], "nothing happens, a second passes");
    // All the time something does.
    for _ in 0..100 {
        echo.news.ring();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let told = echo.asked.load(Ordering::SeqCst);
    assert!((6..=8).contains(&told), "five more in a second: {told}");
    // Gone while nothing happens: noticed.
    drop(client);
    timeout(Duration::from_secs(2), async {
        while watchers.available_permits() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .unwrap();
    let after = echo.asked.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(echo.asked.load(Ordering::SeqCst), after, "nobody is answered any more");
}

#[tokio::test]
async fn not_everybody_may_watch_and_nobody_asks_twice() {
    let (echo, watchers) = desk();
    let watch = r#"{"v":1,"op":"pods","watch":true}"#;
    let (mut first, mut second) =
        (ask(echo, watchers, watch).await, ask(echo, watchers, watch).await);
    assert!(first.line().await["ok"].is_array() && second.line().await["ok"].is_array());
    let mut third = ask(echo, watchers, watch).await;
    assert!(third.line().await["error"].as_str().unwrap().contains("watch already"));
    let mut once = ask(echo, watchers, r#"{"v":1,"op":"pods"}"#).await;
    assert!(once.line().await["ok"].is_array());
    first.0.write_all(b"more\n").await.unwrap();
    let refused = loop {
        let line = first.line().await;
        if line.get("ok").is_none() {
            break line;
        }
    };
    assert_eq!(refused["error"], "a connection is for one request; open another");
    assert!(first.ended().await);
}
