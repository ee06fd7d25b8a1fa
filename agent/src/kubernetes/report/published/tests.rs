use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::script::Script;
use super::*;
use crate::cli::bgp::sample;
use crate::config::parse;
use crate::kubernetes::status::Peer;
use crate::source::{NodeState, Object, Pods, Secrets, Standing, World};

fn made() -> Status {
    let peer = Peer {
        name: "tor-a".into(),
        address: "192.0.2.1".into(),
        asn: Some(65000),
        state: PeerState::Established,
        since: Some(Time(Timestamp::UNIX_EPOCH)),
        families: vec![],
        received: 1,
        accepted: 1,
        advertised: 1,
        last_error: None,
    };
    let condition = Condition {
        type_: "Ready".into(),
        status: "True".into(),
        reason: "Serving".into(),
        message: "new pods are served".into(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: Some(1),
    };
    Status {
        observed_generation: Some(1),
        conditions: vec![condition],
        sessions: Some("1/1".into()),
        networks: vec![],
        peers: vec![peer],
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_state_is_sent_at_once_and_a_count_in_a_minute() {
    let at = Instant::now();
    let sent = Sent { status: made(), at };
    assert_eq!(due(None, &made()), Some(at), "the first one");
    assert_eq!(due(Some(&sent), &made()), None, "nothing changed");
    type Change = fn(&mut Status);
    let table: [(&str, Change, Duration); 9] = [
        ("routes", |status| status.peers[0].received = 2, COUNTS),
        ("words", |status| status.conditions[0].message = "x".into(), COUNTS),
        ("an error of before", |status| status.peers[0].last_error = Some("x".into()), COUNTS),
        ("a verdict", |status| status.conditions[0].status = "False".into(), SPACING),
        ("a reason", |status| status.conditions[0].reason = "X".into(), SPACING),
        ("seen", |status| status.conditions[0].observed_generation = Some(2), SPACING),
        ("in force", |status| status.observed_generation = Some(2), SPACING),
        ("a session", |status| status.peers[0].state = PeerState::Idle, SPACING),
        ("a peer", |status| status.peers.clear(), SPACING),
    ];
    for (name, change, after) in table {
        let mut now = made();
        change(&mut now);
        assert_eq!(due(Some(&sent), &now), Some(at + after), "{name}");
    }
    let (mut down, mut trying) = (made(), made());
    (down.peers[0].state, trying.peers[0].state) = (PeerState::Active, PeerState::Connect);
    let sent = Sent { status: down, at };
    assert_eq!(due(Some(&sent), &trying), None, "another attempt is no news");
}

#[test]
fn the_body_is_what_server_side_apply_asks_for() {
    let body = body("node-1", &made());
    assert_eq!(body["apiVersion"], "flock.fritzlab.net/v1alpha1");
    assert_eq!(
        (&body["kind"], &body["metadata"]),
        (&"NodeConfig".into(), &json!({"name": "node-1"}))
    );
    assert_eq!(body["status"]["conditions"][0]["type"], "Ready");
    assert_eq!(body["status"]["peers"][0]["state"], "Established");
    assert_eq!(body.as_object().map(|body| body.len()), Some(4), "and nothing else");
}

/// A NodeConfig in force, with a peer that is up or not.
fn facts(up: bool, routes: u32) -> Facts {
    let [mut peer, _] = sample::peers();
    (peer.not_announced, peer.pending, peer.received) = (vec![], None, routes);
    if !up {
        (peer.state, peer.uptime_seconds, peer.flaps) = (PeerState::Active, 0, 1);
    }
    let text = "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {name: n}\n\
                spec: {cidr4: [10.1.0.0/24], bgp: {asn: 65001}}\n";
    let config = Arc::new(parse(text).unwrap());
    let world = World {
        node: NodeState::Known { config, standing: Standing::InForce },
        pods: Pods::default(),
        problems: Arc::default(),
        secrets: Secrets::default(),
        object: Some(Object { uid: "u".into(), generation: 1 }),
        away: None,
    };
    Facts {
        world: Arc::new(world),
        following: Some(1),
        refused: None,
        speaking: true,
        young: false,
        drained: false,
        peers: vec![peer],
        conflicts: Arc::default(),
        policies: crate::policy::Standing::Idle,
        pools: vec![],
        now: Timestamp::UNIX_EPOCH,
    }
}

struct Play {
    server: Script,
    publisher: Publisher,
}

impl Play {
    fn begin() -> Self {
        let server = Script::default();
        let publisher = Publisher::new(&server.client(), "n".into(), Metrics::start());
        Self { server, publisher }
    }

    /// After some seconds something is looked at: what the API server is asked because of it.
    async fn step(&mut self, seconds: u64, uid: Option<&str>, facts: Facts) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.publisher.step(uid.map(str::to_owned), async || facts).await;
        let asked = self.server.asked();
        let lines = asked.iter().map(|asked| asked.line.split('?').next().unwrap().to_owned());
        lines.collect()
    }
}

const OBJECT: &str = "/apis/flock.fritzlab.net/v1alpha1/nodeconfigs/n";

fn read() -> String {
    format!("GET {OBJECT}")
}

fn written() -> String {
    format!("PATCH {OBJECT}/status")
}

fn object(uid: &str, status: Option<&Status>) -> Value {
    let mut object = json!({
        "apiVersion": "flock.fritzlab.net/v1alpha1", "kind": "NodeConfig",
        "metadata": { "name": "n", "uid": uid },
    });
    if let Some(status) = status {
        object["status"] = json!(status);
    }
    object
}

#[tokio::test(start_paused = true)]
async fn what_changes_is_written_and_nothing_else() {
    let mut play = Play::begin();
    assert!(play.step(0, None, facts(true, 1)).await.is_empty(), "there is no object");
    play.server.says(200, object("u", None));
    play.server.says(200, object("u", None));
    assert_eq!(play.step(0, Some("u"), facts(true, 1)).await, [read(), written()]);
    assert!(play.step(600, Some("u"), facts(true, 1)).await.is_empty(), "nothing changed");
    play.server.says(200, object("u", None));
    assert_eq!(play.step(600, Some("u"), facts(false, 1)).await, [written()]);
    assert!(play.step(0, Some("u"), facts(true, 1)).await.is_empty(), "once a second");
    play.server.says(200, object("u", None));
    assert_eq!(play.step(1, Some("u"), facts(true, 1)).await, [written()]);
    assert!(play.step(30, Some("u"), facts(true, 2)).await.is_empty(), "it only counts");
    play.server.says(200, object("u", None));
    assert_eq!(play.step(30, Some("u"), facts(true, 3)).await, [written()]);
}

#[tokio::test(start_paused = true)]
async fn it_is_applied_by_our_name_and_takes_our_fields() {
    let mut play = Play::begin();
    play.server.says(200, object("u", None));
    play.server.says(200, object("u", None));
    play.publisher.step(Some("u".into()), async || facts(true, 1)).await;
    let asked = play.server.asked();
    let line = &asked[1].line;
    assert!(line.contains("fieldManager=flock-agent") && line.contains("force=true"), "{line}");
    assert_eq!(asked[1].body["status"]["sessions"], "1/1");
}

#[tokio::test(start_paused = true)]
async fn a_restart_finds_its_own_status_and_keeps_its_times() {
    let before = status(&facts(true, 1), &Status::default());
    let mut play = Play::begin();
    play.server.says(200, object("u", Some(&before)));
    let mut later = facts(true, 1);
    later.now = Timestamp::from_second(3).unwrap();
    later.peers[0].uptime_seconds += 3;
    assert_eq!(play.step(0, Some("u"), later).await, [read()], "it is there already");
    // One that somebody else wrote is no reason to fail.
    let mut play = Play::begin();
    let mut strange = object("u", None);
    strange["status"] = json!({ "conditions": "none" });
    play.server.says(200, strange);
    play.server.says(200, object("u", None));
    assert_eq!(play.step(0, Some("u"), facts(true, 1)).await, [read(), written()]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_made_anew_gets_it_again() {
    let mut play = Play::begin();
    for uid in ["u", "u", "v", "v"] {
        play.server.says(200, object(uid, None));
    }
    assert_eq!(play.step(0, Some("u"), facts(false, 1)).await, [read(), written()]);
    assert!(play.step(60, None, facts(false, 1)).await.is_empty(), "deleted");
    let mut again = facts(false, 1);
    again.now = Timestamp::from_second(60).unwrap();
    assert_eq!(play.step(0, Some("v"), again).await, [read(), written()]);
    let made = play.publisher.made.unwrap();
    assert_eq!(made.peers[0].since, Some(Time(Timestamp::UNIX_EPOCH)), "down since before");
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_with_the_newest() {
    let mut play = Play::begin();
    play.server.says(200, object("u", None));
    play.server.fails(503, "ServiceUnavailable");
    assert_eq!(play.step(0, Some("u"), facts(true, 1)).await, [read(), written()]);
    assert!(play.step(0, Some("u"), facts(true, 1)).await.is_empty(), "not at once");
    play.server.says(200, object("u", None));
    tokio::time::sleep(Duration::from_secs(2)).await;
    play.publisher.step(Some("u".into()), async || facts(false, 9)).await;
    let [asked] = play.server.asked().try_into().unwrap();
    assert_eq!(asked.body["status"]["sessions"], "0/1", "the newest, once");
    assert!(play.step(60, Some("u"), facts(false, 9)).await.is_empty());
    // Deleted a moment ago: tried again a minute later at the earliest, and without a word.
    play.server.fails(404, "NotFound");
    assert_eq!(play.step(1, Some("u"), facts(true, 9)).await, [written()]);
    assert!(play.step(30, Some("u"), facts(true, 9)).await.is_empty());
    play.server.says(200, object("u", None));
    assert_eq!(play.step(60, Some("u"), facts(true, 9)).await, [written()]);
    // The first look fails: nothing is written before it is known what is there.
    let mut play = Play::begin();
    play.server.fails(500, "InternalError");
    assert_eq!(play.step(0, Some("u"), facts(true, 1)).await, [read()]);
    for _ in 0..2 {
        play.server.says(200, object("u", None));
    }
    assert_eq!(play.step(2, Some("u"), facts(true, 1)).await, [read(), written()]);
}
