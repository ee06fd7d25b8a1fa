use super::super::script::{Asked, Script};
use super::*;

#[tokio::test(start_paused = true)]
async fn once_available_it_stays_so_unless_pods_are_unserved_for_long() {
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let no = || Some(("NoNodeConfig", "none".to_owned()));
    let said = |judge: &mut Judge, was, refused, now| {
        judge.judge(was, refused, now).map(|verdict| verdict.unavailable)
    };
    // A first start: not before pods are served.
    let mut judge = Judge::default();
    for was in [None, Some(true)] {
        assert_eq!(said(&mut judge, was, no(), at(0)), Some(true));
    }
    assert_eq!(said(&mut judge, Some(true), None, at(1)), Some(false));
    // Unserved for a moment, twice; then for long.
    let long = LONG.as_secs();
    assert_eq!(said(&mut judge, Some(false), no(), at(10)), None);
    assert_eq!(said(&mut judge, Some(false), no(), at(9 + long)), None);
    assert_eq!(said(&mut judge, Some(false), None, at(10 + long)), Some(false));
    assert_eq!(said(&mut judge, Some(false), no(), at(11 + long)), None);
    assert_eq!(said(&mut judge, Some(false), no(), at(11 + 2 * long)), Some(true));
    // A restart: the Node says what the agent before said.
    let mut judge = Judge::default();
    assert_eq!(said(&mut judge, Some(false), no(), at(0)), None);
    assert_eq!(said(&mut judge, Some(false), None, at(1)), Some(false));
}

#[test]
fn only_the_one_condition_is_sent() {
    let verdict = Verdict { unavailable: true, reason: "NoNodeConfig", message: "none".into() };
    let (then, now) = (Timestamp::UNIX_EPOCH, "2026-03-01T12:00:00.5Z".parse().unwrap());
    let wanted = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": "node-1" },
        "status": { "conditions": [{
            "type": "NetworkUnavailable",
            "status": "True",
            "reason": "NoNodeConfig",
            "message": "none",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
            "lastHeartbeatTime": "2026-03-01T12:00:00Z",
        }]},
    });
    assert_eq!(body("node-1", &verdict, then, now), wanted);
}

#[test]
fn what_a_node_says_of_its_network() {
    let node = |conditions: Value| -> Node {
        let body = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": { "conditions": conditions },
        });
        serde_json::from_value(body).unwrap()
    };
    let one = |kind: &str, status: &str| json!([{ "type": kind, "status": status, "lastTransitionTime": "2026-03-01T12:00:00Z" }]);
    assert_eq!(known(&node(one("Ready", "True"))).unavailable, None);
    assert_eq!(known(&node(one(CONDITION, "True"))).unavailable, Some(true));
    assert_eq!(known(&node(one(CONDITION, "Unknown"))).unavailable, None);
    let found = known(&node(one(CONDITION, "False")));
    assert_eq!(found.unavailable, Some(false));
    assert_eq!(found.since, Some("2026-03-01T12:00:00Z".parse().unwrap()));
}

fn node(condition: Option<(&str, &str)>) -> Value {
    let conditions: Vec<Value> = condition
        .map(|(status, since)| {
            json!({ "type": CONDITION, "status": status, "lastTransitionTime": since })
        })
        .into_iter()
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" },
        "status": { "conditions": conditions },
    })
}

/// What is asked when a speaker looks after some seconds.
async fn look(server: &Script, speaker: &mut Speaker, after: u64, served: bool) -> Vec<Asked> {
    tokio::time::sleep(Duration::from_secs(after)).await;
    speaker.step(async || (!served).then(|| ("NoNodeConfig", "none".to_owned()))).await;
    server.asked()
}

#[tokio::test(start_paused = true)]
async fn a_first_start_closes_the_node_and_opens_it() {
    let server = Script::default();
    let mut speaker = Speaker::new(&server.client(), "n".into(), Metrics::start());
    for _ in 0..3 {
        server.says(200, node(None));
    }
    let asked = look(&server, &mut speaker, 0, false).await;
    assert_eq!(asked[0].line, "GET /api/v1/nodes/n");
    assert!(asked[1].line.starts_with("PATCH /api/v1/nodes/n/status?"), "{}", asked[1].line);
    assert!(asked[1].line.contains("fieldManager=flock-agent-network"), "{}", asked[1].line);
    assert!(asked[1].line.contains("force=true"), "{}", asked[1].line);
    let said = |asked: &Asked| asked.body["status"]["conditions"][0]["status"].clone();
    assert_eq!(said(&asked[1]), "True");
    assert!(look(&server, &mut speaker, 1, false).await.is_empty(), "it is said");
    let asked = look(&server, &mut speaker, 1, true).await;
    assert_eq!(said(&asked[0]), "False");
    assert!(look(&server, &mut speaker, 60, true).await.is_empty());
    assert!(look(&server, &mut speaker, 10, false).await.is_empty(), "for a moment");
    server.says(200, node(None));
    let asked = look(&server, &mut speaker, LONG.as_secs(), false).await;
    assert_eq!(said(&asked[0]), "True", "for long");
}

#[tokio::test(start_paused = true)]
async fn a_restart_says_the_same_with_the_same_time() {
    let server = Script::default();
    let mut speaker = Speaker::new(&server.client(), "n".into(), Metrics::start());
    server.says(200, node(Some(("False", "2026-03-01T12:00:00Z"))));
    let asked = look(&server, &mut speaker, 0, false).await;
    assert_eq!(asked.len(), 1, "not served yet, and nothing is said of it: {asked:?}");
    server.says(200, node(None));
    let asked = look(&server, &mut speaker, 1, true).await;
    let condition = &asked[0].body["status"]["conditions"][0];
    assert_eq!(condition["lastTransitionTime"], "2026-03-01T12:00:00Z");
    assert_eq!(condition["reason"], "FlockIsServing");
    // Said again now and then.
    assert!(look(&server, &mut speaker, 300, true).await.is_empty());
    server.says(200, node(None));
    assert_eq!(look(&server, &mut speaker, 600, true).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_there_yet_is_waited_for() {
    let server = Script::default();
    let mut speaker = Speaker::new(&server.client(), "n".into(), Metrics::start());
    server.fails(404, "NotFound");
    assert_eq!(look(&server, &mut speaker, 0, true).await.len(), 1);
    assert!(look(&server, &mut speaker, 1, true).await.is_empty());
    server.says(200, node(None));
    server.fails(404, "NotFound");
    assert_eq!(look(&server, &mut speaker, 80, true).await.len(), 2, "gone between the two");
    server.says(200, node(Some(("True", "2026-03-01T12:00:00Z"))));
    server.says(200, node(None));
    let asked = look(&server, &mut speaker, 80, true).await;
    assert!(asked[0].line.starts_with("GET"), "what the new one says is read first");
    assert_eq!(asked.len(), 2);
}

/// Kubernetes 1.20 and a dual-stack node.
#[tokio::test(start_paused = true)]
async fn where_nothing_can_be_applied_the_one_condition_is_merged() {
    let server = Script::default();
    let mut speaker = Speaker::new(&server.client(), "n".into(), Metrics::start());
    server.says(200, node(None));
    server.fails(500, ".status.addresses: duplicate entries for key [type=\"InternalIP\"]");
    server.says(200, node(None));
    let asked = look(&server, &mut speaker, 0, true).await;
    assert_eq!(asked.len(), 3, "at once: {asked:?}");
    assert!(asked[1].line.contains("force=true"), "{}", asked[1].line);
    assert!(!asked[2].line.contains("force="), "{}", asked[2].line);
    assert_eq!(asked[1].body, asked[2].body, "and in both no other condition");
    server.says(200, node(None));
    let asked = look(&server, &mut speaker, 900, true).await;
    assert_eq!(asked.len(), 1, "it is not tried again each time");
    assert!(!asked[0].line.contains("force="), "{}", asked[0].line);
}
