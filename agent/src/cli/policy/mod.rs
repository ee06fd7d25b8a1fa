//! `flock-agent policy`: what NetworkPolicies do to the pods of this node. Which commands there are;
//! each one's own file does it.

mod answer;
mod explain;
mod question;
mod show;

use clap::{Args, Subcommand};

use super::exit::Ended;
pub use answer::{
    AllowedBy, ExplainedEnd, ExplainedSide, PolicyExplanation, PolicyPod, PolicyReport, PolicyRow,
    PolicyRule, PolicySide, PolicyState,
};
pub use explain::PolicyExplain;
pub use question::{PodName, PolicyExplainArgs, PolicyShowArgs, Spoken, Who};
pub use show::PolicyShow;

/// Below the commands.
pub(super) const HELP: &str = "\
Examples:
  flock-agent policy show
  flock-agent policy show shop/web-0
  flock-agent policy explain --from shop/web-0 --to shop/db-0 --port 5432";

/// `policy`.
#[derive(Debug, Clone, Args)]
pub struct Policy {
    /// What to do.
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// The commands of `policy`.
#[derive(Debug, Clone, Subcommand)]
pub enum PolicyCommand {
    /// Show which pods of this node are isolated, by which policies, and what was dropped
    #[command(after_help = show::HELP)]
    Show(PolicyShow),
    /// Explain whether one may talk to another, and by which policy and rule
    #[command(after_help = explain::HELP)]
    Explain(PolicyExplain),
}

/// Does it.
pub fn run(policy: &Policy) -> anyhow::Result<Ended> {
    match &policy.command {
        PolicyCommand::Show(wanted) => show::run(wanted),
        PolicyCommand::Explain(wanted) => explain::run(wanted),
    }
}
