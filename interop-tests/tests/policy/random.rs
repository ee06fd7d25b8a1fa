//! Policies by chance, which change while packets flow: the oracle is asked about everybody with
//! everybody after each change. A failure names its seed, which makes the same again.

use rack::policy::judge::{Case, USUAL};
use rack::policy::people::namespace;
use rack::policy::random::{Dice, labels, namespace_labels, policies, policy};
use rack::policy::rig::Rig;

/// How often policies or labels change in the rig of one seed.
const CHANGES: usize = 6;

/// How many cases are tried after each.
const CASES: usize = 1500;

/// Whose labels change.
const PODS: [&str; 6] =
    ["front/web-1", "front/web-2", "back/db-1", "back/api-1", "ops/dns-1", "back/plain-1"];

fn play(seed: u64) {
    let mut rig = Rig::start().unwrap();
    let mut dice = Dice::new(seed);
    let mut now = policies(&mut dice);
    rig.set_policies(&now).unwrap();
    for change in 0..CHANGES {
        let what = format!("seed {seed}, change {change}");
        let cases = chosen(&rig, &mut dice);
        rig.agree(&what, &cases).unwrap_or_else(|error| panic!("{error:#}"));
        match dice.below(5) {
            0 => now = policies(&mut dice),
            1 => {
                let number = dice.below(now.len());
                let new = policy(&mut dice, number);
                now[number] = new;
            }
            2 if now.len() > 1 => {
                now.remove(dice.below(now.len()));
            }
            3 => {
                let labels = labels(&mut dice);
                rig.relabel(dice.pick(&PODS).unwrap(), &labels).unwrap();
            }
            _ => {
                let names: &[&str] = &["front", "back", "ops"];
                let keep = 1 + dice.below(names.len());
                let labelled = names.iter().take(keep);
                let all: Vec<_> =
                    labelled.map(|name| namespace(name, &namespace_labels(&mut dice))).collect();
                rig.set_namespaces(&all).unwrap();
            }
        }
        rig.set_policies(&now).unwrap();
    }
}

/// Some of everything.
fn chosen<'a>(rig: &'a Rig, dice: &mut Dice) -> Vec<Case<'a>> {
    let mut all = rig.everybody(&USUAL);
    let mut few = Vec::new();
    while few.len() < CASES && !all.is_empty() {
        few.push(all.swap_remove(dice.below(all.len())));
    }
    few
}

#[test]
fn seeds_1_and_2() {
    [1, 2].into_iter().for_each(play);
}

#[test]
fn seeds_3_and_4() {
    [3, 4].into_iter().for_each(play);
}

#[test]
fn seeds_5_and_6() {
    [5, 6].into_iter().for_each(play);
}

#[test]
fn seeds_7_and_8() {
    [7, 8].into_iter().for_each(play);
}

/// As many more as `FLOCK_POLICY_SEEDS` says.
#[test]
fn seeds_beyond() {
    let more = std::env::var("FLOCK_POLICY_SEEDS").ok().and_then(|more| more.parse().ok());
    (100..100 + more.unwrap_or(0)).for_each(play);
}
