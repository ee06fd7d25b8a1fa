//! How YAML from outside is read: YAML 1.2's booleans, no quotations of the input in errors, and
//! bounds on what aliases may unfold to.

use serde_saphyr::Options;

/// Anchors of one file, and aliases to them. People use a handful.
const MAX_ALIASES: usize = 256;
/// What these may unfold to. A few hundred bytes of nested aliases are billions of nodes otherwise.
const MAX_UNFOLDED: usize = 10_000;

/// For every document that the agent reads.
pub(crate) fn options() -> Options {
    serde_saphyr::options! {
        with_snippet: false,
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_recorded_anchor_events: MAX_UNFOLDED,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_UNFOLDED },
    }
}
