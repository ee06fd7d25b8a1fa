//! The CNI socket spoken directly, one JSON line each way, and all the ways to
//! speak it badly.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde_json::{Value, json};

use crate::plugin::Call;
use crate::wait::PATIENCE;

/// A client of the socket; each request is a connection of its own.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Reply {
    bytes: Vec<u8>,
}

/// What the client does once its bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Says nothing more, but keeps its side open.
    Stay,
    /// Closes its side.
    HangUp,
}

impl Client {
    /// A client for a socket.
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.to_path_buf() }
    }

    /// Opens a connection with patience for the answer.
    pub fn connect(&self) -> Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket)
            .with_context(|| format!("connecting to {}", self.socket.display()))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Sends one well-formed line.
    pub fn request(&self, request: &Value) -> Result<Reply> {
        self.bytes(format!("{request}\n").as_bytes(), Then::Stay)
    }

    /// Sends any bytes and reads until the agent closes the connection.
    pub fn bytes(&self, bytes: &[u8], then: Then) -> Result<Reply> {
        let mut stream = self.connect()?;
        let _agent_may_stop_listening = stream.write_all(bytes);
        if then == Then::HangUp {
            let _closed_already = stream.shutdown(Shutdown::Write);
        }
        Reply::read(&mut stream)
    }

    /// The same as another user: only a thread changes its identity, and ends.
    pub fn request_as(&self, uid: u32, request: &Value) -> Result<Reply> {
        let become_other = || -> Result<Reply> {
            let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(uid));
            set_thread_groups(&[])?;
            set_thread_res_gid(gid, gid, gid)?;
            set_thread_res_uid(uid, uid, uid)?;
            self.request(request)
        };
        thread::scope(|scope| match scope.spawn(become_other).join() {
            Ok(reply) => reply,
            Err(_) => bail!("the client of user {uid} panicked"),
        })
    }
}

impl Reply {
    /// Reads to the end. A reset is an end too: the agent need not have read all
    /// of a request that it refuses.
    pub fn read(stream: &mut UnixStream) -> Result<Self> {
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => return Err(error).context("awaiting the answer"),
        }
        Ok(Self { bytes })
    }

    /// Whether the connection was closed without a word.
    pub fn is_silence(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The one JSON object.
    pub fn json(&self) -> Result<Value> {
        let text = String::from_utf8_lossy(&self.bytes);
        match text.strip_suffix('\n') {
            Some(line) if !line.contains('\n') => {
                serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))
            }
            _ => bail!("not one line: {text:?}"),
        }
    }

    /// The error text; a success is an error here.
    pub fn error(&self) -> Result<String> {
        let json = self.json()?;
        let text = json.get("error").and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() {
            bail!("expected an error, got {json}");
        }
        Ok(text.to_owned())
    }

    /// The whole answer, unless it is an error.
    pub fn success(&self) -> Result<Value> {
        let json = self.json()?;
        match json.get("error").and_then(Value::as_str) {
            None | Some("") => Ok(json),
            Some(text) => bail!("the agent answered: {text}"),
        }
    }
}

/// The request that the plugin would make of a call.
pub fn request(call: &Call, stdin: &[u8]) -> Value {
    json!({
        "op": call.command,
        "container_id": call.container_id,
        "netns": call.netns,
        "ifname": call.ifname,
        "args": call.args,
        "path": call.path,
        "stdin_data": STANDARD.encode(stdin),
    })
}
