//! The agent's process as the kernel sees it, by the names that Prometheus has for it. Decides
//! nothing; what cannot be read is left out.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// What is known of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Process {
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: Option<u64>,
    pub(super) virtual_bytes: Option<u64>,
    pub(super) threads: Option<u64>,
    pub(super) open_fds: Option<usize>,
    pub(super) max_fds: Option<u64>,
}

impl Process {
    /// As it is now. A few system calls that never wait for a disk.
    pub(super) fn now() -> Self {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        // The listing itself has one open.
        let open = std::fs::read_dir("/proc/self/fd").ok();
        Self {
            cpu_seconds: used.tv_sec as f64 + used.tv_nsec as f64 / 1e9,
            open_fds: open.map(|entries| entries.count().saturating_sub(1)),
            max_fds: getrlimit(Resource::Nofile).current,
            ..Self::read(&status)
        }
    }

    /// What `/proc/self/status` says.
    fn read(status: &str) -> Self {
        let figure = |name: &str| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let bytes = |name| figure(name).and_then(|kibibytes| kibibytes.checked_mul(1024));
        Self {
            resident_bytes: bytes("VmRSS"),
            virtual_bytes: bytes("VmSize"),
            threads: figure("Threads"),
            ..Self::default()
        }
    }
}

/// Seconds of the epoch.
pub(super) fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        let status = "Name:\tflock\nVmSize:\t   20480 kB\nVmRSS:\t    9216 kB\nThreads:\t5\n";
        let read = Process::read(status);
        assert_eq!((read.resident_bytes, read.virtual_bytes), (Some(9 << 20), Some(20 << 20)));
        assert_eq!(read.threads, Some(5));
        assert_eq!(Process::read("VmRSS: lots\n"), Process::default());
    }

    #[test]
    fn this_process_has_everything() {
        let now = Process::now();
        assert!(now.cpu_seconds > 0.0 && now.resident_bytes.is_some_and(|bytes| bytes > 1 << 16));
        assert!(now.open_fds.is_some_and(|open| open >= 3), "{now:?}");
        assert!(now.max_fds.is_some() && now.threads.is_some_and(|threads| threads > 0));
    }
}
