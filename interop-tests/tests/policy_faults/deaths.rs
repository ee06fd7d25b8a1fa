//! An agent dies amid a change of policies, or of its start, or is simply away: what was in force stays in
//! force, and the next start puts everything right.

use rack::policy::judge::{Case, USUAL};
use rack::policy::people::Home;
use rack::policy::rig::Rig;

use super::{AJAR, SHUT, agree, agree_on_a, of_a, policies, rig};

/// The points at which it dies here.
pub(crate) const POINTS: [&str; 2] = ["policy.change", "policy.replace"];

/// In the middle of the Nth change: the rules are the old or the new ones, whole.
fn dies_in_change(pass: u32) {
    let mut rig = rig(SHUT);
    let armed = format!("{}=kill@{pass}", POINTS[0]);
    rig.node_mut(Home::A).restart_with(&[("FLOCK_FAULT", &armed)]).unwrap();
    let mut before = rig.world().clone();
    for turn in 0..20 {
        before = rig.world().clone();
        let next = if turn % 2 == 0 { AJAR } else { SHUT };
        rig.write_policies(&policies(next)).unwrap();
        if !rig.pass_gates_unless_it_dies(Home::A).unwrap() {
            break;
        }
    }
    rig.node_mut(Home::A).await_death().unwrap();
    let cases = of_a(&rig);
    let same = |case: &&Case<'_>| case.judged(&before).allowed == rig.oracle(case).allowed;
    let same: Vec<_> = cases.iter().filter(same).cloned().collect();
    rig.agree("with its agent dead", &same).unwrap_or_else(|error| panic!("{error:#}"));
    rig.node_mut(Home::A).restart_with(&[]).unwrap();
    agree(&rig, "after the next start");
}

#[test]
fn in_the_first_change() {
    dies_in_change(1);
}

#[test]
fn in_the_second_change() {
    dies_in_change(2);
}

#[test]
fn in_the_fifth_change() {
    dies_in_change(5);
}

/// Away, with everything changed meanwhile: the old rules hold. Then it dies in the replacement of all, and
/// at last it starts.
#[test]
fn away_and_in_its_start() {
    let mut rig = rig(SHUT);
    let before = rig.world().clone();
    rig.node_mut(Home::A).kill().unwrap();
    rig.write_policies(&policies(AJAR)).unwrap();
    agree_on_a(&rig, "without its agent", &before);
    let armed = format!("{}=kill", POINTS[1]);
    rig.node_mut(Home::A).start_with(&[("FLOCK_FAULT", &armed)]).unwrap();
    rig.node_mut(Home::A).await_death().unwrap();
    let cases = of_a(&rig);
    let same = |case: &&Case<'_>| case.judged(&before).allowed == rig.oracle(case).allowed;
    let same: Vec<_> = cases.iter().filter(same).cloned().collect();
    rig.agree("after a start that died", &same).unwrap_or_else(|error| panic!("{error:#}"));
    rig.node_mut(Home::A).restart_with(&[]).unwrap();
    agree(&rig, "after the next start");
}

/// A start finds its rules and interrupts nobody: what is allowed is answered all the time, what is denied
/// never.
#[test]
fn a_restart_interrupts_nothing() {
    let mut rig = rig(AJAR);
    for turn in 0..3 {
        rig.node_mut(Home::A).kill().unwrap();
        agree(&rig, &format!("killed, {turn}"));
        rig.node_mut(Home::A).start().unwrap();
        steady(&rig, turn);
        rig.node_mut(Home::A).await_ready().unwrap();
        steady(&rig, turn);
    }
}

/// Once, without patience for what is denied: nothing of it is answered.
fn steady(rig: &Rig, turn: usize) {
    let cases = rig.everybody(&USUAL);
    let verdicts: Vec<_> = cases.iter().map(|case| rig.oracle(case)).collect();
    let outcomes = rig.send(&cases, &verdicts).unwrap();
    for ((case, verdict), outcome) in cases.iter().zip(&verdicts).zip(&outcomes) {
        let answered = matches!(outcome, rack::policy::round::Outcome::Answered(_));
        assert!(verdict.allowed || !answered, "{case} in turn {turn}: {outcome:?}, {verdict}");
    }
}
