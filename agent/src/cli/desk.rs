//! An agent for tests: the real admin socket, and a function that answers.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::server::admin::{self, Answers};
use crate::server::socket::Socket;

/// Answers until it is dropped.
pub(super) struct Desk {
    pub(super) socket: PathBuf,
    _dir: tempfile::TempDir,
    _runtime: Runtime,
}

struct Clerk<F>(F);

impl<F> Answers for Clerk<F>
where
    F: Fn(&str, &Value) -> Result<Value, String> + Send + Sync + 'static,
{
    async fn answer(&self, op: &str, args: &Value) -> Result<Value, String> {
        (self.0)(op, args)
    }
}

/// A desk where this function answers.
pub(super) fn open(
    clerk: impl Fn(&str, &Value) -> Result<Value, String> + Send + Sync + 'static,
) -> Desk {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("admin.sock");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listening = runtime.block_on(Socket::open(&socket)).unwrap();
    runtime.spawn(admin::serve(Arc::new(listening), Arc::new(Clerk(clerk))));
    Desk { socket, _dir: dir, _runtime: runtime }
}

/// An answer.
pub(super) fn ok(value: impl Serialize) -> Result<Value, String> {
    Ok(serde_json::to_value(value).unwrap())
}
