//! What the task makes of what it is told. The kernel is not touched: nothing is begun.

use std::collections::BTreeMap;

use flock_dataplane::policy::Profile;

use super::*;
use crate::policy::labels::Labels;
use crate::policy::parse::from_manifest;
use crate::source::{NodeState, PodFacts, Pods, Secrets};
use crate::store::{Allocation, Key};

const DENY_WEB: &str = "
metadata: {name: deny}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}
";

fn facts(uid: &str, app: &str) -> PodFacts {
    PodFacts {
        key: PodKey { namespace: "default".into(), name: "web-0".into() },
        uid: uid.into(),
        static_uid: None,
        annotations: BTreeMap::new(),
        app: Arc::default(),
        image: Arc::default(),
        ready: true,
        terminating: false,
        labels: Arc::new(Labels::new(&BTreeMap::from([("app".into(), app.into())]))),
        ports: Arc::default(),
    }
}

fn world(pod: Option<PodFacts>) -> Arc<World> {
    let mut pods = Pods::complete();
    if let Some(pod) = pod {
        pods.set(&pod.key.clone(), Some(Arc::new(pod)));
    }
    Arc::new(World {
        node: NodeState::Unknown { reason: String::new() },
        pods,
        problems: Arc::default(),
        secrets: Secrets::default(),
        object: None,
        away: None,
    })
}

fn record() -> Allocation {
    let key = Key { container_id: "c".into(), ifname: "eth0".into() };
    let mut record = Allocation::new(&key, jiff::Timestamp::UNIX_EPOCH);
    record.namespace = "default".into();
    record.pod_name = "web-0".into();
    record.owner_uid = "first".into();
    record.host_ifname = Some("flock0".into());
    record.ip4 = Some("10.0.0.1".parse().unwrap());
    record
}

async fn held_to(gate: &Gate) -> Option<Profile> {
    let question = |view: &View<'_>| view.engine.isolation("flock0", Direction::Ingress).profile;
    gate.ask(question).await.unwrap()
}

#[tokio::test]
async fn a_pod_that_is_not_told_of_any_more_stays_what_it_was() {
    let (tell, worlds) = watch::channel(world(None));
    let policies = from_manifest(DENY_WEB).unwrap().into_iter();
    let policies = policies.map(|policy| (policy.key.clone(), Arc::new(policy))).collect();
    let cluster = Cluster { policies, complete: true, ..Cluster::default() };
    let (_clusters, told) = watch::channel(Arc::new(cluster));
    let gate = start(Parts {
        source: Source::told_by(worlds, told),
        dataplane: Dataplane::start().unwrap(),
        metrics: Metrics::start(),
        incidents: Incidents::default(),
        news: News::default(),
    });
    // Nothing is known of it: closed to whatever the policies of its namespace speak of.
    gate.admit(&record()).await.unwrap();
    assert_eq!(held_to(&gate).await, Some(Profile::CLOSED));
    for (pod, isolated, why) in [
        (Some(facts("first", "other")), false, "no policy selects it"),
        (Some(facts("first", "web")), true, "one does"),
        (None, true, "deleted by force, and perhaps still there"),
        (Some(facts("second", "other")), true, "its name is another pod's now"),
        (Some(facts("first", "other")), false, "it has other labels"),
    ] {
        tell.send_replace(world(pod));
        assert_eq!(held_to(&gate).await.is_some(), isolated, "{why}");
    }
    gate.release("flock0").await;
    assert_eq!(held_to(&gate).await, None);
}
