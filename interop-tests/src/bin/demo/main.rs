//! The demo: two ToRs that are BIRD and FRR, three nodes that run the real agent
//! without Kubernetes, pods attached by the real plugin; all of it in network
//! namespaces of this machine.
//!
//! Everything that is claimed is looked up in a kernel, asked of a router or tried
//! with packets. The exit code is true to what happened, and whatever happens
//! (Ctrl-C too) nothing stays behind on the machine. On a terminal it pauses between
//! its acts (`--no-pause` does not). With `--stand` nothing is played: the rack
//! stands until Ctrl-C, and tells how to look around in it.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a demo is there to be watched")]

mod acts;
mod apart;
mod company;
mod console;
mod matrix;
mod monitor;
mod stage;
mod standing;

use std::env;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use rack::remains::left_behind;
use rack::wait::interrupted;

use crate::apart::INTERRUPTED;
use crate::stage::Stage;

const USAGE: &str = "usage: demo [--no-pause | --stand]
  --no-pause  do not pause between the acts
  --stand     build the rack, tell how to enter it, and keep it until Ctrl-C";

/// What was asked for.
#[derive(Debug, Default, Clone, Copy)]
struct Wish {
    hurried: bool,
    stand: bool,
    /// We are the one of two processes that builds the rack.
    working: bool,
}

impl Wish {
    fn read(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut wish = Self::default();
        for argument in arguments {
            match argument.as_str() {
                "--no-pause" => wish.hurried = true,
                "--stand" => wish.stand = true,
                apart::WORKING => wish.working = true,
                other => bail!("{other:?} is not understood\n{USAGE}"),
            }
        }
        Ok(wish)
    }
}

fn main() -> ExitCode {
    let wish = match Wish::read(env::args().skip(1)) {
        Ok(wish) => wish,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    if wish.working {
        return perform(wish);
    }
    apart::watch().unwrap_or_else(|error| {
        eprintln!("{error:#}");
        ExitCode::FAILURE
    })
}

/// Plays or stands, and judges what it came to once everything is down again.
fn perform(wish: Wish) -> ExitCode {
    let mut stage = Stage::new(wish.hurried);
    let outcome = apart::leave()
        .and_then(|()| if wish.stand { standing::stand(&stage) } else { acts::play(&mut stage) });
    let left = left_behind();
    if !left.is_empty() {
        stage.regret(&format!("Left behind on this machine: {}", left.join(", ")));
    }
    match outcome {
        Ok(()) if left.is_empty() => {
            stage.finale("Everything worked, and nothing is left behind.");
            ExitCode::SUCCESS
        }
        // That is how a rack that stands is meant to end.
        Err(_) if interrupted() && wish.stand && left.is_empty() => {
            stage.finale("The rack is down, and nothing is left behind.");
            ExitCode::SUCCESS
        }
        Err(_) if interrupted() && left.is_empty() => {
            stage.regret("Interrupted; everything that the demo started is gone.");
            ExitCode::from(INTERRUPTED)
        }
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            stage.regret(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn milliseconds(since: Instant) -> String {
    format!("{:.1} ms", since.elapsed().as_secs_f64() * 1000.0)
}
