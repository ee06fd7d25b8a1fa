//! `bgp show`: what is asked, and what is said when there is nothing to show; how an answer looks is
//! each view's own.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use ipnet::IpNet;

use super::answer::{PeerList, RouteList, Summary};
use super::question::{Destination, PeerName, PeersArgs, RoutesArgs, Which};
use super::stream::Printer;
use super::{detail, peers, routes, summary};
use crate::cli::Show;
use crate::cli::ask::{self, ask};
use crate::cli::exit::{Ended, NotAsked};
use crate::cli::output::{self, Look, Size};
use crate::cli::view::{MOST_ROWS, View};
use crate::server::admin::{NoArgs, op};

pub(super) const HELP: &str = "\
Without a word: this node, what it originates, learned and installed, and its peers. Below the \
table, a line each, what is worth a look: why a session is not there, what is not announced.

With --watch it is drawn again when something changed, and once a second; in a pipe it is printed \
again when something other than times changed, as JSON an object a line.

Examples:
  flock-agent bgp show
  flock-agent bgp show peers tor-a
  flock-agent bgp show routes 2001:db8:a::/64
  flock-agent bgp show -o json | jq '.peers[] | select(.state != \"Established\")'";

const PEERS_HELP: &str = "\
UP/DOWN is how long it is in its state. Counts are routes: RCVD that the peer told, ACC of those \
that policy let in, ADV that it was told. One peer is shown in full, with its families one by one.

Exit status: 1 where a peer is named that is not there

Examples:
  flock-agent bgp show peers
  flock-agent bgp show peers tor-a
  flock-agent bgp show peers -o wide";

const ROUTES_HELP: &str = "\
A prefix shows the route of this very prefix, an address all routes that hold it. With --longer a \
prefix shows all that is within it, with --exact an address shows its own /32 or /128.

A row is a path. Rows are sorted by prefix, IPv4 first; of one prefix the best path comes first. \
They are printed as they come: a table of a million routes needs no memory.

Marks: * the best, used and told; = as good as the best, shares its traffic; ! refused.

Examples:
  flock-agent bgp show routes
  flock-agent bgp show routes 2001:db8:a::7
  flock-agent bgp show routes 10.0.0.0/8 --longer
  flock-agent bgp show routes --advertised --peer tor-a
  flock-agent bgp show routes 0.0.0.0/0 --received -o wide
  flock-agent bgp show routes --limit 100 --after 10.7.0.0/16 -o json
  flock-agent bgp show routes --watch";

/// What changes of a peer by itself.
const CLOCKS: &[&str] = &[
    "uptimeSeconds",
    "stateSeconds",
    "lastErrorSecondsAgo",
    "nextAttemptSeconds",
    "messagesSent",
    "messagesReceived",
    "drain",
];

/// `bgp show`.
#[derive(Debug, Clone, Args)]
pub struct BgpShow {
    #[command(flatten)]
    pub(super) show: Show,

    #[command(subcommand)]
    pub(super) what: Option<What>,
}

#[derive(Debug, Clone, Subcommand)]
pub(super) enum What {
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
pub(super) struct Routes {
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

    /// The prefix, and everything within it
    #[arg(long, requires = "prefix", conflicts_with = "exact")]
    longer: bool,

    /// Only this very prefix; of an address, its own /32 or /128
    #[arg(long, requires = "prefix")]
    exact: bool,

    /// So many rows at most, and the other paths of the last one's prefix
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,

    /// Only what is behind this prefix in the list, to go on where --limit ended
    #[arg(long, value_name = "PREFIX")]
    after: Option<IpNet>,
}

impl Routes {
    pub(super) fn question(&self) -> anyhow::Result<RoutesArgs> {
        let which = match (self.received, self.advertised, self.originated) {
            (true, _, _) => Which::Received,
            (_, true, _) => Which::Advertised,
            (_, _, true) => Which::Originated,
            _ => Which::All,
        };
        let prefix = match self.prefix {
            Some(Destination::Address(address)) if self.exact => {
                Some(Destination::Prefix(address.into()))
            }
            prefix => prefix,
        };
        let question = RoutesArgs {
            prefix,
            which,
            peer: self.peer.clone(),
            within: self.longer,
            find: None,
            limit: self.limit,
            after: self.after.map(|after| after.trunc()),
        };
        question.check().map_err(|why| NotAsked(format!("--longer: {why}")))?;
        Ok(question)
    }
}

/// Asks and prints, once or again and again.
pub(super) fn run(wanted: &BgpShow) -> anyhow::Result<Ended> {
    let show = &wanted.show;
    match &wanted.what {
        None => the_summary().show(show),
        Some(What::Peers { name: None }) => all_peers(show).show(show),
        Some(What::Peers { name: Some(name) }) => one_peer(show, name)?.show(show),
        Some(What::Routes(routes)) if show.watch => watched(show, &routes.question()?).show(show),
        Some(What::Routes(routes)) => {
            print_routes(show, &routes.question()?, Look::of(show.output), output::write)?;
            Ok(Ended::Done)
        }
    }
}

/// The text that `run` prints once.
#[cfg(test)]
pub(super) fn shown(wanted: &BgpShow, look: Look) -> anyhow::Result<String> {
    let show = &wanted.show;
    Ok(match &wanted.what {
        None => the_summary().asked(show, look)?.1,
        Some(What::Peers { name: None }) => all_peers(show).asked(show, look)?.1,
        Some(What::Peers { name: Some(name) }) => one_peer(show, name)?.asked(show, look)?.1,
        Some(What::Routes(routes)) => {
            let mut text = String::new();
            print_routes(show, &routes.question()?, look, |more| {
                text.push_str(more);
                Ok(ControlFlow::Continue(()))
            })?;
            text
        }
    })
}

fn the_summary() -> View<'static, Summary> {
    let render = |answer: &Summary, look| Ok(summary::render(answer, look));
    View::new(op::BGP_SUMMARY, render).with_clocks(CLOCKS)
}

fn all_peers(show: &Show) -> View<'_, PeerList> {
    let render = |list: &PeerList, look| match list.peers.as_slice() {
        [] => nothing(&show.admin_socket, summary::NO_PEERS),
        peers => Ok(peers::render(peers, look)),
    };
    View::new(op::BGP_PEERS, render).with_clocks(CLOCKS)
}

fn one_peer<'a>(show: &'a Show, name: &'a PeerName) -> anyhow::Result<View<'a, PeerList>> {
    let render = |list: &PeerList, look| {
        Ok(list.peers.first().map(|peer| detail::render(peer, look)).unwrap_or_default())
    };
    let refuse = |list: &PeerList| match list.peers.as_slice() {
        [] => Err(not_a_peer(&show.admin_socket, name)?),
        _ => Ok(()),
    };
    let view = View::new(op::BGP_PEERS, render).refusing(refuse).with_clocks(CLOCKS);
    view.asking(&PeersArgs { name: Some(name.clone()) })
}

/// As many as the screen has lines for.
fn watched<'a>(show: &'a Show, question: &'a RoutesArgs) -> View<'a, RouteList> {
    let render = |list: &RouteList, look| match list.routes.as_slice() {
        [] => nothing(&show.admin_socket, &routes::none(question)),
        rows => Ok(routes::render(rows, question.which, look)),
    };
    let refuse = |list: &RouteList| is_known(&show.admin_socket, question, list.routes.is_empty());
    let args = |size: Option<Size>| {
        let fits = size.map_or(MOST_ROWS, |size| u32::try_from(size.rows).unwrap_or(u32::MAX));
        let limit = Some(question.limit.map_or(fits, |limit| limit.min(fits)));
        Ok(serde_json::to_value(RoutesArgs { limit, ..question.clone() })?)
    };
    View {
        args: Box::new(args),
        rows: Some("routes"),
        may_be_cut: question.limit.is_some_and(|limit| limit <= MOST_ROWS),
        ..View::new(op::BGP_ROUTES, render).refusing(refuse)
    }
}

/// Prints routes as they come; `out` says whether anybody still reads.
fn print_routes(
    show: &Show,
    question: &RoutesArgs,
    look: Look,
    mut out: impl FnMut(&str) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<()> {
    let socket = &show.admin_socket;
    let mut printer = Printer::new(show.output, question.which, look, &mut out);
    ask::rows(socket, op::BGP_ROUTES, question, |rows| printer.add(rows))?;
    if !printer.is_empty() {
        return printer.end();
    }
    is_known(socket, question, true)?;
    let text = match output::formal(show.output, &RouteList { routes: Vec::new() })? {
        Some(text) => text,
        None => nothing(socket, &routes::none(question))?,
    };
    out(&text).map(|_| ())
}

/// Nothing of a peer that there is differs from a name that was mistyped.
fn is_known(socket: &Path, question: &RoutesArgs, is_empty: bool) -> anyhow::Result<()> {
    match question.peer.as_ref().filter(|_| is_empty) {
        Some(name) if ask_peers(socket, Some(name))?.peers.is_empty() => {
            Err(not_a_peer(socket, name)?)
        }
        _ => Ok(()),
    }
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
