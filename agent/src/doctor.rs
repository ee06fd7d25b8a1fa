//! The doctor behind `flock-agent check`. It looks at the kernel, the state, the configuration and
//! the sessions and changes nothing; every finding that is not well says what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flock_dataplane::Netns;
use ipnet::IpNet;

use crate::bgp::Bgp;
use crate::cli::Run;
use crate::cli::bgp::{PeerState, PeersArgs};
use crate::cli::check::{Finding, Report, Status};
use crate::install::{CONFLIST, Places};
use crate::pods::book::{Attachment, Phase};
use crate::pods::{self, Pods};
use crate::source::{NodeState, Standing};

/// The sysctls that packets of pods need, and their values.
const SYSCTLS: [(&str, &str); 4] = [
    ("net/ipv6/conf/all/forwarding", "1"),
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv4/fib_multipath_hash_policy", "1"),
    ("net/ipv6/fib_multipath_hash_policy", "1"),
];
/// A pool this full is worth a word.
const NEARLY_FULL_PERCENT: u128 = 90;
/// So many differences are shown; more are counted.
const SHOWN: usize = 5;

/// Looks, and answers.
pub struct Doctor {
    pods: Arc<Pods>,
    bgp: Bgp,
    socket: PathBuf,
    state_file: PathBuf,
    spool: PathBuf,
    places: Option<Places>,
}

impl Doctor {
    /// For an agent that runs like this.
    pub fn new(pods: Arc<Pods>, bgp: Bgp, args: &Run) -> Self {
        Self {
            pods,
            bgp,
            socket: args.socket.clone(),
            state_file: args.state_dir.join("allocations.json"),
            spool: args.spool_dir(),
            places: args.install_cni.clone(),
        }
    }

    /// What it finds.
    pub async fn examine(&self) -> Result<Report, String> {
        let attachments: Vec<Attachment> = self
            .pods
            .ledger
            .ask(|book| book.all().cloned().collect())
            .await
            .map_err(|error| error.to_string())?;
        let mut findings = vec![self.node_config()];
        findings.extend(self.manifests());
        findings.extend(self.can_serve().await);
        findings.extend(SYSCTLS.map(|(name, wanted)| sysctl(name, wanted)));
        findings.push(self.anti_spoofing().await);
        findings.push(self.uplink(&attachments).await);
        findings.push(private_file("state file", &self.state_file, "no pod yet"));
        findings.extend(self.disk());
        findings.push(private_file("CNI socket", &self.socket, "not serving yet"));
        findings.push(self.spool());
        findings.push(self.links(&attachments).await);
        findings.push(self.kernel(&attachments).await);
        findings.extend(self.pools().await);
        findings.extend(self.sessions().await?);
        findings.extend(self.conflicts().await);
        findings.extend(self.places.as_ref().map(conflist_order));
        Ok(Report { findings })
    }

    fn node_config(&self) -> Finding {
        let world = self.pods.source.world();
        match &world.node {
            NodeState::Unknown { reason } => bad(
                "NodeConfig",
                reason.clone(),
                "write a NodeConfig; until then no pod can be added",
            ),
            NodeState::Known { standing: Standing::Refused(problem), .. } => bad(
                "NodeConfig",
                format!("refused, the last good one stays in force: {problem}"),
                "mend what it names",
            ),
            NodeState::Known { standing: Standing::Deleted, .. } => bad(
                "NodeConfig",
                "deleted; pods are kept, new ones refused".into(),
                "create it again",
            ),
            NodeState::Known { config, .. } => {
                well("NodeConfig", format!("{} in force", config.name))
            }
        }
    }

    fn manifests(&self) -> Vec<Finding> {
        let world = self.pods.source.world();
        let problem = |(file, problem): (&String, &String)| {
            warn(
                "pod manifest",
                format!("{file}: {problem}"),
                "mend the file; what it said before stays in force",
            )
        };
        world.problems.iter().map(problem).collect()
    }

    async fn can_serve(&self) -> Option<Finding> {
        let status = self.pods.status().await;
        let world = self.pods.source.world();
        let refused = status.err().filter(|_| world.node.config().is_some())?;
        Some(warn("serving", refused.msg, "until then STATUS says no, and new pods wait"))
    }

    /// A full or broken disk: ADD and DEL fail until it takes the state again.
    fn disk(&self) -> Option<Finding> {
        let counters = self.pods.store.counters();
        counters.last_failed.then(|| {
            bad(
                "state file",
                format!(
                    "the last write failed ({} failed, {} done)",
                    counters.failures, counters.writes
                ),
                "free space on its file system, or see the agent's log for what it says",
            )
        })
    }

    async fn anti_spoofing(&self) -> Finding {
        match self.pods.dataplane.rules_present().await {
            Ok(true) => well("anti-spoofing", "nftables table inet flock is in place".into()),
            Ok(false) => bad(
                "anti-spoofing",
                "nftables table inet flock is missing".into(),
                "find out what flushes nftables; the agent puts the table back within a second",
            ),
            Err(error) => {
                bad("anti-spoofing", error.to_string(), "the kernel needs nf_tables with fib")
            }
        }
    }

    /// Pods whose links are larger than the way out lose packets without a word.
    async fn uplink(&self, attachments: &[Attachment]) -> Finding {
        let uplink = match self.pods.dataplane.default_uplink().await {
            Ok(Some(uplink)) => uplink,
            Ok(None) => {
                return warn(
                    "MTU",
                    "no default route".into(),
                    "pods reach only this node and what BGP brings",
                );
            }
            Err(error) => return bad("MTU", error.to_string(), "see the message"),
        };
        let larger =
            attachments.iter().filter(|a| a.record.mtu.is_some_and(|mtu| mtu > uplink.mtu));
        match larger.count() {
            0 => well("MTU", format!("{} has {}", uplink.name, uplink.mtu)),
            n => warn(
                "MTU",
                format!("{n} pod(s) have a larger MTU than {} of {}", uplink.mtu, uplink.name),
                "set spec.mtu of the NodeConfig, and start these pods again",
            ),
        }
    }

    async fn sessions(&self) -> Result<Vec<Finding>, String> {
        let peers = self.bgp.peers(&PeersArgs::default()).await?.peers;
        let drained = self.bgp.drain_status().await?.since.is_some();
        let mut findings: Vec<Finding> = peers
            .into_iter()
            .map(|peer| {
                let what = format!("BGP peer {}", peer.name);
                if peer.state == PeerState::Established {
                    let words = format!("Established, {} routes told", peer.advertised);
                    return well(&what, words);
                }
                let why = peer.last_error.unwrap_or_else(|| "no word from it yet".into());
                let remedy = if drained {
                    "the node is drained; `flock-agent drain --undo` brings it back"
                } else {
                    "see `flock-agent bgp show peers` for the peer, and the peer's own log"
                };
                warn(&what, format!("{}: {why}", peer.state), remedy)
            })
            .collect();
        if drained {
            let words = "not in service".into();
            findings.push(warn("drain", words, "`flock-agent drain --undo` brings it back"));
        }
        Ok(findings)
    }

    async fn conflicts(&self) -> Vec<Finding> {
        let conflicts = self.bgp.conflicts().await.into_iter();
        conflicts.map(|found| warn("conflict", found.to_string(), found.remedy())).collect()
    }

    fn spool(&self) -> Finding {
        match flock_cni::spool::read_all(&self.spool) {
            Ok(contents) if contents.entries.is_empty() && contents.unreadable.is_empty() => {
                well("spool", "empty".into())
            }
            Ok(contents) => warn(
                "spool",
                format!(
                    "{} DEL(s) wait, {} file(s) unreadable",
                    contents.entries.len(),
                    contents.unreadable.len()
                ),
                "see the agent's log for why they cannot be carried out",
            ),
            Err(error) => {
                bad("spool", error.to_string(), "the plugin cannot leave DELs there either")
            }
        }
    }

    /// The book against the kernel's list of our links, in both directions.
    async fn links(&self, attachments: &[Attachment]) -> Finding {
        let links = match self.pods.dataplane.links().await {
            Ok(links) => links,
            Err(error) => return bad("links", error.to_string(), "see the message"),
        };
        let known: BTreeSet<&str> = attachments.iter().map(Attachment::host_ifname).collect();
        let strangers: Vec<&str> = links
            .iter()
            .filter(|link| !link.doomed && !known.contains(link.name.as_str()))
            .map(|link| link.name.as_str())
            .collect();
        if strangers.is_empty() {
            return well("links", format!("{} pod link(s), all known", attachments.len()));
        }
        warn(
            "links",
            format!("{} link(s) that no entry knows: {}", strangers.len(), shorten(&strangers)),
            "their pods were attached under another state file; delete these pods, or the links",
        )
    }

    /// Every pod, as CHECK would look at it.
    async fn kernel(&self, attachments: &[Attachment]) -> Finding {
        let mut differences = Vec::new();
        let mut orphans = Vec::new();
        let mut looked_at = 0;
        for attachment in attachments.iter().filter(|a| a.phase == Phase::Serving) {
            let record = &attachment.record;
            let pod = pods::called(record);
            let Some(path) = &record.netns else { continue };
            let netns = match Netns::open(path) {
                Ok(netns) => netns,
                Err(error) => {
                    orphans.push(format!("{pod}: {error}"));
                    continue;
                }
            };
            looked_at += 1;
            match self.pods.dataplane.verify(pods::link(record, netns)).await {
                Ok(found) => differences.extend(found.iter().map(|d| format!("{pod}: {d}"))),
                Err(error) => differences.push(format!("{pod}: {error}")),
            }
        }
        let shown = |list: &[String]| shorten(&list.iter().map(String::as_str).collect::<Vec<_>>());
        if !differences.is_empty() {
            return bad(
                "pods",
                shown(&differences),
                "the agent's log says why it could not repair them",
            );
        }
        if !orphans.is_empty() {
            return warn(
                "pods",
                shown(&orphans),
                "these pods are gone; the runtime should send DEL or GC",
            );
        }
        well("pods", format!("{looked_at} as recorded"))
    }

    async fn pools(&self) -> Vec<Finding> {
        let world = self.pods.source.world();
        let Some(config) = world.node.config() else { return Vec::new() };
        let six = config.cidr6.iter().copied().map(IpNet::V6);
        let pools: Vec<IpNet> = six.chain(config.cidr4.iter().copied().map(IpNet::V4)).collect();
        let counted = self
            .pods
            .ledger
            .ask(move |book| pools.into_iter().map(|pool| book.counters(pool)).collect::<Vec<_>>())
            .await
            .unwrap_or_default();
        counted
            .into_iter()
            .map(|pool| {
                let used = u128::from(pool.held) + u128::from(pool.cooling);
                let size =
                    if pool.size > 1 << 20 { "plenty".into() } else { pool.size.to_string() };
                let found = format!(
                    "{}: {} held, {} cooling, of {size}",
                    pool.net, pool.held, pool.cooling
                );
                if used * 100 >= pool.size * NEARLY_FULL_PERCENT {
                    warn("pool", found, "add a network to the NodeConfig")
                } else {
                    well("pool", found)
                }
            })
            .collect()
    }
}

fn sysctl(name: &str, wanted: &str) -> Finding {
    let dotted = name.replace('/', ".");
    match std::fs::read_to_string(Path::new("/proc/sys").join(name)) {
        Ok(value) if value.trim() == wanted => well("sysctl", format!("{dotted} = {wanted}")),
        Ok(value) => bad(
            "sysctl",
            format!("{dotted} = {}", value.trim()),
            &format!("set {dotted}={wanted}, and find out what changed it"),
        ),
        Err(error) => bad("sysctl", format!("{dotted}: {error}"), "the kernel lacks it"),
    }
}

/// Root's alone; other bits let others read where pods are, or speak for kubelet.
fn private_file(what: &str, path: &Path, absent: &str) -> Finding {
    match path.symlink_metadata() {
        Ok(meta) if meta.permissions().mode() & 0o077 == 0 => {
            well(what, format!("{} is root's alone", path.display()))
        }
        Ok(meta) => bad(
            what,
            format!("{} has mode {:04o}", path.display(), meta.permissions().mode() & 0o7777),
            &format!("chmod 0600 {}", path.display()),
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            well(what, format!("{}: {absent}", path.display()))
        }
        Err(error) => bad(what, format!("{}: {error}", path.display()), "see the message"),
    }
}

/// A runtime takes the first configuration by name.
fn conflist_order(places: &Places) -> Finding {
    let names: BTreeMap<String, PathBuf> = std::fs::read_dir(&places.conf_dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .filter(|(name, _)| [".conf", ".conflist", ".json"].iter().any(|end| name.ends_with(end)))
        .collect();
    match names.first_key_value() {
        Some((name, _)) if name == CONFLIST => {
            well("conflist", format!("{} is the first", places.conf_dir.join(CONFLIST).display()))
        }
        Some((_, path)) if names.contains_key(CONFLIST) => bad(
            "conflist",
            format!("{} comes before {CONFLIST}", path.display()),
            &format!("remove {}: runtimes take the first by name", path.display()),
        ),
        _ => warn(
            "conflist",
            format!("{CONFLIST} is not installed"),
            "it is written once the agent serves",
        ),
    }
}

fn shorten(items: &[&str]) -> String {
    let shown: Vec<&str> = items.iter().take(SHOWN).copied().collect();
    match items.len().saturating_sub(SHOWN) {
        0 => shown.join("; "),
        more => format!("{}; and {more} more", shown.join("; ")),
    }
}

fn finding(check: &str, status: Status, message: String, remedy: &str) -> Finding {
    Finding { check: check.into(), status, message, remedy: remedy.into() }
}

fn well(check: &str, message: String) -> Finding {
    finding(check, Status::Ok, message, "")
}

fn warn(check: &str, message: String, remedy: &str) -> Finding {
    finding(check, Status::Warn, message, remedy)
}

fn bad(check: &str, message: String, remedy: &str) -> Finding {
    finding(check, Status::Fail, message, remedy)
}
