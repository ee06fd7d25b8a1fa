//! The agent itself: how many files it may open, and whether the kernel still lets it watch
//! directories. Deciding is pure; `look` looks.

use rustix::fs::inotify::{self, CreateFlags};
use rustix::process::{Resource, getrlimit};

use super::name::LIMITS;
use crate::cli::check::Finding;

/// What calls, questions and pods under way may open at most, beside sessions.
const CALLS: u64 = 256 + 32 + 64;
/// A session, one that rivals it, and some that are ending.
const FILES_OF_A_PEER: u64 = 5;
/// With fewer instances of inotify left, the next change of the NodeConfig's passwords may find none.
const SPARE_WATCHERS: usize = 4;

/// What was found.
pub(super) struct Facts {
    /// Files that may be open; `None`: as many as there are.
    pub(super) files: Option<u64>,
    /// Files that are.
    pub(super) open: u64,
    pub(super) peers: usize,
    /// Instances of inotify that could be had, of [`SPARE_WATCHERS`].
    pub(super) watchers: usize,
    /// `fs.inotify.max_user_instances`.
    pub(super) most_watchers: Option<String>,
}

/// Looks. That there are instances of inotify left is known by having them for a moment.
pub(super) fn look(peers: usize) -> Facts {
    let spare: Vec<_> =
        (0..SPARE_WATCHERS).map_while(|_| inotify::init(CreateFlags::CLOEXEC).ok()).collect();
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count());
    let open = open.saturating_sub(spare.len());
    Facts {
        files: getrlimit(Resource::Nofile).current,
        open: u64::try_from(open).unwrap_or(u64::MAX),
        peers,
        watchers: spare.len(),
        most_watchers: super::sysctl::from_kernel("fs/inotify/max_user_instances"),
    }
}

/// All that is to be said about it.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let peers = u64::try_from(facts.peers).unwrap_or(u64::MAX);
    let need = facts.open + CALLS + peers.saturating_mul(FILES_OF_A_PEER);
    let files = match facts.files {
        Some(most) if most < need => Finding::warn(
            LIMITS,
            format!("{most} files may be open, {} are, and {need} may be needed", facts.open),
            "raise the limit of open files (LimitNOFILE= of the unit, ulimits of the container) to \
             4096 or more, and restart the agent",
        ),
        Some(most) => Finding::ok(LIMITS, format!("{} of {most} files open", facts.open)),
        None => Finding::ok(LIMITS, format!("{} files open, without a limit", facts.open)),
    };
    let most = facts.most_watchers.as_deref().unwrap_or("unknown");
    let watchers = if facts.watchers < SPARE_WATCHERS {
        Finding::warn(
            LIMITS,
            format!(
                "{} instances of inotify are left (fs.inotify.max_user_instances = {most}): new \
                 directories cannot be followed",
                facts.watchers
            ),
            "sysctl -w fs.inotify.max_user_instances=1024, or see who has them all",
        )
    } else {
        Finding::ok(LIMITS, format!("instances of inotify are left, of {most}"))
    };
    vec![files, watchers]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::Status;

    #[test]
    fn a_limit_that_is_near_is_told() {
        let table = [
            (Some(1024), 40, 2, SPARE_WATCHERS, vec![]),
            (None, 40, 2, SPARE_WATCHERS, vec![]),
            (Some(1024), 40, 200, SPARE_WATCHERS, vec!["1024 files may be open, 40 are"]),
            (Some(256), 40, 0, SPARE_WATCHERS, vec!["256 files may be open"]),
            (Some(1024), 40, 2, 3, vec!["3 instances of inotify are left"]),
        ];
        for (files, open, peers, watchers, wanted) in table {
            let most_watchers = Some("128".into());
            let findings = judge(&Facts { files, open, peers, watchers, most_watchers });
            let bad: Vec<_> = findings.iter().filter(|f| f.status != Status::Ok).collect();
            assert_eq!(bad.len(), wanted.len(), "{findings:?}");
            for (finding, words) in bad.iter().zip(wanted) {
                assert!(finding.message.contains(words) && !finding.remedy.is_empty());
            }
        }
        assert!(look(0).open > 0);
    }
}
