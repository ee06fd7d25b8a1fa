//! What a watch does with answers that a healthy API server does not give: scripted, on a clock that
//! jumps. The real one is in `make e2e`.

use std::sync::Arc;

use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::super::scripted::Answer::{self, Hangs, Refuses, Says, Tells, TellsAndHangs};
use super::super::scripted::{Server, event, listed, page, status};
use super::*;
use crate::kubernetes::crd;

fn object(name: &str, version: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "NodeConfig", "metadata": {"name": name, "resourceVersion": version}})
}

fn list(version: &str, names: &[&str]) -> Answer {
    let items: Vec<Value> = names.iter().map(|name| object(name, version)).collect();
    listed(version, items)
}

/// Plays a script until the API server was asked as often as there are answers, and once more.
async fn play(answers: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    play_as(answers, false).await
}

async fn play_as(answers: Vec<Answer>, in_pages: bool) -> (Vec<String>, Vec<String>) {
    let questions = answers.len() + 1;
    let server = Server::new(answers);
    let api: Api<DynamicObject> = Api::all_with(server.client(), &crd::resource());
    let watch = Watch::of(api, Arc::default()).selecting("metadata.name=a".into());
    let watch = if in_pages { watch.in_pages(2) } else { watch };
    let (tell, mut heard) = mpsc::channel(64);
    let news = |told: Told<DynamicObject>| {
        let name = |object: &DynamicObject| object.metadata.name.clone().unwrap_or_default();
        Some(match told {
            Told::All(all) => format!("all {:?}", all.iter().map(name).collect::<Vec<_>>()),
            Told::Part { first, some } => {
                let some = some.iter().map(name).collect::<Vec<_>>();
                format!("{} {some:?}", if first { "first" } else { "then" })
            }
            Told::Changed(object) => format!("changed {}", name(&object)),
            Told::Gone(object) => format!("gone {}", name(&object)),
            Told::Silent(why) => format!("silent: {why}"),
            Told::Answers => "answers".to_owned(),
        })
    };
    let following = tokio::spawn(watch.follow(Listener { tell, news }));
    while server.asked("").len() < questions {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    following.abort();
    let mut told = Vec::new();
    while let Ok(news) = heard.try_recv() {
        told.push(news);
    }
    (server.asked(""), told)
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_from_the_newest_version_that_was_told() {
    let bookmark = event("BOOKMARK", object("", "9"));
    let (asked, told) = play(vec![
        list("5", &["a"]),
        // Long enough to be a watch: it ends only when the server has nothing to say.
        TellsAndHangs(vec![
            event("MODIFIED", object("a", "7")),
            event("DELETED", object("a", "8")),
            bookmark,
        ]),
    ])
    .await;
    assert_eq!(asked, ["list 0", "watch 5", "watch 9"]);
    assert_eq!(told, ["all [\"a\"]", "answers", "changed a", "gone a"], "silence is no news");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_means_a_new_list() {
    for expired in [
        Tells(vec![event("ERROR", status(410, "too old resource version"))]),
        Says(410, status(410, "gone")),
    ] {
        let (asked, told) = play(vec![list("5", &["a"]), expired, list("20", &["b"])]).await;
        assert_eq!(asked, ["list 0", "watch 5", "list 5 NotOlderThan", "watch 20"]);
        assert!(told.iter().all(|news| !news.starts_with("silent")), "{told:?}");
        assert_eq!(told.last().unwrap(), "all [\"b\"]");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_all_is_listed_again_and_nothing_older_is_believed() {
    let (asked, told) = play(vec![
        list("5", &["a"]),
        Tells(vec![event("ADDED", object("b", "6")), event("ERROR", status(500, "etcd is gone"))]),
        Refuses,
        Says(503, status(503, "starting")),
        // This API server is behind, and does not catch up in time.
        Says(504, status(504, "Too large resource version: 6, current: 2")),
        list("2", &["b"]),
    ])
    .await;
    let none_older = "list 6 NotOlderThan";
    assert_eq!(
        asked,
        ["list 0", "watch 5", none_older, none_older, none_older, "list 0", "watch 2"]
    );
    assert_eq!(
        told,
        [
            "all [\"a\"]",
            "answers",
            "changed b",
            "silent: etcd is gone (500)",
            "silent: connection refused",
            "silent: starting (503)",
            "all [\"b\"]"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_without_its_etcd_is_silent() {
    let gone = || Says(504, status(504, "etcdserver: request timed out"));
    let (asked, told) = play(vec![list("5", &[]), gone(), gone(), gone()]).await;
    assert_eq!(asked[2..], ["list 5 NotOlderThan"; 3], "what is known is not forgotten");
    assert_eq!(told.iter().filter(|news| news.starts_with("silent")).count(), 3, "{told:?}");
    let too_old = || Says(410, status(410, "gone"));
    let (_, told) = play(vec![too_old(), too_old()]).await;
    assert_eq!(told.len(), 2, "a list without a version that is told so: {told:?}");
}

/// Who may list and not watch is not to list without end because others do.
#[tokio::test(start_paused = true)]
async fn lists_do_not_ring_for_each_other() {
    let bell = Arc::new(Notify::new());
    let mut servers = Vec::new();
    for _ in 0..3 {
        let answers =
            (0..400).flat_map(|_| [list("5", &[]), Says(403, status(403, "watch is forbidden"))]);
        let server = Server::new(answers.collect());
        let api: Api<DynamicObject> = Api::all_with(server.client(), &crd::resource());
        let watch = Watch::of(api, bell.clone());
        let (tell, heard) = mpsc::channel(2000);
        let news = |_: Told<DynamicObject>| Some(());
        tokio::spawn(watch.follow(Listener { tell, news }));
        servers.push((server, heard));
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    for (server, _) in &servers {
        let asked = server.asked("").len();
        assert!((20..120).contains(&asked), "asked {asked} times in ten minutes");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_accepts_and_says_nothing_is_silent() {
    let (asked, told) = play(vec![Hangs, list("5", &[]), Hangs]).await;
    assert_eq!(asked, ["list 0", "list 0", "watch 5", "list 5 NotOlderThan"]);
    assert_eq!(told, ["silent: no answer within 30 s", "all []", "silent: no answer within 30 s"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_or_missing_is_told_in_the_servers_words() {
    let forbidden = "pods is forbidden: User \"x\" cannot list resource \"pods\"";
    let (_, told) =
        play(vec![Says(403, status(403, forbidden)), Says(404, status(404, "not found"))]).await;
    assert_eq!(told, [format!("silent: {forbidden} (403)"), "silent: not found (404)".to_owned()]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_every_watch_at_once_is_not_asked_without_end() {
    let mut answers = vec![list("5", &["a"])];
    answers.extend((0..8).map(|_| Tells(vec![])));
    let began = Instant::now();
    let (asked, _) = play(answers).await;
    assert!(asked[1..].iter().all(|question| question == "watch 5"), "{asked:?}");
    // 0.4 s, doubled, at least half of each.
    assert!(began.elapsed() > Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn pauses_grow_to_a_bound_and_differ() {
    let mut pause = Pause::default();
    let all: Vec<Duration> = (0..12).map(|_| pause.next()).collect();
    assert!(all[0] >= FIRST_PAUSE / 2 && all[0] < FIRST_PAUSE, "{all:?}");
    assert!(all.iter().all(|one| *one < LONGEST_PAUSE), "{all:?}");
    assert!(all[8..].iter().all(|one| *one >= LONGEST_PAUSE / 2), "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_in_pages_is_told_in_parts_that_end_with_all() {
    let (asked, told) = play_as(
        vec![
            page("5", vec![object("a", "1"), object("b", "2")], "x"),
            page("5", vec![object("c", "3")], "y"),
            page("5", vec![], ""),
            TellsAndHangs(vec![event("MODIFIED", object("a", "7"))]),
        ],
        true,
    )
    .await;
    assert_eq!(
        asked,
        ["list page 2", "list page 2 of x", "list page 2 of y", "watch 5", "watch 7"],
        "no version: with one the limit is ignored"
    );
    let parts = ["first [\"a\", \"b\"]", "then [\"c\"]", "then []", "all []"];
    assert_eq!(told, [&parts[..], &["answers", "changed a"]].concat());
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_next_page_expired_begins_anew_and_not_without_end() {
    let expired = || Says(410, status(410, "The provided continue parameter is too old"));
    let a_page = |name: &str| page("5", vec![object(name, "1")], "x");
    let answers =
        vec![a_page("a"), expired(), a_page("b"), expired(), page("9", vec![object("c", "1")], "")];
    let (asked, told) = play_as(answers, true).await;
    assert_eq!(
        asked,
        [
            "list page 2",
            "list page 2 of x",
            "list page 2",
            "list page 2 of x",
            "list page 2",
            "watch 9"
        ]
    );
    assert_eq!(told[..2], ["first [\"a\"]", "first [\"b\"]"]);
    assert!(told[2].starts_with("silent: The provided continue parameter"), "{told:?}");
    assert_eq!(told[3..], ["first [\"c\"]", "all []"]);
}
