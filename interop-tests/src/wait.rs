//! Awaiting a condition instead of sleeping.
//!
//! The limits are generous: they exist so that a broken run ends, not to judge
//! how fast something was. An interruption (Ctrl-C in the demo) ends every wait
//! at once, so that the destructors get their turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long to await what normally takes milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(30);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes every wait, present and future, give up.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Whether [`interrupt`] was called.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// When every wait is to give up, if that is decided.
static DEADLINE: Mutex<Option<Instant>> = Mutex::new(None);

/// A limit for everything that is awaited while it lives: for a program that goes on with the next
/// thing when this one takes too long. There is one at a time.
#[derive(Debug)]
pub struct Limit(());

impl Limit {
    /// From now on, for this long.
    pub fn set(limit: Duration) -> Self {
        *DEADLINE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + limit);
        Self(())
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        *DEADLINE.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Fails once [`interrupt`] was called or a [`Limit`] is over; for use between the steps of a program.
pub fn go_on() -> Result<()> {
    if interrupted() {
        bail!("interrupted");
    }
    let deadline = *DEADLINE.lock().unwrap_or_else(PoisonError::into_inner);
    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        bail!("its time is over");
    }
    Ok(())
}

/// Repeats `attempt` until it succeeds. After `limit` the last failure is
/// returned, with `what` was awaited.
pub fn until<T>(what: &str, limit: Duration, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(2);
    loop {
        go_on()?;
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() >= deadline => {
                return Err(error.context(format!("gave up after {limit:?} awaiting {what}")));
            }
            Err(_) => thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failure_is_told_with_what_was_awaited() {
        let mut left = 3;
        let counted = until("three attempts", PATIENCE, || {
            left -= 1;
            if left > 0 {
                bail!("{left} to go");
            }
            Ok(left)
        });
        assert_eq!(counted.unwrap(), 0);
        let failed = until("nothing", Duration::ZERO, || -> Result<()> { bail!("too early") });
        let told = format!("{:#}", failed.unwrap_err());
        assert!(told.contains("awaiting nothing") && told.contains("too early"), "{told}");
    }
}
