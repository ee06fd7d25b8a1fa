//! The agent's own log as a second clock: the moment when its source had a new
//! picture of the world, which is when the change began to exist inside.
//!
//! Both ends are told by the clock of the same machine. The log has it to the
//! microsecond, as the time of a day in UTC.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::wait::{PATIENCE, until};

/// What the agent says then, at debug level.
const NEWS: &str = "a new picture of the world";
/// What makes it say so, and nothing else that it would not say.
pub const RUST_LOG: &str = "info,flock_agent::source=debug";

const DAY: f64 = 86_400_000.0;

/// The log, read as it grows.
#[derive(Debug)]
pub struct Journal {
    log: BufReader<File>,
}

impl Journal {
    /// From its beginning.
    pub fn open(log: &Path) -> Result<Self> {
        let file = File::open(log).with_context(|| log.display().to_string())?;
        Ok(Self { log: BufReader::new(file) })
    }

    /// Milliseconds from the last picture to `end`.
    pub fn since_news(&mut self, end: Instant) -> Result<f64> {
        // One reading of both clocks carries `end` over to the log's.
        let (now, realtime) = (Instant::now(), SystemTime::now());
        let end = realtime.duration_since(UNIX_EPOCH)?.as_secs_f64() * 1000.0
            - (now - end).as_secs_f64() * 1000.0;
        // The agent writes the line when it has nothing else to do.
        let began = until("the agent's log to tell of a new picture", PATIENCE, || self.last())?;
        // The day may have ended in between.
        Ok((end % DAY - began).rem_euclid(DAY))
    }

    fn last(&mut self) -> Result<f64> {
        let mut last = None;
        let mut line = String::new();
        while self.log.read_line(&mut line)? > 0 {
            if line.contains(NEWS) {
                last = of_day(&line);
            }
            line.clear();
        }
        last.context("the agent's log tells of no new picture")
    }
}

/// The milliseconds of the day in `... at=2026-01-31T23:59:59.999999Z ...`.
fn of_day(line: &str) -> Option<f64> {
    let at = line.split_whitespace().find_map(|word| word.strip_prefix("at="))?;
    let (_, time) = at.split_once('T')?;
    let mut parts = time.strip_suffix('Z')?.split(':');
    let mut part = || parts.next()?.parse::<f64>().ok();
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    Some(((hours * 60.0 + minutes) * 60.0 + seconds) * 1000.0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_of_day_is_read_to_the_microsecond() {
        let line =
            "2026-01-31T04:00:00Z DEBUG a new picture of the world at=2026-01-31T01:02:03.00025Z\n";
        assert_eq!(of_day(line).unwrap(), 3_723_000.25);
        assert!(of_day("starting").is_none());
    }

    #[test]
    fn the_last_news_counts_and_older_lines_do_not_come_again() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut journal = Journal::open(file.path()).unwrap();
        assert!(journal.last().is_err());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - Duration::from_secs(2);
        let seconds = now.as_secs() % 86_400;
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        writeln!(file, "DEBUG {NEWS} at=2026-01-31T00:00:00.000000Z").unwrap();
        writeln!(file, "DEBUG {NEWS} at=2026-01-31T{hours}:{minutes}:{}.5Z", seconds % 60).unwrap();
        writeln!(file, "2026-01-31T00:00:00.000000Z  INFO something else").unwrap();
        let since = journal.since_news(Instant::now()).unwrap();
        assert!((0.0..60_000.0).contains(&since), "{since}");
        assert!(journal.last().is_err(), "read already");
    }
}
