//! Asks the running agent over its admin socket: once, or row by row. No async here: a command asks
//! and ends. (`watch` stays, and has its own way.)

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::server::admin::{Closing, Request, Response, VERSION};

/// Longer than the agent takes over anything it is asked.
const PATIENCE: Duration = Duration::from_secs(30);
/// A line larger than this is not from our agent.
pub(super) const MAX_LINE: u64 = 64 << 20;

/// Asks for what fits a line.
pub(super) fn ask<T: DeserializeOwned>(
    socket: &Path,
    op: &str,
    args: &impl Serialize,
) -> anyhow::Result<T> {
    let mut answers = Answers::open(socket, op, args)?;
    let line: Response = answers.line()?;
    match line.ok {
        Some(value) => Ok(serde_json::from_value(value)?),
        None => bail!("{}: the agent gave an empty answer", answers.shown),
    }
}

/// Asks for rows, and has each few as they come, until it is told to stop.
pub(super) fn rows<Row: DeserializeOwned>(
    socket: &Path,
    op: &str,
    args: &impl Serialize,
    mut each: impl FnMut(Vec<Row>) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<Closing> {
    let mut answers = Answers::open(socket, op, args)?;
    loop {
        let Response { part, ok, .. } = answers.line()?;
        match (part, ok) {
            (Some(rows), _) => {
                if each(rows)?.is_break() {
                    return Ok(Closing::default());
                }
            }
            (None, Some(closing)) => return Ok(serde_json::from_value(closing)?),
            (None, None) => bail!("{}: the agent gave an empty answer", answers.shown),
        }
    }
}

/// What the agent says, line by line.
struct Answers {
    shown: String,
    lines: BufReader<UnixStream>,
}

impl Answers {
    fn open(socket: &Path, op: &str, args: &impl Serialize) -> anyhow::Result<Self> {
        let shown = socket.display().to_string();
        let mut stream =
            UnixStream::connect(socket).map_err(|error| unreachable(&shown, &error))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let request = question(op, args, false)?;
        stream.write_all(&request).with_context(|| shown.clone())?;
        Ok(Self { shown, lines: BufReader::new(stream) })
    }

    fn line<Row: DeserializeOwned>(&mut self) -> anyhow::Result<Response<Row>> {
        let mut line = Vec::new();
        let lines = &mut self.lines;
        lines.take(MAX_LINE).read_until(b'\n', &mut line).with_context(|| {
            format!("{}: the agent did not answer within {PATIENCE:?}", self.shown)
        })?;
        understood(&line).with_context(|| self.shown.clone())
    }
}

/// The line to send.
pub(super) fn question(op: &str, args: &impl Serialize, watch: bool) -> anyhow::Result<Vec<u8>> {
    let args = serde_json::to_value(args)?;
    let request = Request { v: VERSION, op: op.to_owned(), args, watch };
    let mut line = serde_json::to_vec(&request)?;
    line.push(b'\n');
    Ok(line)
}

/// What a line says; an error is the agent's own.
pub(super) fn understood<Row: DeserializeOwned>(line: &[u8]) -> anyhow::Result<Response<Row>> {
    if line.is_empty() {
        bail!("the agent went away before its answer was complete");
    }
    let response: Response<Row> =
        serde_json::from_slice(line).context("the answer is not one of the agent's")?;
    match response.error {
        Some(error) => bail!("the agent says: {error}"),
        None => Ok(response),
    }
}

/// Why there is nobody to ask.
pub(super) fn unreachable(shown: &str, error: &std::io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow!(
            "the agent is not running, or not with this socket: {shown}: {error}\n\
             hint: start it with `flock-agent run`, or name its socket with --admin-socket"
        ),
        ErrorKind::PermissionDenied => {
            anyhow!("{shown}: {error}\nhint: only root may ask the agent; try again with sudo")
        }
        _ => anyhow!("{shown}: {error}"),
    }
}
