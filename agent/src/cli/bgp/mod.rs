//! `flock-agent bgp`: what the speaker of this node does, and what it is told to do. Which commands
//! there are; each one's own file does it.

mod answer;
mod detail;
mod explain;
mod explanation;
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
    FamilyRow, NotAnnounced, PeerList, PeerRow, PeerState, RouteList, RouteRow, RouteSource,
    Summary,
};
pub use explain::Explain;
pub use explanation::{
    About, Covering, ExplainArgs, ExplainedAttributes, ExplainedKernel, ExplainedOrigin,
    ExplainedPath, ExplainedPeer, ExplainedPod, Explanation, Sentence,
};
pub use question::{Destination, Needle, PeerName, PeersArgs, RoutesArgs, Which};
pub use show::BgpShow;

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
}

/// Does it.
pub fn run(bgp: &Bgp) -> anyhow::Result<Ended> {
    match &bgp.command {
        BgpCommand::Show(wanted) => show::run(wanted),
        BgpCommand::Explain(wanted) => explain::run(wanted),
    }
}
