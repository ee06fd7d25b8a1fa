//! `flock-agent drain`: takes this node out of service, gently. The agent does it; here it is asked
//! for, followed and undone.

mod follow;
mod status;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;

use super::Show;
use super::ask::ask;
use super::exit::Ended;
use super::output;
use super::view::View;
use crate::server::admin::{NoArgs, op};
pub use status::{DrainArgs, DrainSession, DrainState, DrainStatus, Wait};

/// Below the flags.
pub(super) const HELP: &str = "\
Peers are told GRACEFUL_SHUTDOWN (RFC 8326) and find other ways; after the wait, routes are \
withdrawn and every session ends. Ctrl-C stops watching, not the drain. Pods keep running.

Exit status: 0 drained (or undone, or shown), 1 it failed, 2 the agent cannot be asked, 130 no \
longer watched: the drain goes on.

Examples:
  flock-agent drain
  flock-agent drain --wait 2m
  flock-agent drain --status -o json
  flock-agent drain --undo";

/// How to drain.
#[derive(Debug, Clone, Args)]
pub struct Drain {
    /// How long peers get to move traffic away before routes are withdrawn
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub wait: Wait,

    /// Put the node back into service
    #[arg(long, conflicts_with = "wait")]
    pub undo: bool,

    /// Show how far it is, and change nothing
    #[arg(long, conflicts_with_all = ["wait", "undo"])]
    pub status: bool,

    /// The form of the status
    #[arg(short, long, value_name = "FORM", default_value = "table", requires = "status")]
    pub output: output::Form,

    /// Show the status again whenever it changes, until Ctrl-C
    #[arg(short = 'w', long, requires = "status")]
    pub watch: bool,

    /// The running agent's socket
    #[arg(long, env = "FLOCK_ADMIN_SOCKET", hide_env_values = true, value_name = "PATH", default_value = super::ADMIN_SOCKET)]
    pub admin_socket: PathBuf,
}

/// Drains and watches, or undoes it.
pub fn run(drain: &Drain) -> anyhow::Result<Ended> {
    let socket = &drain.admin_socket;
    if drain.status {
        let show = Show { admin_socket: socket.clone(), output: drain.output, watch: drain.watch };
        return the_status().show(&show);
    }
    if drain.undo {
        output::print(undo(socket)?)?;
        return Ok(Ended::Done);
    }
    let begun = ask(socket, op::DRAIN, &DrainArgs { wait_seconds: drain.wait })?;
    follow::run(socket, begun)
}

/// How far it is.
fn the_status() -> View<'static, DrainStatus> {
    View::new(op::DRAIN_STATUS, |status: &DrainStatus, look| Ok(status::render(status, look)))
        .with_clocks(&["secondsLeft"])
}

/// Undoes it, and says what that came to.
fn undo(socket: &Path) -> anyhow::Result<&'static str> {
    let before: DrainStatus = ask(socket, op::DRAIN_STATUS, &NoArgs {})?;
    let after: DrainStatus = ask(socket, op::DRAIN_UNDO, &NoArgs {})?;
    if after.state != DrainState::None {
        bail!("the drain is not undone: the agent is still {}", after.state);
    }
    Ok(match before.state {
        DrainState::None => "There is no drain to undo; the node is in service.\n",
        DrainState::Draining => "The drain is undone; routes are advertised as before.\n",
        DrainState::Drained => "The drain is undone; sessions come up again.\n",
    })
}
