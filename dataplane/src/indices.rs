//! Which index the two ends of a pod's link have: the same.
//!
//! Decides it so that the kernel is in no hurry. A link has its carrier when the other end comes up; where the two
//! indices differ, the kernel knows that one link depends on another (`linkwatch_urgent_event`) and tells everybody
//! at once, from a worker that walks all IPv6 routes of the node with RTNL held, while the attach that made the link
//! still has routes to lay and waits for that lock. Where they are equal it takes its time: until somebody asks for the
//! link ([`crate::Dataplane::finish_attach`], when the pod is served already), or for a second.
//!
//! Each is given once, one after the other, from a place above those that the kernel gives by itself. Where one is
//! taken all the same, the kernel chooses, and all that is lost is the time.

use std::sync::atomic::{AtomicU32, Ordering};

/// Where they begin.
const FIRST: u32 = 1 << 20;
/// And how many there are, before they begin anew.
const COUNT: u32 = 1 << 30;

/// The next one.
#[derive(Debug, Default)]
pub(crate) struct Indices(AtomicU32);

impl Indices {
    /// One that was not given yet.
    pub(crate) fn next(&self) -> u32 {
        FIRST + self.0.fetch_add(1, Ordering::Relaxed) % COUNT
    }

    /// A link has this one, from an earlier life perhaps: those that follow are higher.
    pub(crate) fn seen(&self, index: u32) {
        if let Some(place) = index.checked_sub(FIRST).filter(|place| *place < COUNT) {
            self.0.fetch_max(place + 1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_is_given_twice_or_is_another_lifes() {
        let indices = Indices::default();
        assert_eq!([indices.next(), indices.next()], [FIRST, FIRST + 1]);
        for seen in [FIRST + 7, FIRST + 3, 12, u32::MAX] {
            indices.seen(seen);
        }
        assert_eq!(indices.next(), FIRST + 8);
    }

    #[test]
    fn what_the_kernel_takes_for_an_index_it_is() {
        let indices = Indices::default();
        indices.seen(FIRST + COUNT - 1);
        assert!(i32::try_from(FIRST + COUNT - 1).is_ok());
        assert_eq!(indices.next(), FIRST, "they begin anew");
    }
}
