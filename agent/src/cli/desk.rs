//! An agent for tests: the real admin socket, and a function that answers. What it says under
//! `routes` is sent as an agent sends routes, in parts.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::news::{Listener, News};
use crate::server::admin::{self, Answer, Answers, Rows, op};
use crate::server::socket::Socket;

/// Answers until it is dropped.
pub(super) struct Desk {
    pub(super) socket: PathBuf,
    /// Rung by a test: who watches is answered anew.
    pub(super) news: News,
    place: tempfile::TempDir,
    runtime: Runtime,
}

impl Desk {
    /// As an agent that is killed; another may come in its place.
    pub(super) fn close(self) -> tempfile::TempDir {
        self.runtime.shutdown_background();
        self.place
    }
}

struct Clerk<F> {
    says: F,
    news: News,
}

impl<F> Answers for Clerk<F>
where
    F: Fn(&str, &Value) -> Result<Value, String> + Send + Sync + 'static,
{
    type Rows = OneByOne;

    async fn answer(&self, op: &str, args: &Value) -> Result<Answer<OneByOne>, String> {
        let mut said = (self.says)(op, args)?;
        match said.get_mut("routes").map(Value::take) {
            Some(Value::Array(rows)) if op == op::BGP_ROUTES => {
                Ok(Answer::Parts(OneByOne(rows.into_iter())))
            }
            _ => Ok(Answer::Whole(said)),
        }
    }

    fn news(&self) -> Listener {
        self.news.listen()
    }
}

struct OneByOne(std::vec::IntoIter<Value>);

impl Rows for OneByOne {
    type Row = Value;

    async fn next(&mut self) -> Result<Option<Vec<Value>>, String> {
        Ok(self.0.next().map(|row| vec![row]))
    }

    fn is_cut(&self) -> bool {
        false
    }
}

/// A desk where this function answers.
pub(super) fn open(
    says: impl Fn(&str, &Value) -> Result<Value, String> + Send + Sync + 'static,
) -> Desk {
    open_at(tempfile::tempdir().unwrap(), says)
}

/// The same where another was.
pub(super) fn open_at(
    place: tempfile::TempDir,
    says: impl Fn(&str, &Value) -> Result<Value, String> + Send + Sync + 'static,
) -> Desk {
    let socket = place.path().join("admin.sock");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (at, news) = (socket.clone(), News::default());
    let clerk = Clerk { says, news: news.clone() };
    let (opened, is_open) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        let listening = Socket::open(&at).await.unwrap();
        opened.send(()).unwrap();
        admin::serve(Arc::new(listening), Arc::new(clerk)).await;
    });
    is_open.recv().unwrap();
    Desk { socket, news, place, runtime }
}

/// An answer.
pub(super) fn ok(value: impl Serialize) -> Result<Value, String> {
    Ok(serde_json::to_value(value).unwrap())
}
