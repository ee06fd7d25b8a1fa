//! Asks the running agent over its admin socket: once, or row by row. No async here: a command asks
//! and ends. (`watch` stays, and has its own way.)

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::exit::NotAsked;
use crate::server::admin::{Closing, Request, Response, UNKNOWN_OP, VERSION};

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
        let request = question(op, args, false)?;
        let open = || {
            let mut stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            // One that refuses to listen has something to say about it.
            let _ = stream.write_all(&request);
            Ok(stream)
        };
        let stream = open().map_err(|error| unreachable(socket, &error))?;
        Ok(Self { shown, lines: BufReader::new(stream) })
    }

    fn line<Row: DeserializeOwned>(&mut self) -> anyhow::Result<Response<Row>> {
        let mut line = Vec::new();
        let read = (&mut self.lines).take(MAX_LINE).read_until(b'\n', &mut line);
        read.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                NotAsked(format!("{}: the agent did not answer within {PATIENCE:?}", self.shown))
            }
            _ => NotAsked(format!("{}: {error}", self.shown)),
        })?;
        understood(&line, &self.shown)
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

/// What a line says; an error is the agent's own, or that it cannot be understood.
pub(super) fn understood<Row: DeserializeOwned>(
    line: &[u8],
    shown: &str,
) -> anyhow::Result<Response<Row>> {
    if line.is_empty() {
        let gone = "the agent went away before its answer was complete";
        return Err(NotAsked(format!("{shown}: {gone}")).into());
    }
    let spoken: Result<Spoken, _> = serde_json::from_slice(line);
    match spoken {
        Ok(Spoken { v: VERSION }) => {}
        Ok(Spoken { v }) => {
            return Err(NotAsked(format!(
                "{shown}: the agent speaks version {v} of the admin protocol, this command version {VERSION}\n\
                 hint: use the flock-agent that belongs to the running agent, or restart the agent"
            ))
            .into());
        }
        Err(_) => {
            return Err(NotAsked(format!(
                "{shown}: what answers there is no flock-agent\n\
                 hint: name the agent's socket with --admin-socket"
            ))
            .into());
        }
    }
    let response: Response<Row> = serde_json::from_slice(line)
        .map_err(|error| NotAsked(format!("{shown}: an answer that is not understood: {error}")))?;
    match response.error {
        Some(error) if error.starts_with(UNKNOWN_OP) => Err(NotAsked(format!(
            "the agent says: {error}\nhint: the running agent is older than this command; restart it"
        ))
        .into()),
        Some(error) => bail!("the agent says: {error}"),
        None => Ok(response),
    }
}

/// What every version of the protocol has.
#[derive(Deserialize)]
struct Spoken {
    v: u32,
}

/// Why there is nobody to ask.
pub(super) fn unreachable(socket: &Path, error: &std::io::Error) -> NotAsked {
    let shown = socket.display();
    let is_there = socket.symlink_metadata().map(|meta| meta.file_type().is_socket());
    NotAsked(match (error.kind(), is_there) {
        (ErrorKind::NotFound | ErrorKind::ConnectionRefused, Err(_) | Ok(true)) => format!(
            "the agent is not running, or not with this socket: {shown}: {error}\n\
             hint: start it with `flock-agent run`, or name its socket with --admin-socket"
        ),
        (ErrorKind::PermissionDenied, _) => {
            format!("{shown}: {error}\nhint: only root may ask the agent; try again with sudo")
        }
        (_, Ok(false)) => {
            format!("{shown} is not a socket\nhint: name the agent's socket with --admin-socket")
        }
        _ => format!("{shown}: {error}\nhint: name the agent's socket with --admin-socket"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit;

    #[test]
    fn who_cannot_be_asked_is_told_apart_from_what_is_answered() {
        let table: [(&str, u8, &str); 8] = [
            (r#"{"v":1,"ok":{}}"#, 0, ""),
            (r#"{"v":1,"error":"no such peer"}"#, 1, "the agent says: no such peer"),
            (r#"{"v":1,"error":"unknown op \"x\"; expected y"}"#, 2, "older than this command"),
            (r#"{"v":2,"ok":{}}"#, 2, "speaks version 2"),
            (r#"{"v":0,"weird":true}"#, 2, "speaks version 0"),
            ("HTTP/1.1 400 Bad Request", 2, "is no flock-agent"),
            (r#"{"v":1,"ok":{},"error":7}"#, 2, "not understood"),
            ("", 2, "went away"),
        ];
        for (line, code, words) in table {
            let outcome = understood::<serde_json::Value>(line.as_bytes(), "/s");
            let said = outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
            assert!(said.contains(words), "{line}: {said}");
            assert_eq!(exit::code(&outcome.map(|_| exit::Ended::Done)), code, "{line}");
        }
    }

    #[test]
    fn what_is_not_an_agents_socket_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("file"), "").unwrap();
        let _datagrams = std::os::unix::net::UnixDatagram::bind(path("datagrams")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(path("left")).unwrap());
        for (name, words) in [
            ("nothing", "the agent is not running"),
            ("left", "the agent is not running"),
            ("file", "is not a socket"),
            ("", "is not a socket"),
            ("datagrams", "name the agent's socket"),
        ] {
            let refused = ask::<serde_json::Value>(&path(name), "pods", &()).unwrap_err();
            assert!(refused.to_string().contains(words), "{name}: {refused}");
            assert!(refused.to_string().contains("hint: "), "{name}: {refused}");
            assert_eq!(exit::code(&Err(refused)), 2, "{name}");
        }
    }
}
