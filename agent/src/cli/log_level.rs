//! `flock-agent log-level`: which lines the running agent writes, shown and changed.

use std::time::Duration;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Show;
use super::ask::ask;
use super::elapsed::rough;
use super::exit::Ended;
use super::output::{self, Look, Tone};
use super::view::View;
use crate::server::admin::op;

/// The end of `--help`.
pub(super) const HELP: &str = "\
A filter is a level (off, error, warn, info, debug, trace), or several parts with commas between
them: a level for everything, and TARGET=LEVEL for parts of the program. These are the words of
RUST_LOG, which the agent reads at its start. Where no level is given for everything, it is info.

The log itself says who changed it, to what and for how long.

Examples:
  # Which filter is in force?
  flock-agent log-level

  # Everything for ten minutes, then as before
  flock-agent log-level debug --for 10m

  # Only the speaker in all detail
  flock-agent log-level info,flock_agent::bgp=trace,flock_bgp_io=trace

  # As at the start
  flock-agent log-level reset";

/// What to set, if anything.
#[derive(Debug, Clone, Args)]
pub struct Level {
    /// The filter from now on, or `reset` for that of the start; without it, the one in force is shown
    pub filter: Option<String>,

    /// Only for so long (10m, 1h30m), then as before
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration, requires = "filter")]
    pub lasts: Option<Duration>,

    /// How the answer is shown.
    #[command(flatten)]
    pub show: Show,
}

/// The arguments of `log.set`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogSetArgs {
    /// In the words of `RUST_LOG`, or `reset`.
    pub filter: String,
    /// For so long; `None`: until the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_seconds: Option<u64>,
    /// Who asks, for the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The answer: `-o json` prints exactly this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogLevel {
    /// In force.
    pub filter: String,
    /// In force at the start.
    pub started_with: String,
    /// How long it stays in force; null: until somebody changes it.
    pub seconds_left: Option<u64>,
    /// What is in force then.
    pub then: Option<String>,
}

/// Asks and prints.
pub fn run(args: &Level) -> anyhow::Result<Ended> {
    let show = &args.show;
    let Some(filter) = &args.filter else {
        let view = View::new(op::LOG_LEVEL, |level: &LogLevel, look| Ok(render(level, look)));
        return view.show(show);
    };
    let for_seconds = args.lasts.map(whole_seconds);
    let wish = LogSetArgs { filter: filter.clone(), for_seconds, by: Some(whoever()) };
    let level: LogLevel = ask(&show.admin_socket, op::LOG_SET, &wish)?;
    if !output::machine(show.output, &level)? {
        output::print(&render(&level, Look::of(show.output)))?;
    }
    Ok(Ended::Done)
}

/// A part of a second counts as one.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// As the shell knows the person; it is for the log, and proves nothing.
fn whoever() -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    named.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

fn render(level: &LogLevel, look: Look) -> String {
    let mut lines = vec![("Filter", level.filter.clone(), Tone::Plain)];
    if let (Some(left), Some(then)) = (level.seconds_left, &level.then) {
        lines.push(("For", rough(left), Tone::Warning));
        lines.push(("Then", then.clone(), Tone::Plain));
    }
    if level.filter != level.started_with {
        lines.push(("Started with", level.started_with.clone(), Tone::Plain));
    }
    output::labelled(&lines, look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_reads_well() {
        let level = |filter: &str, seconds_left, then: Option<&str>| LogLevel {
            filter: filter.into(),
            started_with: "info".into(),
            seconds_left,
            then: then.map(str::to_owned),
        };
        assert_eq!(render(&level("info", None, None), Look::PIPE), "Filter:  info\n");
        assert_eq!(
            render(&level("debug", Some(599), Some("warn")), Look::PIPE),
            "Filter:        debug\nFor:           9m\nThen:          warn\nStarted with:  info\n"
        );
        let json = serde_json::to_value(level("debug", None, None)).unwrap();
        let keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["filter", "secondsLeft", "startedWith", "then"]);
    }

    #[test]
    fn a_part_of_a_second_counts() {
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_secs(600)), 600);
    }
}
