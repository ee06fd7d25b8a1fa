//! Asks the running agent one question over its admin socket. No async here: a command asks once
//! and ends.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::server::admin::{Request, Response, VERSION};

/// Longer than the agent takes over anything it is asked.
const PATIENCE: Duration = Duration::from_secs(30);
/// An answer larger than this is not from our agent.
const MAX_ANSWER: u64 = 256 << 20;

pub(super) fn ask<T: DeserializeOwned>(
    socket: &Path,
    op: &str,
    args: &impl Serialize,
) -> anyhow::Result<T> {
    let shown = socket.display();
    let mut stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow!(
            "the agent is not running, or not with this socket: {shown}: {error}\n\
             hint: start it with `flock-agent run`, or name its socket with --admin-socket"
        ),
        ErrorKind::PermissionDenied => {
            anyhow!("{shown}: {error}\nhint: only root may ask the agent; try again with sudo")
        }
        _ => anyhow!("{shown}: {error}"),
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let args = serde_json::to_value(args)?;
    let request = serde_json::to_string(&Request { v: VERSION, op: op.to_owned(), args })?;
    stream.write_all(format!("{request}\n").as_bytes()).with_context(|| format!("{shown}"))?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_ANSWER))
        .read_line(&mut line)
        .with_context(|| format!("{shown}: the agent did not answer within {PATIENCE:?}"))?;
    let response: Response = serde_json::from_str(&line)
        .with_context(|| format!("{shown}: the answer is not one of the agent's"))?;
    match (response.ok, response.error) {
        (Some(value), _) => Ok(serde_json::from_value(value)?),
        (None, Some(error)) => bail!("the agent says: {error}"),
        (None, None) => bail!("{shown}: the agent gave an empty answer"),
    }
}
