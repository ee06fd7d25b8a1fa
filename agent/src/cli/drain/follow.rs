//! Watches a drain until it is over. On a terminal one line is written over once a second;
//! elsewhere a line is written when something happens, and the passing of seconds is nothing.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};

use super::status::{DrainState, DrainStatus};
use crate::cli::ask::ask;
use crate::cli::bgp::PeerState;
use crate::cli::exit::Ended;
use crate::cli::output;
use crate::server::admin::{NoArgs, op};

const EVERY: Duration = Duration::from_secs(1);
/// How often an agent that does not answer is asked before that is an error.
const TRIES: u32 = 15;
/// Back to the line's beginning, and clear it.
const OVER: &str = "\r\x1b[K";
const STOPPED: &str =
    "Stopped watching. The drain goes on; undo it with `flock-agent drain --undo`.\n";

/// Watches until the node is drained, or Ctrl-C.
pub(super) fn run(socket: &Path, begun: DrainStatus) -> anyhow::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let socket = socket.to_owned();
    let ask_again = async || {
        let socket = socket.clone();
        let question = move || ask(&socket, op::DRAIN_STATUS, &NoArgs {});
        tokio::task::spawn_blocking(question).await?
    };
    let interrupt = async {
        // Without a handler Ctrl-C ends the process, which ends the watch as well.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let progress = Progress::new(output::terminal(), output::print);
    let ended = runtime.block_on(watch(begun, ask_again, interrupt, progress));
    // A question under way is not waited for.
    runtime.shutdown_background();
    ended
}

pub(super) async fn watch(
    begun: DrainStatus,
    ask_again: impl AsyncFn() -> anyhow::Result<DrainStatus>,
    interrupt: impl Future<Output = ()>,
    mut progress: Progress<impl FnMut(&str) -> anyhow::Result<()>>,
) -> anyhow::Result<Ended> {
    let ended = tokio::select! {
        outcome = until_drained(begun, ask_again, &mut progress) => outcome.map(|()| Ended::Done),
        () = interrupt => Ok(Ended::Interrupted),
    };
    progress.end_line()?;
    if matches!(ended, Ok(Ended::Interrupted)) {
        progress.print(STOPPED)?;
    }
    ended
}

async fn until_drained(
    begun: DrainStatus,
    ask_again: impl AsyncFn() -> anyhow::Result<DrainStatus>,
    progress: &mut Progress<impl FnMut(&str) -> anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let mut status = begun;
    loop {
        if status.state == DrainState::None {
            bail!("somebody undid the drain; the node is in service");
        }
        progress.show(&status)?;
        if status.state == DrainState::Drained {
            return Ok(());
        }
        status = patiently(&ask_again).await?;
    }
}

/// An agent that is restarted meanwhile goes on with the drain, and answers again soon.
async fn patiently(
    ask_again: &impl AsyncFn() -> anyhow::Result<DrainStatus>,
) -> anyhow::Result<DrainStatus> {
    let mut tries = 0;
    loop {
        tokio::time::sleep(EVERY).await;
        tries += 1;
        match ask_again().await {
            Err(_) if tries < TRIES => {}
            answer => return answer.context("the drain was begun, but cannot be watched"),
        }
    }
}

/// What is printed of it.
pub(super) struct Progress<P> {
    terminal: bool,
    print: P,
    /// The line that stands there, without what changes by itself.
    said: Option<String>,
}

impl<P: FnMut(&str) -> anyhow::Result<()>> Progress<P> {
    pub(super) fn new(terminal: bool, print: P) -> Self {
        Self { terminal, print, said: None }
    }

    fn show(&mut self, status: &DrainStatus) -> anyhow::Result<()> {
        if self.terminal {
            self.said = Some(line(status));
            return (self.print)(&format!("{OVER}{}", line(status)));
        }
        let event =
            line(&DrainStatus { seconds_left: status.seconds_left.map(|_| 0), ..status.clone() });
        if self.said.as_ref() != Some(&event) {
            self.said = Some(event);
            return (self.print)(&(line(status) + "\n"));
        }
        Ok(())
    }

    fn end_line(&mut self) -> anyhow::Result<()> {
        if self.terminal && self.said.is_some() { (self.print)("\n") } else { Ok(()) }
    }

    fn print(&mut self, text: &str) -> anyhow::Result<()> {
        (self.print)(text)
    }
}

/// One line that fits a terminal however many peers there are.
fn line(status: &DrainStatus) -> String {
    let up = status.sessions.iter().filter(|session| session.state == PeerState::Established);
    let sessions = format!("{} of {} sessions up", up.count(), status.sessions.len());
    match (status.state, status.seconds_left) {
        (DrainState::Draining, Some(left)) => {
            format!("draining: routes are withdrawn in {left}s; {sessions}")
        }
        (state, _) => format!("{state}: {sessions}"),
    }
}
