//! Files that are not what they should be: the others count, what was good before stays, and somebody is told.

use rack::manifests::Writing;
use rack::policy::people::Home;
use rack::policy::rig::Rig;
use rack::wait::{PATIENCE, until};

use super::{AJAR, SHUT, agree, check, policies, rig};

/// What is no policy, in several ways.
const BROKEN: [(&str, &str); 6] = [
    ("no-yaml.yaml", "kind: [NetworkPolicy\n"),
    (
        "operator.yaml",
        r#"{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":"front","name":"x"},
           "spec":{"podSelector":{"matchExpressions":[{"key":"app","operator":"Like","values":["w"]}]}}}"#,
    ),
    (
        "block.yaml",
        r#"{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":"front","name":"x"},
           "spec":{"podSelector":{},"ingress":[{"from":[{"ipBlock":{"cidr":"10.0.0.0/33"}}]}]}}"#,
    ),
    (
        "except.yaml",
        r#"{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":"front","name":"x"},
           "spec":{"podSelector":{},"ingress":[{"from":[{"ipBlock":{"cidr":"10.0.0.0/8","except":["192.0.2.0/24"]}}]}]}}"#,
    ),
    (
        "range.yaml",
        r#"{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":"front","name":"x"},
           "spec":{"podSelector":{},"ingress":[{"ports":[{"port":90,"endPort":80}]}]}}"#,
    ),
    (
        "type.yaml",
        r#"{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":"front","name":"x"},
           "spec":{"podSelector":{},"policyTypes":["Sideways"]}}"#,
    ),
];

fn await_told(rig: &Rig, word: &str, wanted: bool) {
    until(&format!("check to speak of {word}: {wanted}"), PATIENCE, || {
        let said = check(rig.node(Home::A));
        anyhow::ensure!(said.contains(word) == wanted, "{said}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_bad_file_beside_good_ones() {
    let mut rig = rig(SHUT);
    for (name, text) in BROKEN {
        let path = format!("networkpolicies/{name}");
        rig.node(Home::A).write(&path, text, Writing::Renamed).unwrap();
        await_told(&rig, name, true);
        agree(&rig, name);
        // The good ones are still read.
        let next = if rig.world().policies == policies(SHUT) { AJAR } else { SHUT };
        rig.set_policies(&policies(next)).unwrap();
        agree(&rig, name);
        std::fs::remove_file(rig.node(Home::A).file("standalone").join(&path)).unwrap();
        await_told(&rig, name, false);
    }
}

#[test]
fn a_good_policy_that_becomes_a_bad_one_stays_as_it_was() {
    let mut rig = rig(SHUT);
    let path = "networkpolicies/back.deny.yaml";
    let good = std::fs::read_to_string(rig.node(Home::A).file("standalone").join(path)).unwrap();
    for writing in [Writing::Renamed, Writing::InPlace] {
        for (_, bad) in BROKEN {
            let bad = bad.replace("front", "back").replace("\"x\"", "\"deny\"");
            rig.node(Home::A).write(path, &bad, writing).unwrap();
            await_told(&rig, "back.deny.yaml", true);
            rig.pass_gates().unwrap();
            agree(&rig, "with the last good one");
            rig.node(Home::A).write(path, &good, writing).unwrap();
            await_told(&rig, "back.deny.yaml", false);
        }
    }
    rig.set_policies(&policies(AJAR)).unwrap();
    agree(&rig, "mended");
}

/// Files of namespaces and pods that cannot be read change nothing either.
#[test]
fn bad_namespaces_and_pods() {
    let rig = rig(AJAR);
    for path in ["namespaces/back.yaml", "pods/back.api-1.yaml"] {
        let file = rig.node(Home::A).file("standalone").join(path);
        let good = std::fs::read_to_string(&file).unwrap();
        rig.node(Home::A).write(path, "metadata: [", Writing::Renamed).unwrap();
        await_told(&rig, path.split('/').next_back().unwrap(), true);
        rig.pass_gates().unwrap();
        agree(&rig, path);
        rig.node(Home::A).write(path, &good, Writing::Renamed).unwrap();
        await_told(&rig, path.split('/').next_back().unwrap(), false);
        agree(&rig, path);
    }
}

/// A policy that selects nobody leaves everything open, and the rules as few as they can be.
#[test]
fn a_policy_for_nobody_changes_nothing() {
    let mut rig = rig(&[]);
    let nobody = [("back/nobody", "{ podSelector: { matchLabels: { app: nobody } } }")];
    rig.set_policies(&policies(&nobody)).unwrap();
    agree(&rig, "a policy for nobody");
}
