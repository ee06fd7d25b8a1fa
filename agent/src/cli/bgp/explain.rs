//! `bgp explain`: the verdict, and the sentences under a heading each. They are the agent's; decides
//! only how they stand on a page.

use clap::Args;

use super::explanation::{ExplainArgs, Explanation};
use super::question::{Destination, PeerName};
use crate::cli::Show;
use crate::cli::ask::ask;
use crate::cli::output::{self, Look};
use crate::server::admin::op;

/// Behind `bgp explain --help`.
pub const HELP: &str = "\
Answers which pod and annotation, or which network of the NodeConfig, originates a prefix; whether
its route is in the kernel; which peers were told, when and with which attributes; what stopped it
from being told; and for a learned prefix which path won, and at which step. For an address that has
no route of its own it explains the narrowest prefix that holds it.

Exit status: 0 explained, announced or not; 1 nothing is known of it; 2 the agent cannot be asked, or
there is no such peer.

Examples:
  flock-agent bgp explain 10.244.1.0/24
  flock-agent bgp explain 192.0.2.53 --peer tor-a
  flock-agent bgp explain 0.0.0.0/0
  flock-agent bgp explain 192.0.2.53 -o json | jq -r '.peers[] | select(.told | not) | .reason'";

/// `bgp explain`.
#[derive(Debug, Clone, Args)]
pub struct Explain {
    #[command(flatten)]
    show: Show,

    /// The prefix, or an address
    #[arg(value_name = "PREFIX|ADDRESS")]
    destination: Destination,

    /// Only as far as this peer is concerned
    #[arg(long, value_name = "NAME")]
    peer: Option<PeerName>,
}

/// Asks and prints; false when nothing is known.
pub fn run(wanted: &Explain) -> anyhow::Result<bool> {
    let answer = asked(wanted)?;
    let text = output::formal(wanted.show.output, &answer)?;
    let look = Look::of(wanted.show.output);
    output::print(&text.unwrap_or_else(|| render(&answer, look)))?;
    Ok(answer.known)
}

fn asked(wanted: &Explain) -> anyhow::Result<Explanation> {
    let question = ExplainArgs { destination: wanted.destination, peer: wanted.peer.clone() };
    ask(&wanted.show.admin_socket, op::BGP_EXPLAIN, &question)
}

/// The verdict, and each heading with its sentences.
pub(super) fn render(answer: &Explanation, _look: Look) -> String {
    let mut text = format!("{}\n", answer.verdict);
    let mut under = None;
    for sentence in &answer.sentences {
        if under.replace(sentence.about) != Some(sentence.about) {
            text.push_str(&format!("\n{}\n", sentence.about.heading()));
        }
        text.push_str(&format!("  {}\n", sentence.text));
    }
    text
}
