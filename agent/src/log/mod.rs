//! Log lines: for people or for machines, to standard error, filtered by `RUST_LOG` and, while the
//! agent runs, by `flock-agent log-level`.
//!
//! | room | what it decides |
//! |---|---|
//! | `filter` | which filters can be used, and which is in force for how long |
//! | `line` | that no value can forge a line or colour a terminal |
//! | `flood` | how many lines of one kind there may be |
//!
//! There is one subscriber in a process, so what belongs to it is a static of this module.

mod filter;
mod flood;
mod line;

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::cli::LogFormat;
use crate::cli::log_level::{LogLevel, LogSetArgs};
use filter::Levels;
use flood::Flood;
pub(crate) use line::is_harmful;

/// The subscriber's switches.
struct Log {
    levels: Levels,
    flood: Flood,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// How long lines that were left out are counted before that is said.
const COUNTED: Duration = Duration::from_secs(5);

/// Installs the subscriber. `info` unless `RUST_LOG` says otherwise; one that cannot be used is told.
pub fn start(format: LogFormat) {
    let asked = std::env::var_os(EnvFilter::DEFAULT_ENV);
    let asked = asked.map(|text| text.to_string_lossy().into_owned());
    let (usable, refused) = match asked.filter(|text| !text.trim().is_empty()) {
        None => (filter::standard(), None),
        Some(text) => match filter::read(&text) {
            Ok(usable) => (usable, None),
            Err(error) => (filter::standard(), Some((text, error))),
        },
    };
    let (gate, handle) = reload::Layer::new(usable.filter);
    let flood = Flood::default();
    let lines: Box<dyn Layer<_> + Send + Sync> = match format {
        LogFormat::Text => Box::new(text_lines()),
        LogFormat::Json => Box::new(
            fmt::layer()
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_writer(line::JsonLines),
        ),
    };
    let subscriber = tracing_subscriber::registry().with(gate).with(flood.clone()).with(lines);
    // A second start (tests in one process) keeps the first subscriber.
    if subscriber.try_init().is_ok() {
        let _ = LOG.set(Log { levels: Levels::new(handle, usable.text), flood });
    }
    if let Some((value, error)) = refused {
        tracing::warn!(value, error, "RUST_LOG cannot be used; the filter is info");
    }
}

fn text_lines<S>() -> impl Layer<S>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    use tracing_subscriber::field::MakeExt;
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    fmt::layer()
        .with_target(false)
        .with_ansi(colour)
        .fmt_fields(fmt::format::debug_fn(line::field).delimited(" "))
        .with_writer(std::io::stderr)
}

type Handle = reload::Handle<EnvFilter, Registry>;

/// The filter in force.
pub fn level() -> Result<LogLevel, String> {
    LOG.get().map(|log| log.levels.level()).ok_or_else(nobody)
}

/// Another filter, for a while or until the next one; says who asked for it.
pub fn set(args: &LogSetArgs) -> Result<LogLevel, String> {
    LOG.get().ok_or_else(nobody)?.levels.set(args)
}

fn nobody() -> String {
    "this agent writes no log".to_owned()
}

/// Brings back what was set for a while, and tells of lines that were left out. Runs for ever.
pub async fn keep() {
    let Some(log) = LOG.get() else { return };
    tokio::join!(log.levels.keep(), tell_what_was_left_out(&log.flood));
}

/// A trouble that is tried again and again is told once, and once more when it is another one.
#[derive(Debug, Default)]
pub struct Lasting {
    known: Option<String>,
}

impl Lasting {
    /// Whether that is to be told.
    pub fn is_news(&mut self, error: impl std::fmt::Display) -> bool {
        let error = error.to_string();
        let news = self.known.as_ref() != Some(&error);
        self.known = Some(error);
        news
    }

    /// It is over; the next one is news.
    pub fn is_over(&mut self) {
        self.known = None;
    }
}

async fn tell_what_was_left_out(flood: &Flood) {
    loop {
        flood.something_left_out().await;
        tokio::time::sleep(COUNTED).await;
        for left in flood.take() {
            tracing::warn!(
                count = left.count,
                peer = left.peer,
                line = left.line,
                "lines were left out: there were too many of them"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_that_lasts_is_told_once() {
        let mut lasting = Lasting::default();
        let told = ["a", "a", "b", "b", "a"].map(|error| lasting.is_news(error));
        assert_eq!(told, [true, false, true, false, true]);
        lasting.is_over();
        assert!(lasting.is_news("a"));
    }
}
