//! A BGP speaker on its own, from a small file: for tests with other routers and for measurements.
//!
//! `speaker CONFIG.json`: commands are JSON lines on stdin, what happens is JSON lines on stdout,
//! logs are on stderr (`RUST_LOG`). The words are in `config`, `commands` and `report`.
#![forbid(unsafe_code)]

mod commands;
mod config;
mod report;

use std::io::{Write as _, stdin, stdout};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::{env, fs, thread};

use anyhow::{Context as _, Result};
use flock_bgp::{SpeakerConfig, Wishes};
use flock_bgp_io::{Listen, Running};
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::commands::Commander;
use crate::config::Config;

/// Lines that wait to be written. Full: commands and reports wait, the speaker does not.
const LINES: usize = 4096;

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).from_env_lossy(),
        )
        .with_writer(std::io::stderr)
        .init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("speaker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let path = env::args_os().nth(1).context("usage: speaker CONFIG.json")?;
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let config = config::parse(&text).with_context(|| path.display().to_string())?;
    let runtime = runtime(config.threads)?;
    let (lines, waiting) = mpsc::channel(LINES);
    let writer = thread::spawn(move || write(waiting));
    let outcome = runtime.block_on(speak(&config, lines));
    // What was said last is still being written.
    drop(writer.join());
    outcome
}

fn runtime(threads: usize) -> Result<Runtime> {
    let mut builder =
        if threads > 1 { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    Ok(builder.worker_threads(threads).enable_all().build()?)
}

async fn speak(config: &Config, lines: mpsc::Sender<Value>) -> Result<()> {
    let listen = Listen { addresses: config.listen.clone(), ..Listen::default() };
    let peers = config::peers(&config.peers, config.asn)?;
    let originations = config::originations(&config.originate, &config.communities)?;
    let Running { handle, notices, routes } = flock_bgp_io::start(
        SpeakerConfig {
            asn: config.asn,
            id: config.router_id,
            seed: rand::random(),
            restarted: config.restarting,
            forwarding_kept: config.forwarding,
            hold_end_of_rib: config.hold_end_of_rib,
            transit: config.transit,
            install: config.report,
        },
        &listen,
    )?;
    lines.send(json!({"event": "listening", "addresses": handle.listening()})).await?;
    // What is originated comes before the peers, so that End-of-RIB is true.
    if let Some(connected) = &config.connected {
        handle.networks(connected.clone(), config.own.clone(), Vec::new()).await?;
    }
    handle.originate(Wishes::All(originations)).await?;
    handle.peers(peers).await?;

    let commander = Commander::new(config, handle.clone());
    let answers = lines.clone();
    let commands = tokio::spawn(async move {
        // A pipe wakes the runtime itself; anything else is read by a thread, one more wake-up.
        match stdin().as_fd().try_clone_to_owned().and_then(pipe::Receiver::from_owned_fd) {
            Ok(pipe) => obey(BufReader::new(pipe), &commander, &answers).await,
            Err(_) => obey(BufReader::new(tokio::io::stdin()), &commander, &answers).await,
        }
    });
    report::all(&handle, notices, routes, &lines).await;
    // The speaker has ended, and so it was told to.
    drop(commands.await);
    Ok(())
}

async fn obey(
    input: impl AsyncBufRead + Unpin,
    commander: &Commander,
    lines: &mpsc::Sender<Value>,
) {
    let mut input = input.lines();
    while let Ok(Some(line)) = input.next_line().await {
        let (answer, ended) = commander.obey(&line).await;
        // What was asked for is done before it is answered: the answer wakes another thread.
        tokio::task::yield_now().await;
        let _ = lines.send(answer).await;
        if ended {
            return;
        }
    }
    commander.leave().await;
}

/// One line each; flushed whenever no other waits.
fn write(mut lines: mpsc::Receiver<Value>) {
    let mut out = std::io::BufWriter::new(stdout().lock());
    while let Some(line) = lines.blocking_recv() {
        if writeln!(out, "{line}").is_err() || (lines.is_empty() && out.flush().is_err()) {
            return;
        }
    }
}
