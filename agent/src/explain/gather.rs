//! Which prefix a question is about, and everybody who knows something of it: the book of pods, the
//! source, the reconciler, the speaker, the learned routes, the kernel. Decides nothing else.

use std::net::IpAddr;

use flock_dataplane::NodeRoute;
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::explained;
use super::facts::{By, Facts, Kernel, Mention, Node, Origin, Pod, Refused};
use crate::annotations::{self, PREFIX};
use crate::bgp::Bgp;
use crate::cli::bgp::{Destination, ExplainArgs, Explanation, PeersArgs};
use crate::config::NodeConfig;
use crate::fib;
use crate::pods::book::{Attachment, Book, own_addresses};
use crate::pods::{Pods, called, pod_key};
use crate::reconcile;
use crate::source::{Behind, NodeState, PodFacts, Standing, World};

/// So much of what is inside a prefix is named.
const INSIDE: usize = 100;

/// Answers `bgp.explain`.
pub async fn explain(pods: &Pods, bgp: &Bgp, args: ExplainArgs) -> Result<Explanation, String> {
    let only = args.peer.map(String::from);
    if let Some(name) = &only {
        is_peer(bgp, name).await?;
    }
    let asked = args.destination;
    let gather = Gather { pods, bgp, asked, only, now: Timestamp::now() };
    let prefix = gather.subject().await?;
    let mut facts = gather.about(prefix).await?;
    facts.covering = gather.around(&facts).await?.map(Box::new);
    Ok(explained(&facts))
}

async fn is_peer(bgp: &Bgp, name: &str) -> Result<(), String> {
    let peers = bgp.peers(&PeersArgs::default()).await?.peers;
    if peers.iter().any(|peer| peer.name == name) {
        return Ok(());
    }
    let names: Vec<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
    Err(match names.as_slice() {
        [] => format!("no peer is called {name:?}: there are none"),
        names => format!("no peer is called {name:?}; there are: {}", names.join(", ")),
    })
}

/// One question.
struct Gather<'a> {
    pods: &'a Pods,
    bgp: &'a Bgp,
    asked: Destination,
    only: Option<String>,
    now: Timestamp,
}

impl Gather<'_> {
    /// The prefix that is asked about; of an address its own, where something is known of it, else
    /// the narrowest that holds it.
    async fn subject(&self) -> Result<IpNet, String> {
        let address = match self.asked {
            Destination::Prefix(prefix) => return Ok(prefix),
            Destination::Address(address) => address,
        };
        let host = IpNet::from(address);
        let (known, around) = self.bgp.known_of(host).await?;
        let look = move |picture: &reconcile::Picture<'_>| {
            let standing = picture.standing(host);
            let known = standing.since.is_some() || standing.withdrawn.is_some();
            (known, picture.network_of(address))
        };
        let (announced, network) = self.bgp.reconciler().ask(look).await.unwrap_or_default();
        let held = !self.holders(host).await?.is_empty() || self.held_by(address).await?.is_some();
        if known || announced || held || !self.mentions(host).await?.is_empty() {
            return Ok(host);
        }
        Ok(narrowest(network, around).unwrap_or(host))
    }

    async fn about(&self, prefix: IpNet) -> Result<Facts, String> {
        let world = self.pods.source.world();
        let holders = self.holders(prefix).await?;
        let host = (prefix.prefix_len() == prefix.max_prefix_len()).then(|| prefix.addr());
        let (origin, within, put) = self.origin(prefix, &world).await;
        let learned = self.bgp.fib().standing(prefix).await;
        let pods = holders
            .iter()
            .map(|(attachment, by)| pod(attachment, *by, world.pods.behind(&attachment.record)));
        let pods: Vec<Pod> = pods.collect();
        let holder = match host {
            Some(address) if pods.is_empty() => self.held_by(address).await?,
            _ => None,
        };
        let mut speaker = self.bgp.facts_of(prefix, self.now).await?;
        if let Some(speaker) = &mut speaker {
            speaker.order(&origin);
        }
        Ok(Facts {
            asked: self.asked,
            prefix,
            now: self.now,
            node: self.node(&world),
            mentions: if pods.is_empty() { self.mentions(prefix).await? } else { Vec::new() },
            holder,
            kernel: self.kernel(prefix, put, learned, !pods.is_empty()).await,
            speaker,
            only: self.only.clone(),
            covering: None,
            within,
            origin,
            pods,
        })
    }

    /// What leads here, or away, where the prefix itself does not.
    async fn around(&self, facts: &Facts) -> Result<Option<Facts>, String> {
        let route = facts.speaker.as_ref().and_then(|speaker| speaker.route.as_ref());
        if facts.origin.since.is_some() || route.is_some_and(|route| route.reason.is_some()) {
            return Ok(None);
        }
        let (_, around) = self.bgp.known_of(facts.prefix).await?;
        match narrowest(facts.origin.inside, around) {
            Some(prefix) => {
                let asked = Destination::Prefix(prefix);
                let around = Gather { asked, only: self.only.clone(), ..*self };
                Ok(Some(around.about(prefix).await?))
            }
            None => Ok(None),
        }
    }

    /// The attachments that have an address, each with how it came to it.
    async fn holders(&self, prefix: IpNet) -> Result<Vec<(Attachment, By)>, String> {
        let address = prefix.addr();
        if IpNet::from(address) != prefix {
            return Ok(Vec::new());
        }
        let look = move |book: &mut Book| {
            let by = |attachment: &Attachment| by(attachment, address);
            book.all().filter_map(|a| Some((a.clone(), by(a)?))).collect::<Vec<_>>()
        };
        let found = self.pods.ledger.ask(look).await;
        let mut found = found.map_err(|error| error.to_string())?;
        found.sort_by_key(|(attachment, _)| called(&attachment.record));
        Ok(found)
    }

    /// Who holds an address that is no attachment's.
    async fn held_by(&self, address: IpAddr) -> Result<Option<String>, String> {
        let look = move |book: &mut Book| match book.by_address(address) {
            Some(_) => None,
            None => book.holder_of(address),
        };
        self.pods.ledger.ask(look).await.map_err(|error| error.to_string())
    }

    /// Manifests that name an address.
    async fn mentions(&self, prefix: IpNet) -> Result<Vec<Mention>, String> {
        let address = prefix.addr();
        if IpNet::from(address) != prefix {
            return Ok(Vec::new());
        }
        let world = self.pods.source.world();
        let named: Vec<(&PodFacts, &str)> = world
            .pods
            .iter()
            .filter_map(|pod| Some((pod.as_ref(), names(pod, address)?)))
            .collect();
        let mut mentions = Vec::new();
        for (pod, name) in named {
            let key = pod.key.clone();
            let look = move |book: &mut Book| book.all().any(|a| pod_key(&a.record) == key);
            let attached = self.pods.ledger.ask(look).await.map_err(|error| error.to_string())?;
            let annotation = format!("{PREFIX}{name}");
            mentions.push(Mention { pod: pod.key.to_string(), annotation, attached });
        }
        Ok(mentions)
    }

    fn node(&self, world: &World) -> Node {
        let config = world.node.config();
        let bgp = config.and_then(|config| config.bgp.as_ref());
        Node {
            config: config.map(|config| config.name.clone()),
            problem: problem(&world.node),
            speaks: bgp.is_some(),
            announce_pods: bgp.is_some_and(|bgp| bgp.announce_pods),
            drain: self.bgp.drain_stage(self.now),
        }
    }

    /// What the reconciler knows: who asks, what is inside, and what it put into the kernel.
    async fn origin(&self, prefix: IpNet, world: &World) -> (Origin, Vec<IpNet>, Put) {
        let look = move |picture: &reconcile::Picture<'_>| {
            let inside = picture
                .network_of(prefix.addr())
                .filter(|network| *network != prefix && network.contains(&prefix));
            (picture.standing(prefix), inside, picture.within(prefix, INSIDE))
        };
        let (standing, inside, within) = self.bgp.reconciler().ask(look).await.unwrap_or_default();
        let at = Instant::now();
        let origin = Origin {
            field: world.node.config().and_then(|config| field(config, prefix)),
            leftover: standing.leftover,
            since: standing.since.map(|since| self.wall(since, at)),
            hushed: standing.hushed,
            paced: standing.paced_until.map(|until| left(until, at)),
            withdrawn: standing
                .withdrawn
                .map(|gone| (self.wall(gone.at, at), gone.why.to_string())),
            inside,
        };
        // A larger network has the routes of others inside it, too.
        let within = if standing.summary { Vec::new() } else { within };
        let put = Put {
            route: standing.installed.as_ref().map(shown),
            refused: standing.refused.map(|(words, again)| refused(words, again, at)),
            lingers: standing.lingers_until.map(|until| left(until, at)),
        };
        (origin, within, put)
    }

    async fn kernel(&self, prefix: IpNet, put: Put, of: fib::Standing, held: bool) -> Kernel {
        let found = self.pods.dataplane.routes_of(prefix).await.map_err(|error| error.to_string());
        let learned = of.installed.map(|hops| format!("{prefix} {}", hops.join(", ")));
        let again = of.refused.map(|(words, again)| refused(words, again, Instant::now()));
        let decides = match self.asked {
            Destination::Address(address) if !held && prefix.contains(&address) => {
                let by = self.pods.dataplane.decides_about(address).await;
                by.ok().map(|by| (address, by))
            }
            _ => None,
        };
        Kernel {
            expected: put.route.or(learned),
            found,
            decides,
            refused: put.refused.or(again),
            lingers: put.lingers,
            unusable: of.unusable,
            stale: of.stale,
            held: of.held,
        }
    }

    fn wall(&self, then: Instant, now: Instant) -> Timestamp {
        let ago = now.saturating_duration_since(then);
        let ago = SignedDuration::try_from(ago).unwrap_or(SignedDuration::MAX);
        self.now.checked_sub(ago).unwrap_or(Timestamp::MIN)
    }
}

/// What the reconciler put into the kernel.
struct Put {
    route: Option<String>,
    refused: Option<Refused>,
    lingers: Option<u64>,
}

fn narrowest(one: Option<IpNet>, other: Option<IpNet>) -> Option<IpNet> {
    one.into_iter().chain(other).max_by_key(IpNet::prefix_len)
}

/// Whole seconds, of which the last counts until it is over.
fn left(until: Instant, now: Instant) -> u64 {
    let left = until.saturating_duration_since(now);
    left.as_secs() + u64::from(left.subsec_nanos() > 0)
}

fn refused(words: String, again: Option<Instant>, now: Instant) -> Refused {
    Refused { words, again: again.map(|again| left(again, now)) }
}

/// How an attachment has an address.
fn by(attachment: &Attachment, address: IpAddr) -> Option<By> {
    let record = &attachment.record;
    if record.anycast.contains(&address) {
        return Some(By::Anycast);
    }
    if record.addresses.contains(&address) {
        return Some(By::Addresses);
    }
    own_addresses(record).contains(&address).then_some(By::Network)
}

fn pod(attachment: &Attachment, by: By, behind: Behind<'_>) -> Pod {
    let facts = behind.facts();
    Pod {
        name: called(&attachment.record),
        by,
        phase: attachment.phase,
        wired: attachment.wired,
        ready: facts.map(|facts| facts.ready),
        terminating: facts.is_some_and(|facts| facts.terminating),
        gone: behind == Behind::Gone,
        interface: attachment.host_ifname().to_owned(),
    }
}

/// The annotation in which a manifest names an address.
fn names(pod: &PodFacts, address: IpAddr) -> Option<&'static str> {
    let wishes = annotations::parse(&pod.annotations).ok()?;
    if wishes.anycast.contains(&address) {
        return Some("anycast");
    }
    wishes.addresses.contains(&address).then_some("addresses")
}

/// The field of a NodeConfig that names a network.
fn field(config: &NodeConfig, prefix: IpNet) -> Option<String> {
    let (list, at) = match prefix {
        IpNet::V6(prefix) => ("cidr6", config.cidr6.iter().position(|net| *net == prefix)),
        IpNet::V4(prefix) => ("cidr4", config.cidr4.iter().position(|net| *net == prefix)),
    };
    at.map(|at| format!("spec.{list}[{at}]"))
}

/// What is wrong with the NodeConfig, as a sentence.
fn problem(node: &NodeState) -> Option<String> {
    match node {
        NodeState::Unknown { reason } => Some(format!("No NodeConfig is in force: {reason}.")),
        NodeState::Known { standing: Standing::InForce, .. } => None,
        NodeState::Known { standing: Standing::Deleted, config } => Some(format!(
            "The NodeConfig {} was deleted: what is there is served and announced as before, new \
             pods are refused.",
            config.name
        )),
        NodeState::Known { standing: Standing::Refused(problem), .. } => Some(format!(
            "The NodeConfig that is there now is refused, and the last good one stays in force: \
             {problem}."
        )),
    }
}

/// As the kernel's own routes are shown.
fn shown(route: &NodeRoute) -> String {
    let standing = match route {
        NodeRoute::Blackhole { prefix } => return format!("unreachable {prefix}"),
        NodeRoute::Anycast { address, next_hops } => (address, next_hops),
    };
    let hops = standing.1.iter().map(|hop| format!("via {} dev {}", hop.via, hop.dev));
    format!("{} {}", IpNet::from(*standing.0), hops.collect::<Vec<_>>().join(", "))
}
