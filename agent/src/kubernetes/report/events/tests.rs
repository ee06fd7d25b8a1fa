use super::super::script::Script;
use super::*;
use crate::incidents::Incident;
use crate::source::{NodeState, Object, Pods, Secrets};

fn world(uid: Option<&str>) -> World {
    World {
        node: NodeState::Unknown { reason: String::new() },
        pods: Pods::default(),
        problems: Arc::default(),
        secrets: Secrets::default(),
        object: uid.map(|uid| Object { uid: uid.into(), generation: 1 }),
        away: None,
    }
}

fn pending(uid: Option<&str>, at: &str) -> Pending {
    let note = notes::of(Incident::SessionUp { peer: "tor-a".into() });
    Pending { note, regarding: regarding("node-1", &world(uid)), at: at.parse().unwrap() }
}

#[test]
fn an_event_is_about_the_nodeconfig_or_else_the_node() {
    let made = event(&pending(Some("u-1"), "2026-03-01T12:00:00Z"), "node-1");
    let about = &made.involved_object;
    assert_eq!(about.kind.as_deref(), Some("NodeConfig"));
    assert_eq!(about.api_version.as_deref(), Some("flock.fritzlab.net/v1alpha1"));
    assert_eq!((about.uid.as_deref(), about.name.as_deref()), (Some("u-1"), Some("node-1")));
    assert_eq!(about.namespace, None);
    assert_eq!(made.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(
        (made.type_.as_deref(), made.reason.as_deref()),
        (Some("Normal"), Some("SessionUp"))
    );
    assert_eq!(made.reporting_component.as_deref(), Some("flock.fritzlab.net/agent"));
    assert_eq!(made.reporting_instance.as_deref(), Some("node-1"));
    let made = event(&pending(None, "2026-03-01T12:00:00Z"), "node-1");
    let about = &made.involved_object;
    assert_eq!((about.kind.as_deref(), about.uid.as_deref()), (Some("Node"), Some("node-1")));
}

#[test]
fn the_name_of_an_event_is_one_that_an_api_server_takes() {
    let long = format!("{}.{}", "a".repeat(199), "b".repeat(53));
    let made = event(&pending(None, "2026-03-01T12:00:00Z"), &long);
    let name = made.metadata.name.unwrap();
    assert!(name.len() <= 253 && !name.contains(".."), "{name}");
    assert!(name.starts_with(&"a".repeat(199)));
}

#[test]
fn the_same_words_are_counted_for_a_while() {
    let first = pending(Some("u-1"), "2026-03-01T12:00:00Z");
    let uid = first.regarding.uid.clone();
    let mut there = VecDeque::from([There {
        note: first.note.clone(),
        uid,
        name: "node-1.1".into(),
        count: 1,
        at: first.at,
    }]);
    let mut counted = |pending: &Pending| known(&mut there, pending).is_some();
    assert!(counted(&pending(Some("u-1"), "2026-03-01T12:10:00Z")));
    assert!(!counted(&pending(Some("u-1"), "2026-03-01T12:40:00Z")), "long ago");
    assert!(!counted(&pending(Some("u-2"), "2026-03-01T12:10:00Z")), "another object");
    let note = notes::of(Incident::SessionUp { peer: "tor-b".into() });
    let other = Pending { note, ..pending(Some("u-1"), "2026-03-01T12:10:00Z") };
    assert!(!counted(&other), "another peer");
}

struct Play {
    server: Script,
    herald: Herald,
}

impl Play {
    fn begin() -> Self {
        let server = Script::default();
        let herald = Herald::new(&server.client(), "node-1".into(), Metrics::start());
        Self { server, herald }
    }

    fn hear(&mut self, incident: Incident) {
        self.herald.hear(Some(notes::of(incident)), Timestamp::now(), &world(Some("u")));
    }

    /// Writes once: what is asked, and how many wait after that.
    async fn write(&mut self) -> (Vec<String>, usize) {
        self.herald.write().await;
        let asked = self.server.asked();
        let verbs = asked.iter().map(|asked| asked.line.split(' ').next().unwrap().to_owned());
        (verbs.collect(), self.herald.queue.len())
    }
}

fn up() -> Incident {
    Incident::SessionUp { peer: "tor-a".into() }
}

fn written() -> serde_json::Value {
    json!({ "metadata": { "name": "node-1.1" }, "involvedObject": {} })
}

#[tokio::test(start_paused = true)]
async fn the_same_again_is_counted_unless_it_was_forgotten() {
    let mut play = Play::begin();
    play.hear(up());
    play.server.says(201, written());
    assert_eq!(play.write().await, (vec!["POST".to_owned()], 0));
    assert_eq!(play.herald.next(), None, "nothing is left");
    play.hear(up());
    play.server.says(200, written());
    play.herald.write().await;
    let [asked] = play.server.asked().try_into().unwrap();
    assert_eq!((asked.line.split(' ').next(), &asked.body["count"]), (Some("PATCH"), &json!(2)));
    play.hear(up());
    play.server.fails(404, "NotFound");
    play.server.says(201, written());
    assert_eq!(play.write().await, (vec!["PATCH".to_owned(), "POST".to_owned()], 0));
    assert_eq!(play.herald.there.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_written_waits_and_what_is_refused_goes() {
    let mut play = Play::begin();
    play.hear(up());
    play.server.fails(503, "ServiceUnavailable");
    assert_eq!(play.write().await.1, 1, "it waits");
    assert!(play.herald.next().unwrap() > Instant::now());
    // It had arrived, and the answer had not.
    play.server.fails(409, "AlreadyExists");
    assert_eq!(play.write().await.1, 0);
    play.hear(Incident::SessionUp { peer: "tor-b".into() });
    play.server.fails(403, "Forbidden");
    assert_eq!(play.write().await.1, 0, "the same is refused again");
    // The API server is away: a bounded number waits, the newest of them.
    for n in 0..500 {
        let note = Note { peer: Some(n.to_string().into()), ..notes::of(up()) };
        play.herald.enqueue(note, Timestamp::now(), &world(None));
    }
    let waiting = &play.herald.queue;
    assert_eq!(waiting.len(), WAITING);
    assert_eq!(waiting.back().unwrap().note.peer.as_deref(), Some("499"));
}
