//! Places where a test may make the process die or an operation fail.
//!
//! Decides nothing about production: without debug assertions a point is
//! empty. With them, `FLOCK_FAULT="name=kill,other=error@2"` in the
//! environment, or [`inject`] in the same process, arms a point; `@N` means
//! the Nth time that it is passed. What must hold afterwards is each test's.

/// The points of this crate, in the order of a pod's life.
pub const ALL: &[&str] = &[
    "attach.before-create",
    "attach.after-create",
    "attach.after-pod",
    "attach.after-host",
    "retire.before",
    "retire.after",
    "reap.before",
    "reap.after",
    "set-route.before",
    "set-route.after",
    "policy.replace",
    "policy.change",
];

/// The error that an armed point returns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("injected fault at {point}")]
pub struct Injected {
    /// The point's name.
    pub point: &'static str,
}

/// What an armed point does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// SIGKILL to the own process, as a crash.
    Kill,
    /// An error from the point.
    Error,
}

/// Passes a point: nothing, unless a test armed it.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn point(_name: &'static str) -> Result<(), Injected> {
    Ok(())
}

#[cfg(debug_assertions)]
pub use armed::{Armed, inject, point};

#[cfg(debug_assertions)]
mod armed {
    use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

    use super::{Action, Injected};

    #[derive(Debug)]
    struct Wish {
        point: String,
        action: Action,
        passes_left: u64,
        ticket: u64,
    }

    #[derive(Debug, Default)]
    struct Wishes {
        list: Vec<Wish>,
        tickets: u64,
    }

    static WISHES: LazyLock<Mutex<Wishes>> = LazyLock::new(|| {
        let text = std::env::var("FLOCK_FAULT").unwrap_or_default();
        Mutex::new(Wishes { list: text.split(',').filter_map(parse).collect(), tickets: 0 })
    });

    fn wishes() -> MutexGuard<'static, Wishes> {
        WISHES.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parse(entry: &str) -> Option<Wish> {
        let (point, action) = entry.trim().split_once('=')?;
        let (action, nth) = action.split_once('@').unwrap_or((action, "1"));
        let action = match action {
            "kill" => Action::Kill,
            "error" => Action::Error,
            _ => return None,
        };
        Some(Wish { point: point.to_owned(), action, passes_left: nth.parse().ok()?, ticket: 0 })
    }

    /// Keeps an injected fault armed until it is dropped.
    #[derive(Debug)]
    #[must_use = "the fault is disarmed when this is dropped"]
    pub struct Armed {
        ticket: u64,
    }

    impl Drop for Armed {
        fn drop(&mut self) {
            wishes().list.retain(|wish| wish.ticket != self.ticket);
        }
    }

    /// Arms a point of this process: its `nth` pass (counted from 1) acts.
    pub fn inject(point: &str, action: Action, nth: u64) -> Armed {
        let mut wishes = wishes();
        wishes.tickets += 1;
        let ticket = wishes.tickets;
        wishes.list.push(Wish { point: point.to_owned(), action, passes_left: nth, ticket });
        Armed { ticket }
    }

    /// Passes a point: an error or death where a test armed it.
    pub fn point(name: &'static str) -> Result<(), Injected> {
        let mut due = None;
        for wish in wishes().list.iter_mut().filter(|wish| wish.point == name) {
            wish.passes_left = wish.passes_left.wrapping_sub(1);
            if wish.passes_left == 0 {
                due = Some(wish.action);
            }
        }
        match due {
            None => Ok(()),
            Some(Action::Error) => Err(Injected { point: name }),
            Some(Action::Kill) => {
                let own = rustix::process::getpid();
                // Cannot fail for oneself; the error is for the type only.
                let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
                Err(Injected { point: name })
            }
        }
    }
}
