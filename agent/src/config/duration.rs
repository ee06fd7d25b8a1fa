//! Lengths of time as people write them. Decides what `90s`, `300ms` and `90` are, and whether a
//! length is within bounds; leaves which bounds to the callers.

use std::time::Duration;

use super::problem::At;
use super::schema::Span;

/// The bounds of one setting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) least: Duration,
    pub(super) most: Duration,
    /// The protocol carries whole seconds.
    pub(super) whole_seconds: bool,
}

/// The length, or a problem and nothing.
pub(super) fn read(span: &Span, bounds: Bounds, mut at: At<'_>) -> Option<Duration> {
    let length = match span {
        Span::Seconds(seconds) => u64::try_from(*seconds).ok().map(Duration::from_secs),
        Span::Text(text) => humantime::parse_duration(text.trim()).ok(),
    };
    let Some(length) = length else {
        at.wrong(span, "not a duration; write for example 90s, 300ms, or whole seconds");
        return None;
    };
    if length < bounds.least || length > bounds.most {
        let (least, most) = (human(bounds.least), human(bounds.most));
        at.wrong(span, format!("out of range; write a duration from {least} to {most}"));
        return None;
    }
    if bounds.whole_seconds && length.subsec_nanos() != 0 {
        at.wrong(span, "the protocol counts in seconds; write whole seconds");
        return None;
    }
    Some(length)
}

/// As `read` takes it: without the years and months that humantime makes of large numbers.
pub(super) fn human(length: Duration) -> String {
    if length.subsec_nanos() == 0 {
        format!("{}s", length.as_secs())
    } else {
        format!("{}ms", length.as_millis())
    }
}
