//! `flock-agent bgp`: what the speaker of this node does, and what it is told to do. Which commands
//! there are; each one's own file does it.

mod answer;
mod detail;
mod explain;
mod explanation;
mod orders;
mod peers;
mod question;
mod routes;
#[cfg(test)]
pub(crate) mod sample;
mod show;
mod stream;
mod summary;
#[cfg(test)]
mod tests;

use clap::{Args, Subcommand};

use super::exit::Ended;
pub use answer::{
    FamilyRow, NotAnnounced, PeerList, PeerRow, PeerState, Refreshed, RouteList, RouteRow,
    RouteSource, Summary, WasReset,
};
pub use explain::Explain;
pub use explanation::{
    About, Covering, ExplainArgs, ExplainedAttributes, ExplainedKernel, ExplainedOrigin,
    ExplainedPath, ExplainedPeer, ExplainedPod, Explanation, Sentence,
};
pub use orders::{Refresh, Reset};
pub use question::{
    Destination, Direction, Needle, PeerName, PeersArgs, RefreshArgs, ResetArgs, RoutesArgs, Which,
    Words,
};
pub use show::BgpShow;

/// Below the commands.
pub(super) const HELP: &str = "\
Examples:
  flock-agent bgp show
  flock-agent bgp show routes --advertised --peer tor-a
  flock-agent bgp refresh tor-a
  flock-agent bgp reset tor-a";

/// `bgp`.
#[derive(Debug, Clone, Args)]
pub struct Bgp {
    /// What to do.
    #[command(subcommand)]
    pub command: BgpCommand,
}

/// The commands of `bgp`.
#[derive(Debug, Clone, Subcommand)]
pub enum BgpCommand {
    /// Show the speaker and its peers; or one of them, or the routes
    #[command(after_help = show::HELP)]
    Show(BgpShow),
    /// Explain in sentences why a prefix is announced or not, to whom, and what was learned of it
    #[command(after_help = explain::HELP)]
    Explain(Explain),
    /// Ask a peer for everything again, and tell it everything again; the session stays
    #[command(after_help = orders::REFRESH_HELP)]
    Refresh(Refresh),
    /// End the session with a peer, and begin anew
    #[command(after_help = orders::RESET_HELP)]
    Reset(Reset),
}

/// Does it.
pub fn run(bgp: &Bgp) -> anyhow::Result<Ended> {
    match &bgp.command {
        BgpCommand::Show(wanted) => show::run(wanted),
        BgpCommand::Explain(wanted) => explain::run(wanted),
        BgpCommand::Refresh(wanted) => orders::refresh(wanted),
        BgpCommand::Reset(wanted) => orders::reset(wanted),
    }
}
