//! Whether the wall clock can be trusted. Spooled DELs, drains and logs go by it; sessions and
//! timers do not. Deciding is pure; `look` looks.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use super::name::CLOCK;
use crate::cli::check::Finding;

/// 2026-01-01T00:00:00Z: this program is younger.
const EARLIEST: Duration = Duration::from_secs(1_767_225_600);
/// A state file may be younger than now by this much: file systems round.
const ROUNDING: Duration = Duration::from_secs(2);
/// A leap second is no reason to worry.
const STEP: i128 = 1_000;

/// How far the wall clock is ahead of the time since boot, which nobody sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    millis: i128,
}

impl Offset {
    /// As it is now.
    pub(super) fn now() -> Self {
        let millis = |clock| {
            let time = clock_gettime(clock);
            i128::from(time.tv_sec) * 1000 + i128::from(time.tv_nsec) / 1_000_000
        };
        Self { millis: millis(ClockId::Realtime) - millis(ClockId::Boottime) }
    }
}

/// What is known of whether somebody keeps the clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kept {
    /// This one says that it is right.
    Synchronised(&'static str),
    /// This one runs, and says that it is not right yet.
    NotYet(&'static str),
    /// This one runs; how well, it does not say in a file.
    Running(&'static str),
    /// Nobody is to be seen.
    Unknown,
}

/// What was found.
pub(super) struct Facts {
    /// Since 1970.
    pub(super) now: Duration,
    /// When the program was written to disk, since 1970.
    pub(super) built: Option<Duration>,
    /// The youngest file of the state directory.
    pub(super) newest: Option<(PathBuf, Duration)>,
    /// How much the clock was set since the agent started, in milliseconds.
    pub(super) set_by: i128,
    pub(super) kept: Kept,
}

/// Looks. `run` is where daemons leave word: `/run`.
pub(super) fn look(started: Offset, state_dir: &Path, run: &Path) -> Facts {
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok();
    let built = std::env::current_exe().and_then(|path| path.metadata()?.modified());
    let entries = std::fs::read_dir(state_dir).into_iter().flatten().flatten();
    let written = entries
        .filter_map(|entry| Some((entry.path(), since(entry.metadata().ok()?.modified().ok()?)?)));
    Facts {
        now: since(SystemTime::now()).unwrap_or_default(),
        built: built.ok().and_then(since),
        newest: written.max_by_key(|(_, time)| *time),
        set_by: Offset::now().millis - started.millis,
        kept: kept(run),
    }
}

/// Who keeps the clock, by the files that it leaves.
fn kept(run: &Path) -> Kept {
    let there = |path: &str| run.join(path).exists();
    if there("systemd/timesync/synchronized") {
        return Kept::Synchronised("systemd-timesyncd");
    }
    let daemons = [
        ("chrony/chronyd.pid", "chronyd"),
        ("chronyd.pid", "chronyd"),
        ("ntpd.pid", "ntpd"),
        ("ntpsec/ntpd.pid", "ntpd"),
        ("ptp4l.pid", "ptp4l"),
    ];
    match daemons.iter().find(|(path, _)| there(path)) {
        Some((_, name)) => Kept::Running(name),
        None if there("systemd/timesync") => Kept::NotYet("systemd-timesyncd"),
        None => Kept::Unknown,
    }
}

/// All that is to be said about it.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let set = "set the clock (NTP), and look at the battery of the machine's own";
    let earliest = facts.built.filter(|built| *built > EARLIEST).unwrap_or(EARLIEST);
    if facts.now + ROUNDING < earliest {
        let now = shown(facts.now);
        findings.push(Finding::fail(
            CLOCK,
            format!("it is {now} by the clock, before this program was made"),
            set,
        ));
    }
    if let Some((path, written)) = &facts.newest
        && facts.now + ROUNDING < *written
    {
        findings.push(Finding::warn(
            CLOCK,
            format!(
                "{} was written at {}, which is to come: it is {} by the clock",
                path.display(),
                shown(*written),
                shown(facts.now)
            ),
            format!("{set}; until it has caught up, a DEL that was spooled may be taken for an older one and dropped"),
        ));
    }
    if facts.set_by.abs() > STEP {
        findings.push(Finding::warn(
            CLOCK,
            format!("it was set by {} since the agent started", seconds(facts.set_by)),
            "see who set it (NTP after a boot without network?); times in the log before and after \
             do not compare, and a restart of the agent clears this",
        ));
    }
    findings.push(match facts.kept {
        Kept::Synchronised(by) => Finding::ok(CLOCK, format!("synchronised by {by}")),
        Kept::Running(by) => {
            Finding::ok(CLOCK, format!("{by} runs; whether it is synchronised cannot be told"))
        }
        Kept::Unknown => Finding::ok(CLOCK, "whether it is synchronised cannot be told from here"),
        Kept::NotYet(by) => Finding::warn(
            CLOCK,
            format!("{by} has not synchronised it yet"),
            "see whether the node reaches its time servers: timedatectl timesync-status",
        ),
    });
    findings
}

fn shown(time: Duration) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| format!("{seconds} s"), |t| t.to_string())
}

fn seconds(millis: i128) -> String {
    let sign = if millis < 0 { '-' } else { '+' };
    let millis = millis.unsigned_abs();
    format!("{sign}{}.{:03} s", millis / 1000, millis % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::Status;

    const NOW: Duration = Duration::from_secs(1_800_000_000);
    const HOUR: Duration = Duration::from_secs(3600);

    fn well() -> Facts {
        Facts {
            now: NOW,
            built: Some(NOW - HOUR),
            newest: Some(("/state/allocations.json".into(), NOW)),
            set_by: 3,
            kept: Kept::Synchronised("systemd-timesyncd"),
        }
    }

    #[test]
    fn a_clock_that_lies_is_told() {
        type Change = fn(&mut Facts);
        let table: [(Change, Option<&str>); 12] = [
            (|_| {}, None),
            (|facts| facts.kept = Kept::Unknown, None),
            (|facts| facts.kept = Kept::Running("chronyd"), None),
            (|facts| facts.newest = None, None),
            (|facts| facts.newest.as_mut().unwrap().1 = NOW + ROUNDING, None),
            (|facts| facts.set_by = -1_000, None),
            // An image may say that its files are as old as UNIX.
            (|facts| facts.built = Some(Duration::ZERO), None),
            (|facts| facts.kept = Kept::NotYet("x"), Some("x has not synchronised it yet")),
            (|facts| facts.newest.as_mut().unwrap().1 = NOW + HOUR, Some("which is to come")),
            (|facts| facts.set_by = 3_600_000, Some("set by +3600.000 s")),
            (|facts| facts.set_by = -1_500, Some("set by -1.500 s")),
            (|facts| facts.built = Some(NOW + HOUR), Some("before this program was made")),
        ];
        for (change, wanted) in table {
            let mut facts = well();
            change(&mut facts);
            let findings = judge(&facts);
            let bad: Vec<_> = findings.iter().filter(|f| f.status != Status::Ok).collect();
            assert_eq!(bad.len(), usize::from(wanted.is_some()), "{findings:?}");
            for finding in bad {
                assert!(finding.message.contains(wanted.unwrap()), "{finding:?}");
                assert!(!finding.remedy.is_empty());
            }
        }
        let long_ago = Facts { now: Duration::from_secs(7), newest: None, ..well() };
        let found = judge(&long_ago);
        assert_eq!(found[0].status, Status::Fail);
        assert!(found[0].message.contains("1970-01-01T00:00:07Z"), "{found:?}");
    }

    #[test]
    fn whoever_keeps_it_is_found_by_its_files() {
        let run = tempfile::tempdir().unwrap();
        assert_eq!(kept(run.path()), Kept::Unknown);
        std::fs::create_dir_all(run.path().join("systemd/timesync")).unwrap();
        assert_eq!(kept(run.path()), Kept::NotYet("systemd-timesyncd"));
        std::fs::create_dir_all(run.path().join("chrony")).unwrap();
        std::fs::write(run.path().join("chrony/chronyd.pid"), "1").unwrap();
        assert_eq!(kept(run.path()), Kept::Running("chronyd"));
        std::fs::write(run.path().join("systemd/timesync/synchronized"), "").unwrap();
        assert_eq!(kept(run.path()), Kept::Synchronised("systemd-timesyncd"));
    }

    #[test]
    fn the_clock_of_this_machine_stands_still_beside_that_of_its_boot() {
        let facts = look(Offset::now(), Path::new("/nowhere"), Path::new("/nowhere"));
        assert!(facts.set_by.abs() <= STEP && facts.newest.is_none());
        assert!(facts.built.is_some() && facts.now > EARLIEST);
    }
}
