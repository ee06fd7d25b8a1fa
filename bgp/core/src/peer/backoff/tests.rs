//! How rests grow and when they are forgotten.

use super::*;

const RETRY: Duration = Duration::from_secs(5);
const LONG: Option<Duration> = Some(Duration::from_secs(3_600));
const BRIEF: Option<Duration> = Some(Duration::from_secs(1));

fn sent(code: u8, subcode: u8) -> Cause {
    Cause::Sent(Notification::new(code, subcode))
}

struct Past(Backoff, Dice);

impl Past {
    fn new() -> Self {
        Self(Backoff::default(), Dice::new(1))
    }

    /// Rests so long, in seconds, before the jitter that leaves three quarters of it or more.
    #[track_caller]
    fn rests(&mut self, cause: &Cause, lasted: Option<Duration>, seconds: u64) {
        let rest = self.0.rest(cause, lasted, RETRY, &mut self.1);
        let base = Duration::from_secs(seconds);
        assert!((base * 3 / 4..=base).contains(&rest), "{rest:?} is not {base:?}: {cause:?}");
    }
}

#[test]
fn errors_double_up_to_a_minute() {
    let mut past = Past::new();
    for seconds in [5, 10, 20, 40, 60, 60, 60] {
        past.rests(&sent(2, 2), None, seconds);
    }
}

#[test]
fn a_session_that_lasted_clears_the_past() {
    let mut past = Past::new();
    for _ in 0..5 {
        past.0.rest(&sent(2, 2), None, RETRY, &mut past.1);
    }
    past.rests(&sent(3, 1), LONG, 5);
}

#[test]
fn a_lost_connection_is_tried_again_at_once_but_a_flapping_one_is_not() {
    let mut past = Past::new();
    past.rests(&Cause::Closed, LONG, 0);
    for seconds in [2, 4, 8, 16, 32] {
        past.rests(&Cause::Closed, BRIEF, seconds);
    }
    past.rests(&Cause::Closed, LONG, 0);
}

#[test]
fn what_is_nobodys_fault_is_tried_again_at_once() {
    let received = |code, subcode| Cause::Received(Notification::new(code, subcode));
    for mild in [received(6, 4), received(6, 2), sent(4, 0), sent(8, 0), Cause::Closed] {
        Past::new().rests(&mild, LONG, 0);
        Past::new().rests(&mild, None, 1);
    }
    for grave in [received(2, 2), received(3, 1), sent(3, 1), sent(5, 3)] {
        Past::new().rests(&grave, LONG, 5);
    }
}

#[test]
fn too_many_prefixes_rest_longer_each_time_up_to_an_hour() {
    let mut past = Past::new();
    for seconds in [60, 120, 240, 480, 960, 1_920, 3_600, 3_600] {
        past.rests(&sent(6, 1), BRIEF, seconds);
    }
    past.rests(&sent(6, 1), Some(Duration::from_secs(7_200)), 60);
}

#[test]
fn a_lost_collision_is_no_failure() {
    let received = Cause::Received(Notification::new(6, 7));
    for collision in [sent(6, 7), received] {
        let mut past = Past::new();
        for _ in 0..10 {
            past.rests(&collision, None, 1);
        }
        past.rests(&sent(2, 2), None, 5);
    }
}

#[test]
fn what_an_operator_asked_for_is_no_failure() {
    let mut past = Past::new();
    for _ in 0..10 {
        past.rests(&sent(6, 4), BRIEF, 1);
    }
    past.rests(&sent(3, 1), BRIEF, 5);
}

#[test]
fn attempts_that_are_rare_anyway_are_not_made_more_often() {
    let mut past = Past::new();
    let retry = Duration::from_secs(600);
    let rest = past.0.rest(&sent(2, 2), None, retry, &mut past.1);
    assert!(rest >= retry * 3 / 4);
}
