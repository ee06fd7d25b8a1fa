//! `flock-agent bgp`: what the speaker of this node does. Decides what is asked and what is said
//! when there is nothing to show; how an answer looks is each view's own.

mod answer;
mod detail;
mod peers;
mod question;
mod routes;
#[cfg(test)]
mod sample;
mod summary;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::anyhow;
use clap::{Args, Subcommand};

use super::Show;
use super::ask::{self, ask};
use super::output::{self, Look};
use crate::server::admin::{NoArgs, op};
pub use answer::{
    FamilyRow, NotAnnounced, PeerList, PeerRow, PeerState, RouteList, RouteRow, RouteSource,
    Summary,
};
pub use question::{Destination, PeerName, PeersArgs, RoutesArgs, Which};

const SHOW_HELP: &str = "\
Examples:
  flock-agent bgp show
  flock-agent bgp show peers tor-a
  flock-agent bgp show routes 2001:db8:a::/64
  flock-agent bgp show -o json | jq '.peers[] | select(.state != \"Established\")'";

const PEERS_HELP: &str = "\
Counts are routes: RCVD that the peer told, ACC of those that policy let in, ADV that it was told.

Examples:
  flock-agent bgp show peers
  flock-agent bgp show peers tor-a
  flock-agent bgp show peers -o wide";

const ROUTES_HELP: &str = "\
A prefix shows the route of this very prefix, an address all routes that hold it.

Examples:
  flock-agent bgp show routes
  flock-agent bgp show routes 2001:db8:a::7
  flock-agent bgp show routes --advertised --peer tor-a
  flock-agent bgp show routes 0.0.0.0/0 --received -o wide";

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
    #[command(after_help = SHOW_HELP)]
    Show(BgpShow),
}

/// `bgp show`.
#[derive(Debug, Clone, Args)]
pub struct BgpShow {
    #[command(flatten)]
    show: Show,

    #[command(subcommand)]
    view: Option<View>,
}

#[derive(Debug, Clone, Subcommand)]
enum View {
    /// Show the peers, or one of them in full
    #[command(after_help = PEERS_HELP)]
    Peers {
        /// Only this peer, in full
        name: Option<PeerName>,
    },
    /// Show the routes: what this node originates, what peers told and were told
    #[command(after_help = ROUTES_HELP)]
    Routes(Routes),
}

#[derive(Debug, Clone, Args)]
struct Routes {
    /// Only this prefix, or the routes that hold this address
    prefix: Option<Destination>,

    /// What peers told, refused routes included
    #[arg(long, group = "which")]
    received: bool,

    /// What peers were told
    #[arg(long, group = "which")]
    advertised: bool,

    /// What this node originates
    #[arg(long, group = "which", conflicts_with = "peer")]
    originated: bool,

    /// Only what this peer told; with --advertised, what it was told
    #[arg(long, value_name = "NAME")]
    peer: Option<PeerName>,
}

impl Routes {
    fn question(&self) -> RoutesArgs {
        let which = match (self.received, self.advertised, self.originated) {
            (true, _, _) => Which::Received,
            (_, true, _) => Which::Advertised,
            (_, _, true) => Which::Originated,
            _ => Which::All,
        };
        RoutesArgs { prefix: self.prefix, which, peer: self.peer.clone() }
    }
}

/// Asks and prints.
pub fn run(bgp: &Bgp) -> anyhow::Result<()> {
    let BgpCommand::Show(wanted) = &bgp.command;
    output::print(&shown(wanted, Look::of(wanted.show.output))?)
}

fn shown(wanted: &BgpShow, look: Look) -> anyhow::Result<String> {
    match &wanted.view {
        None => show_summary(&wanted.show, look),
        Some(View::Peers { name: None }) => show_peers(&wanted.show, look),
        Some(View::Peers { name: Some(name) }) => show_peer(&wanted.show, name, look),
        Some(View::Routes(routes)) => show_routes(&wanted.show, &routes.question(), look),
    }
}

fn show_summary(show: &Show, look: Look) -> anyhow::Result<String> {
    let answer = ask_summary(&show.admin_socket)?;
    let text = output::formal(show.output, &answer)?;
    Ok(text.unwrap_or_else(|| summary::render(&answer, look)))
}

fn show_peers(show: &Show, look: Look) -> anyhow::Result<String> {
    let list = ask_peers(&show.admin_socket, None)?;
    if let Some(text) = output::formal(show.output, &list)? {
        return Ok(text);
    }
    if list.peers.is_empty() {
        return nothing(&show.admin_socket, summary::NO_PEERS);
    }
    Ok(peers::render(&list.peers, look))
}

fn show_peer(show: &Show, name: &PeerName, look: Look) -> anyhow::Result<String> {
    let list = ask_peers(&show.admin_socket, Some(name))?;
    let Some(peer) = list.peers.first() else {
        return Err(not_a_peer(&show.admin_socket, name)?);
    };
    let text = output::formal(show.output, &list)?;
    Ok(text.unwrap_or_else(|| detail::render(peer, look)))
}

fn show_routes(show: &Show, question: &RoutesArgs, look: Look) -> anyhow::Result<String> {
    let socket = &show.admin_socket;
    let mut list = RouteList { routes: Vec::new() };
    ask::rows(socket, op::BGP_ROUTES, question, |rows| {
        list.routes.extend(rows);
        Ok(ControlFlow::Continue(()))
    })?;
    // Nothing of a peer that there is differs from a name that was mistyped.
    if let Some(name) = question.peer.as_ref().filter(|_| list.routes.is_empty())
        && ask_peers(socket, Some(name))?.peers.is_empty()
    {
        return Err(not_a_peer(socket, name)?);
    }
    if let Some(text) = output::formal(show.output, &list)? {
        return Ok(text);
    }
    if list.routes.is_empty() {
        return nothing(socket, &routes::none(question));
    }
    Ok(routes::render(&list.routes, question.which, look))
}

fn ask_summary(socket: &Path) -> anyhow::Result<Summary> {
    ask(socket, op::BGP_SUMMARY, &NoArgs {})
}

fn ask_peers(socket: &Path, name: Option<&PeerName>) -> anyhow::Result<PeerList> {
    ask(socket, op::BGP_PEERS, &PeersArgs { name: name.cloned() })
}

/// What to say when there is nothing: a node without BGP has a reason of its own.
fn nothing(socket: &Path, words: &str) -> anyhow::Result<String> {
    let summary = ask_summary(socket)?;
    Ok(if summary.asn.is_none() { summary::NO_BGP.into() } else { words.into() })
}

/// The error that names the peers that there are.
fn not_a_peer(socket: &Path, name: &PeerName) -> anyhow::Result<anyhow::Error> {
    let list = ask_peers(socket, None)?;
    if list.peers.is_empty() {
        let why = nothing(socket, summary::NO_PEERS)?;
        return Ok(anyhow!("no peer is called {:?}: {}", name.as_str(), why.trim_end()));
    }
    let names: Vec<&str> = list.peers.iter().map(|peer| peer.name.as_str()).collect();
    Ok(anyhow!("no peer is called {:?}; there are: {}", name.as_str(), names.join(", ")))
}
