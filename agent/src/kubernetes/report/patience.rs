//! A write that failed: what to make of the failure, and when it is tried again. The longer it fails the
//! less often, and never all nodes at once.

use std::time::Duration;

use kube::Error;
use rand::RngExt as _;
use tokio::time::{Instant, timeout};

use super::ANSWER;
use crate::kubernetes::client;
use crate::log::Lasting;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Why a write did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// What it is about is not there.
    Absent,
    /// What was to be made is there already.
    There,
    /// The API server read it and will not have it: the same again is refused again.
    Refused(String),
    /// Away, overloaded, or its answer did not come.
    Unanswered(String),
}

/// One request, with an end.
pub(super) async fn answered<T>(
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, Failure> {
    match timeout(ANSWER, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(judge(&error)),
        Err(_) => Err(Failure::Unanswered(format!("no answer within {} s", ANSWER.as_secs()))),
    }
}

fn judge(error: &Error) -> Failure {
    let words = client::told(error);
    match error {
        Error::Api(status) if status.code == 404 => Failure::Absent,
        Error::Api(status) if status.reason == "AlreadyExists" => Failure::There,
        // Too many requests, or a change at the same time.
        Error::Api(status) if (400..500).contains(&status.code) => match status.code {
            408 | 409 | 429 => Failure::Unanswered(words),
            _ => Failure::Refused(words),
        },
        _ => Failure::Unanswered(words),
    }
}

/// When to try again.
#[derive(Debug, Default)]
pub(super) struct Patience {
    tries: u32,
    not_before: Option<Instant>,
    told: Lasting,
}

impl Patience {
    /// Not to be tried before then; `None`: at any time.
    pub(super) fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    /// Nothing stands in the way.
    pub(super) fn succeeded(&mut self) {
        self.tries = 0;
        self.not_before = None;
        self.told.is_over();
    }

    /// It waits, each time longer. Tells of it once; `what` is what was to be written.
    pub(super) fn failed(&mut self, what: &'static str, failure: &Failure) {
        let wait = match failure {
            // Whoever makes it says so, and that is a reason to try at once.
            Failure::Absent | Failure::There | Failure::Refused(_) => LONGEST,
            Failure::Unanswered(_) => FIRST.saturating_mul(1 << self.tries.min(6)).min(LONGEST),
        };
        self.tries = self.tries.saturating_add(1);
        let jitter = rand::rng().random_range(0.75..1.25);
        self.not_before = Some(Instant::now() + wait.mul_f64(jitter));
        let (Failure::Refused(reason) | Failure::Unanswered(reason)) = failure else { return };
        if self.told.is_news(reason) {
            tracing::warn!(what, reason, "cannot write to the API server; trying again");
        } else {
            tracing::debug!(what, reason, "still cannot write to the API server");
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn api(code: u16) -> Error {
        Error::Api(Box::new(Status::failure("no", "No").with_code(code)))
    }

    #[test]
    fn what_a_failure_is() {
        for (code, refused, absent) in [
            (404, false, true),
            (403, true, false),
            (422, true, false),
            (400, true, false),
            (409, false, false),
            (429, false, false),
            (500, false, false),
            (503, false, false),
        ] {
            let failure = judge(&api(code));
            assert_eq!(failure == Failure::Absent, absent, "{code}");
            assert_eq!(matches!(failure, Failure::Refused(_)), refused, "{code}");
        }
        let again = Status::failure("events \"x\" already exists", "AlreadyExists").with_code(409);
        assert_eq!(judge(&Error::Api(Box::new(again))), Failure::There);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longer_it_fails_the_less_often_it_is_tried() {
        let mut patience = Patience::default();
        let away = Failure::Unanswered("away".into());
        let mut waits = Vec::new();
        for _ in 0..40 {
            patience.failed("status", &away);
            waits.push(patience.not_before().unwrap() - Instant::now());
        }
        assert!(waits[0] >= FIRST.mul_f64(0.75) && waits[0] <= FIRST.mul_f64(1.25), "{waits:?}");
        assert!(waits[3] > waits[0] && waits[39] >= LONGEST.mul_f64(0.75), "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= LONGEST.mul_f64(1.25)), "{waits:?}");
        patience.succeeded();
        assert_eq!(patience.not_before(), None);
        patience.failed("status", &Failure::Refused("403".into()));
        assert!(patience.not_before().unwrap() - Instant::now() >= LONGEST.mul_f64(0.75));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let answer = answered(std::future::pending::<Result<(), Error>>()).await;
        assert_eq!(answer, Err(Failure::Unanswered("no answer within 10 s".into())));
    }
}
