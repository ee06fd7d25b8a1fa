//! What a process and its children have used: processor time and memory.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

/// Processor time and memory, at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// On a processor, in user and kernel mode, to the nanosecond.
    pub processor: Duration,
    /// Resident, in bytes.
    pub resident: u64,
    /// The most that was ever resident.
    pub peak: u64,
}

/// Looks at a process and, since OpenBGPD is three of them, its children.
pub fn of(pid: u32) -> Result<Usage> {
    let mut usage = alone(pid)?;
    for child in children(pid) {
        let child = of(child)?;
        usage.processor += child.processor;
        usage.resident += child.resident;
        usage.peak += child.peak;
    }
    Ok(usage)
}

fn alone(pid: u32) -> Result<Usage> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let mut processor = Duration::ZERO;
    for thread in fs::read_dir(process.join("task")).with_context(|| format!("process {pid}"))? {
        // Unlike utime and stime in `stat` it does not count in hundredths of a second.
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let nanoseconds = text.split(' ').next().and_then(|field| field.parse().ok());
        processor += Duration::from_nanos(nanoseconds.context("an empty schedstat")?);
    }
    let kilobytes = |file: &str, field: &str| -> Result<u64> {
        let text = fs::read_to_string(process.join(file))?;
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        let figure = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        Ok(figure.with_context(|| format!("no {field} in {file}"))? * 1024)
    };
    let resident = kilobytes("smaps_rollup", "Rss:")?;
    Ok(Usage { processor, resident, peak: kilobytes("status", "VmHWM:")? })
}

fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_memory_of_this_process_are_seen() {
        let before = of(std::process::id()).unwrap();
        let filled = vec![1_u8; 32 << 20];
        let sum: u64 = filled.iter().map(|byte| u64::from(*byte)).sum();
        let after = of(std::process::id()).unwrap();
        assert_eq!(sum, 32 << 20);
        assert!(after.resident >= before.resident + (16 << 20));
        assert!(after.processor > before.processor);
    }
}
