//! The kernel refuses a change: what was in force stays, it is told, a pod that would be open is not
//! attached, and it is tried again until it works.

use rack::policy::people::Home;
use rack::wait::{PATIENCE, until};

use super::never_open::{announce, strangers, watched};
use super::watch::{Hammer, leaked};
use super::{AJAR, SHUT, agree, check, policies, rig};

/// So many failures one after the other, of one point.
fn armed(times: u32) -> String {
    let all: Vec<_> = (1..=times).map(|pass| format!("policy.change=error@{pass}")).collect();
    all.join(",")
}

#[test]
fn a_change_that_fails_is_told_and_tried_again() {
    let mut rig = rig(SHUT);
    rig.node_mut(Home::A).restart_with(&[("FLOCK_FAULT", &armed(3))]).unwrap();
    agree(&rig, "before the change");
    rig.write_policies(&policies(AJAR)).unwrap();
    until("the failure in the log", PATIENCE, || {
        let log = rig.node(Home::A).log()?;
        anyhow::ensure!(log.contains("policy.change"), "{log}");
        Ok(())
    })
    .unwrap();
    agree(&rig, "after it was tried again");
    until("nothing to be told any more", PATIENCE, || {
        let said = check(rig.node(Home::A));
        anyhow::ensure!(!said.contains("policy.change"), "{said}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_pod_whose_rules_fail_is_not_attached() {
    let mut rig = rig(SHUT);
    let targets = announce(&rig);
    // The agent has read of the pod before it is armed, and does nothing more before ADD.
    rig.pass_gates().unwrap();
    rig.node_mut(Home::A).restart_with(&[("FLOCK_FAULT", &armed(1))]).unwrap();
    let hammers: Vec<_> =
        strangers(&rig).into_iter().map(|from| Hammer::start(&rig, from, targets)).collect();
    let plugin = rig.node(Home::A).plugin().unwrap();
    let pod = watched(&rig);
    let refusal = plugin.try_add(&pod).unwrap().unwrap_err();
    assert!(refusal.to_string().contains("policy.change"), "{refusal}");
    hammers.iter().for_each(|hammer| hammer.await_more(20));
    plugin.add(&pod).unwrap();
    hammers.iter().for_each(|hammer| hammer.await_more(20));
    assert_eq!(leaked(&pod.netns), 0);
    drop(hammers);
    agree(&rig, "with the pod");
}
