//! Log lines: for people or for machines, to standard error, filtered by `RUST_LOG`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

/// Installs the subscriber. `info` unless `RUST_LOG` says otherwise.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start (tests in one process) keeps the first subscriber.
    let _ = match format {
        LogFormat::Text => lines
            .with_target(false)
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
            .try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
