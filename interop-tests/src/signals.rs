//! Ctrl-C and SIGTERM become an interruption of every wait, so that a program
//! unwinds in the ordinary way and its destructors clean the rack up.

use std::thread;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

use crate::wait;

/// Starts listening for SIGINT, SIGTERM and SIGHUP, on a thread of its own.
pub fn listen() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listening = {
        let _inside = runtime.enter();
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        kinds.map(signal)
    };
    let [interrupt, terminate, hangup] = listening;
    let (mut interrupt, mut terminate, mut hangup) = (interrupt?, terminate?, hangup?);
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                wait::interrupt();
                // Further signals are heard and ignored: the rack is being cleaned up.
                std::future::pending::<()>().await;
            });
        })
        .context("starting to listen for signals")?;
    Ok(())
}
