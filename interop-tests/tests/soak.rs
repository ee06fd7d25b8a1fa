//! The agent under changes without end keeps to the memory that it has. (The same for an
//! hour is a matter of [`Soak::duration`].)
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by ending there")]

use std::time::Duration;

use rack::bench::agent::soak::{Soak, soak};

/// What has come to be by then grows no more: routes that linger for 5 s, what is
/// remembered of a thousand withdrawals, the allocator's arenas.
const WARM_UP: Duration = Duration::from_secs(14);
/// What may come to be after that: addresses of pods that have gone cool down for a minute,
/// and the allocator is not exact.
const SLACK: i64 = 1 << 20;

#[test]
fn memory_does_not_grow_with_what_has_happened() {
    let dir = tempfile::tempdir().unwrap();
    let wishes = Soak {
        originated: 100,
        changes_a_second: 400,
        calls_a_second: 10,
        duration: Duration::from_secs(40),
        every: Duration::from_millis(500),
    };
    let soaked = soak(dir.path(), &wishes, |_| {}).unwrap();
    let resident: Vec<u64> = soaked.samples.iter().map(|sample| sample.resident >> 10).collect();
    // A machine that is slow makes fewer; some there must be, or nothing was tried.
    assert!(soaked.changes > 2000 && soaked.calls > 100, "{soaked:?}");
    let growth = soaked.growth(WARM_UP);
    assert!(growth < SLACK, "by {growth} bytes; KiB every half second: {resident:?}");
}
