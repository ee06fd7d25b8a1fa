//! Which filters can be used, and which one is in force. `read` is pure.
//!
//! The words are those of `RUST_LOG`, with two traps taken out: a word that is neither a level nor
//! one of our targets is refused (it would be taken for the name of a target, and silence all
//! others), and where no level is given for everything else, that is `info`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tracing_subscriber::EnvFilter;

use super::Handle;
use crate::cli::log_level::{LogLevel, LogSetArgs};

/// Longer filters are a mistake, or worse.
const LONGEST: usize = 1024;
/// How many parts a filter may have.
const PARTS: usize = 32;
/// The word that brings back the filter of the start.
const RESET: &str = "reset";
/// As long as a filter may be set for.
const LONGEST_WHILE: u64 = 24 * 60 * 60;
/// How much of a name is kept.
const LONGEST_NAME: usize = 64;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
const STANDARD: &str = "info";
/// What the targets of this program begin with.
const OURS: &str = "flock";

/// A filter that can be used.
#[derive(Debug)]
pub(super) struct Usable {
    /// As it is in force, in full.
    pub(super) text: String,
    pub(super) filter: EnvFilter,
}

/// The client of the API server tells of each failed try as an error, and repeats what it cannot
/// read, which may be a Secret. Whoever tried says it better; only a filter that names it hears it.
const QUIET: &str = "kube_client";

/// The filter where nobody says anything.
pub(super) fn standard() -> Usable {
    Usable { text: STANDARD.to_owned(), filter: EnvFilter::new(quieted(STANDARD)) }
}

fn quieted(text: &str) -> String {
    if text.contains(QUIET) { text.to_owned() } else { format!("{text},{QUIET}=off") }
}

/// Reads a filter.
pub(super) fn read(text: &str) -> Result<Usable, String> {
    if text.len() > LONGEST {
        return Err(format!("it has {} bytes, and {LONGEST} are allowed", text.len()));
    }
    let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() || parts.len() > PARTS {
        return Err(format!("it has {} parts, and 1 to {PARTS} are allowed", parts.len()));
    }
    let is_level = |part: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(part));
    for part in &parts {
        let names_a_target = part.contains(['=', '[']) || part.starts_with(OURS);
        if !is_level(part) && !names_a_target {
            return Err(format!(
                "{part:?} is neither a level ({}) nor TARGET=LEVEL, such as flock_agent::bgp=debug",
                LEVELS.join(", ")
            ));
        }
    }
    let mut whole = parts.join(",");
    if !parts.iter().any(|part| is_level(part)) {
        whole = format!("{STANDARD},{whole}");
    }
    // No regular expressions: a filter comes from outside, and one can cost without end.
    let filter = EnvFilter::builder().with_regex(false).parse(quieted(&whole));
    let filter = filter.map_err(|error| error.to_string())?;
    Ok(Usable { text: whole, filter })
}

/// The filter in force.
pub(super) struct Levels {
    handle: Handle,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Clone)]
struct State {
    /// At the start.
    start: String,
    /// Until somebody says otherwise.
    standing: String,
    /// Until then.
    passing: Option<(String, Instant)>,
}

impl State {
    fn in_force(&self) -> &str {
        self.passing.as_ref().map_or(&self.standing, |(text, _)| text)
    }
}

impl Levels {
    pub(super) fn new(handle: Handle, text: String) -> Self {
        let state = State { start: text.clone(), standing: text, passing: None };
        Self { handle, state: Mutex::new(state), changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn level(&self) -> LogLevel {
        let state = self.state();
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let left = state.passing.as_ref().map(|(_, until)| left(*until));
        LogLevel {
            filter: state.in_force().to_owned(),
            started_with: state.start.clone(),
            // The last one counts until it is over.
            seconds_left: left.map(|left| left.as_secs() + u64::from(left.subsec_nanos() > 0)),
            then: state.passing.as_ref().map(|_| state.standing.clone()),
        }
    }

    pub(super) fn set(&self, args: &LogSetArgs) -> Result<LogLevel, String> {
        let bad = |error: String| format!("filter: {:?}: {error}", shortened(&args.filter));
        let lasts = match args.for_seconds {
            Some(seconds @ 1..=LONGEST_WHILE) => Some(Duration::from_secs(seconds)),
            None => None,
            Some(seconds) => {
                return Err(format!(
                    "forSeconds: {seconds}: out of range; write a number from 1 to {LONGEST_WHILE}"
                ));
            }
        };
        let wanted = match args.filter.trim() {
            RESET if lasts.is_some() => {
                return Err(bad("it is for good; leave the time out".into()));
            }
            RESET => read(&self.state().start.clone()).map_err(bad)?,
            text => read(text).map_err(bad)?,
        };
        let (from, to) = {
            let mut state = self.state();
            let from = state.in_force().to_owned();
            match lasts {
                Some(lasts) => {
                    state.passing = Some((wanted.text.clone(), Instant::now() + lasts));
                }
                None => (state.standing, state.passing) = (wanted.text.clone(), None),
            }
            (from, wanted.text)
        };
        let by = shortened(args.by.as_deref().unwrap_or("unknown"));
        let lasts = lasts.map(|lasts| humantime::format_duration(lasts).to_string());
        self.put(wanted.filter, || {
            tracing::info!(from, to, lasts, by, "log filter changed");
        });
        self.changed.notify_one();
        Ok(self.level())
    }

    /// The line is written where either filter lets it through.
    fn put(&self, filter: EnvFilter, say: impl Fn()) {
        let before = tracing::enabled!(tracing::Level::INFO);
        if before {
            say();
        }
        // The subscriber lives as long as the process.
        let _ = self.handle.reload(filter);
        if !before {
            say();
        }
    }

    /// Brings back what was set for a while. Runs for ever.
    pub(super) async fn keep(&self) {
        loop {
            let until = self.state().passing.as_ref().map(|(_, until)| *until);
            let over = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => self.bring_back(),
                () = self.changed.notified() => {}
            }
        }
    }

    fn bring_back(&self) {
        let (from, to) = {
            let mut state = self.state();
            let Some((from, _)) = state.passing.take_if(|(_, until)| *until <= Instant::now())
            else {
                return;
            };
            (from, state.standing.clone())
        };
        // It was in force before, so that it can be read.
        if let Ok(usable) = read(&to) {
            self.put(usable.filter, || {
                tracing::info!(from, to, "log filter is back: the time is over");
            });
        }
    }
}

fn shortened(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST_NAME)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_filter() {
        for (text, in_force) in [
            ("debug", "debug"),
            ("INFO", "INFO"),
            ("off", "off"),
            (" info , flock_agent::bgp=trace ", "info,flock_agent::bgp=trace"),
            ("flock_agent::bgp=trace", "info,flock_agent::bgp=trace"),
            ("flock_bgp_io", "info,flock_bgp_io"),
            ("warn,hyper=debug", "warn,hyper=debug"),
            ("[cni]=debug", "info,[cni]=debug"),
        ] {
            let usable = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(usable.text, in_force);
        }
    }

    #[test]
    fn what_is_none() {
        let long = "x".repeat(LONGEST + 1);
        let many = vec!["flock=info"; PARTS + 1].join(",");
        for (text, words) in [
            ("", "0 parts"),
            (" , ", "0 parts"),
            ("debgu", "neither a level"),
            ("info,verbose", "\"verbose\" is neither"),
            ("\x1b[31m", "invalid"),
            ("flock=lots", "error parsing level"),
            ("=", "invalid"),
            (&long, "bytes"),
            (&many, "33 parts"),
        ] {
            let error = read(text).map(|usable| usable.text).unwrap_err();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }

    fn levels() -> Levels {
        use tracing_subscriber::reload;
        let (_gate, handle) = reload::Layer::new(standard().filter);
        Levels::new(handle, "info".into())
    }

    fn args(filter: &str, for_seconds: Option<u64>) -> LogSetArgs {
        LogSetArgs { filter: filter.into(), for_seconds, by: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_filter_for_a_while_goes_back_to_the_one_before() {
        let levels = levels();
        levels.set(&args("warn", None)).unwrap();
        let set = levels.set(&args("debug", Some(600))).unwrap();
        assert_eq!((set.filter.as_str(), set.seconds_left), ("debug", Some(600)));
        assert_eq!((set.then.as_deref(), set.started_with.as_str()), (Some("warn"), "info"));
        let kept = tokio::time::timeout(Duration::from_secs(599), levels.keep());
        assert!(kept.await.is_err());
        assert_eq!(levels.level().filter, "debug");
        let kept = tokio::time::timeout(Duration::from_secs(2), levels.keep());
        assert!(kept.await.is_err());
        let level = levels.level();
        assert_eq!((level.filter.as_str(), level.seconds_left), ("warn", None));
        assert_eq!(levels.set(&args("reset", None)).unwrap().filter, "info");
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_used_changes_nothing() {
        let levels = levels();
        for (filter, lasts) in [("nonsense", None), ("debug", Some(0)), ("reset", Some(5))] {
            levels.set(&args(filter, lasts)).unwrap_err();
            levels.set(&args("debug", Some(LONGEST_WHILE + 1))).unwrap_err();
        }
        let huge = levels.set(&args(&"x".repeat(60_000), None)).unwrap_err();
        assert!(huge.len() < 200, "{huge}");
        assert_eq!(levels.level().filter, "info");
        // The last one counts, and for good ends what was for a while.
        levels.set(&args("debug", Some(5))).unwrap();
        levels.set(&args("trace", Some(50))).unwrap();
        assert_eq!(levels.level().seconds_left, Some(50));
        levels.set(&args("error", None)).unwrap();
        let kept = tokio::time::timeout(Duration::from_secs(60), levels.keep());
        assert!(kept.await.is_err());
        assert_eq!(levels.level().filter, "error");
    }
}
