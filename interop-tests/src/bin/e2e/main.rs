//! `make e2e`: flock in a real Kubernetes, one scenario after another, each told as it ends.
//!
//! The cluster stands on this machine alone: a control plane, two nodes with kubelet and containerd, a
//! ToR that is a router. flock is the image that `make image` built, and the manifests are those of
//! `deploy/`, applied as a user applies them. The last line but for the skipped is the outcome, and the
//! exit code is true to it. With `FLOCK_E2E_KUBECONFIG` nothing is started: that cluster is used, and
//! what needs control over machines is left out by name.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it tells what it does")]

mod by_hand;
mod flock;
mod leaks;
mod lines;
mod objects;
mod scenarios;
mod stage;
mod standing;
mod story;
mod ways;
mod web;
mod wish;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use rack::remains::left_behind;
use rack::signals;
use rack::wait::{Limit, interrupted};

use crate::scenarios::{Needs, SCENARIOS, Scenario};
use crate::stage::Stage;
use crate::wish::Wish;

/// What it ends with when the user ended it.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let wish = match Wish::read(std::env::args().skip(1)) {
        Ok(wish) => wish,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::from(2);
        }
    };
    if wish.list {
        SCENARIOS.iter().for_each(|one| println!("{:<12} {}", one.name, one.about));
        return ExitCode::SUCCESS;
    }
    match play(&wish) {
        Ok(_) if interrupted() => ExitCode::from(INTERRUPTED),
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// How many of each.
#[derive(Debug, Default)]
struct Score {
    passed: usize,
    failed: usize,
    skipped: usize,
}

fn play(wish: &Wish) -> Result<bool> {
    signals::listen()?;
    let mut stage = Stage::new(wish)?;
    let mut score = Score::default();
    for scenario in SCENARIOS.iter().filter(|one| wish.wants(one.name)) {
        if interrupted() {
            break;
        }
        if scenario.needs == Needs::Machines && stage.is_foreign() {
            println!("skip {}: it needs control over machines", scenario.name);
            score.skipped += 1;
        } else if perform(scenario, &mut stage) {
            score.passed += 1;
        } else {
            score.failed += 1;
        }
    }
    if wish.keep && !interrupted() {
        standing::stand(&mut stage)?;
    }
    drop(stage);
    let left = left_behind();
    if !left.is_empty() {
        println!("FAIL left behind on this machine: {}", left.join(", "));
        score.failed += 1;
    }
    println!("\n{} passed, {} failed", score.passed, score.failed);
    if score.skipped > 0 {
        println!("{} skipped", score.skipped);
    }
    Ok(score.failed == 0)
}

/// Plays one scenario, and says how it went.
fn perform(scenario: &Scenario, stage: &mut Stage) -> bool {
    println!("---- {}: {}", scenario.name, scenario.about);
    let began = Instant::now();
    let limit = Limit::set(scenario.limit);
    let outcome = (scenario.play)(stage);
    drop(limit);
    let seconds = began.elapsed().as_secs();
    match outcome {
        Ok(()) => {
            println!("ok   {} ({seconds} s)", scenario.name);
            true
        }
        Err(error) => {
            println!("FAIL {} ({seconds} s): {error:#}", scenario.name);
            if !interrupted() {
                println!("{}", story::tell(stage));
            }
            false
        }
    }
}
