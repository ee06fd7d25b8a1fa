//! The speaker alone (`bgp/io`'s example), beside BIRD, FRR, OpenBGPD and GoBGP, by one tool
//! (`rack::bench::bgp`).
//!
//! Four questions: what many routes through a speaker cost; how long one change takes until it is in the
//! kernel of the router beyond; how soon after its start a speaker has told everything; what the codec
//! costs a prefix. The floors are measured with the same watch. A contestant that fails is left out and
//! named under the table.

mod change;
mod start;
pub(crate) mod transit;

use anyhow::Result;
use rack::bench::bgp::codec;
use rack::bench::report::Report;
use rack::bench::samples::Samples;

use crate::options::Run;

/// Which of somebody's samples.
type Pick<T> = fn(&T) -> &Samples;

/// Measures and reports all but the many routes.
pub(crate) fn measure(run: &Run, report: &mut Report) -> Result<()> {
    start::measure(run, report)?;
    change::measure(run, report)?;
    codec::rows()?.into_iter().for_each(|row| report.add(row));
    Ok(())
}
