//! Looking at the kernel and at files, for the rooms that judge. Decides nothing.

use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;

use super::mtu::Way;
use super::name::{
    ADMIN_SOCKET, CNI_SOCKET, CONFLIST, PASSWORD_FILE, SPACE, SPOOL, STATE_DIRECTORY, STATE_FILE,
};
use super::{Doctor, clock, config, conflist, feature, files, mtu, process, sysctl};
use crate::cli::Run;
use crate::cli::check::Finding;
use crate::config::{Endpoint, NodeConfig, Password, Peer};
use crate::pods::Pods;
use crate::pods::book::Attachment;
use crate::reconcile::desired::configured;
use files::Kind;

impl Doctor {
    /// Switches, features and sizes.
    pub(super) async fn kernel(
        &self,
        book: &[Attachment],
        config: Option<&NodeConfig>,
    ) -> Result<Vec<Finding>, String> {
        let dataplane = &self.pods.dataplane;
        let told = |error: flock_dataplane::Error| error.to_string();
        let (ways, unreachable) = self.ways(config).await?;
        let default = dataplane.default_uplink().await.map_err(told)?;
        let default = default.as_ref().map(|uplink| (uplink.name.as_str(), uplink.mtu));
        let advertised = dataplane.advertised_uplinks().await.map_err(told)?;
        let wants_ipv6 = config.is_some_and(wants_ipv6);
        let read: sysctl::Read<'_> = &sysctl::from_kernel;
        let has_password = |peer: &Peer| peer.password.is_some();
        let asks_for_md5 = peers(config).any(has_password);
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let rules = dataplane.rules_present().await.map_err(told);
        let mut findings = sysctl::judge(
            read,
            &sysctl::Facts {
                wants_ipv6,
                ways: &ways,
                default: default.map(|(name, _)| name),
                advertised: &advertised,
                pods: book.len(),
            },
        );
        findings.extend(feature::judge(&feature::Facts {
            ipv6: read("net/ipv6/conf/all/forwarding").is_some(),
            wants_ipv6,
            multipath: read("net/ipv4/fib_multipath_hash_policy").is_some(),
            veth: feature::veth(
                !book.is_empty(),
                Path::new("/sys/module"),
                &Path::new("/lib/modules").join(release),
            ),
            rules,
            md5: asks_for_md5.then(|| flock_bgp_io::knows_md5().map_err(|error| error.to_string())),
        }));
        let sizes: Vec<u32> = book.iter().filter_map(|attachment| attachment.record.mtu).collect();
        findings.extend(mtu::judge(&mtu::Facts {
            ways: &ways,
            unreachable: &unreachable,
            default,
            configured: config.and_then(|config| config.mtu),
            pods: &sizes,
        }));
        Ok(findings)
    }

    /// The ways to peers, and the peers that there is none to.
    async fn ways(&self, config: Option<&NodeConfig>) -> Result<(Vec<Way>, Vec<String>), String> {
        let (mut ways, mut unreachable) = (Vec::new(), Vec::new());
        for peer in peers(config) {
            let Endpoint::Address(address) = peer.endpoint else { continue };
            let path = self.pods.dataplane.path_towards(address).await;
            match path.map_err(|error| error.to_string())? {
                Some(path) => ways.push(Way {
                    peer: peer.name.clone(),
                    interface: path.uplink.name,
                    mtu: path.uplink.mtu,
                    path: path.mtu,
                }),
                None => unreachable.push(peer.name.clone()),
            }
        }
        Ok((ways, unreachable))
    }

    /// Files, the runtime's too, the clock and the process.
    pub(super) async fn files(&self, config: Option<&NodeConfig>) -> Result<Vec<Finding>, String> {
        let Ok(permit) = Arc::clone(&self.files).try_acquire_owned() else {
            return Err("the disk still keeps the last look waiting".into());
        };
        let args = self.args.clone();
        // A socket that is not there by then was there, and somebody removed it.
        let serves = config.is_some() && !self.is_young();
        let secrets: Vec<_> = peers(config).filter_map(|peer| peer.password.clone()).collect();
        let (count, offset) = (peers(config).count(), self.offset);
        let look = move || {
            let mut findings = own_files(&args, serves);
            findings.extend(secrets.iter().filter_map(password_file));
            findings.extend(runtime_files(&args));
            let run = Path::new("/run");
            findings.extend(clock::judge(&clock::look(offset, &args.state_dir, run)));
            findings.extend(process::judge(&process::look(count)));
            drop(permit);
            findings
        };
        let looked = tokio::task::spawn_blocking(look).await;
        let mut findings = looked.map_err(|error| error.to_string())?;
        findings.extend(self.last_write());
        Ok(findings)
    }

    /// A full or broken disk: ADD and DEL fail until it takes the state again.
    fn last_write(&self) -> Option<Finding> {
        let counters = self.pods.store.counters();
        counters.last_failed.then(|| {
            Finding::fail(
                STATE_FILE,
                format!(
                    "the last write failed ({} failed, {} done)",
                    counters.failures, counters.writes
                ),
                "free space on its file system, or see the agent's log for what it says",
            )
        })
    }
}

/// How full the pools are.
pub(crate) async fn pools(pods: &Pods, config: Option<&NodeConfig>) -> Vec<Finding> {
    let pools: Vec<IpNet> = configured(config).collect();
    let count = move |book: &mut crate::pods::book::Book| {
        pools.into_iter().map(|pool| book.counters(pool)).collect::<Vec<_>>()
    };
    config::pools(&pods.ledger.ask(count).await.unwrap_or_default())
}

fn peers(config: Option<&NodeConfig>) -> impl Iterator<Item = &Peer> {
    config.and_then(|config| config.bgp.as_ref()).into_iter().flat_map(|bgp| &bgp.peers)
}

fn wants_ipv6(config: &NodeConfig) -> bool {
    let six =
        |peer: &Peer| matches!(peer.endpoint, Endpoint::Address(address) if address.is_ipv6());
    !config.cidr6.is_empty() || peers(Some(config)).any(six)
}

/// What the agent itself keeps on disk.
fn own_files(args: &Run, serves: bool) -> Vec<Finding> {
    let (state, spool) = (&args.state_dir, args.spool_dir());
    let gone = if serves { Absent::Wrong } else { Absent::Fine("not serving yet") };
    let mut findings = vec![
        one(STATE_DIRECTORY, state, Kind::Directory, Absent::Wrong),
        one(STATE_FILE, &state.join("allocations.json"), Kind::Private, Absent::Fine("no pod yet")),
    ];
    for keepsake in ["speaker.json", "drain.json"] {
        let path = state.join(keepsake);
        if path.symlink_metadata().is_ok() {
            findings.push(one(STATE_FILE, &path, Kind::Private, Absent::Fine("gone again")));
        }
    }
    findings.push(match files::room(state) {
        Ok(room) => files::judge_room(state, room),
        Err(error) => Finding::warn(
            SPACE,
            format!("{}: {error}", state.display()),
            "see whether its file system is there",
        ),
    });
    findings.push(one(CNI_SOCKET, &args.socket, Kind::Socket, gone));
    findings.push(one(ADMIN_SOCKET, &args.admin_socket, Kind::Socket, Absent::Wrong));
    findings.push(one(SPOOL, &spool, Kind::Directory, Absent::Fine("not there yet")));
    findings.push(spooled(&spool));
    findings
}

/// What it means that a file is not there.
#[derive(Clone, Copy)]
enum Absent {
    Fine(&'static str),
    Wrong,
}

fn one(check: &str, path: &Path, kind: Kind, absent: Absent) -> Finding {
    let shown = path.display();
    let us = rustix::process::geteuid().as_raw();
    match (files::look(path, kind), absent) {
        (Ok(Some(seen)), _) => files::judge(check, path, kind, seen, us),
        (Ok(None), Absent::Fine(why)) => Finding::ok(check, format!("{shown}: {why}")),
        (Ok(None), Absent::Wrong) => Finding::fail(
            check,
            format!("{shown} is gone: somebody removed it"),
            "restart the agent, which makes it again, and find out what removed it",
        ),
        (Err(error), _) => Finding::fail(
            check,
            format!("{shown}: {error}"),
            "make the path accessible for the agent",
        ),
    }
}

fn spooled(spool: &Path) -> Finding {
    match flock_cni::spool::read_all(spool) {
        Ok(contents) if contents.entries.is_empty() && contents.unreadable.is_empty() => {
            Finding::ok(SPOOL, "empty")
        }
        Ok(contents) => Finding::warn(
            SPOOL,
            format!(
                "{} DEL(s) wait, {} file(s) unreadable",
                contents.entries.len(),
                contents.unreadable.len()
            ),
            "see the agent's log for why they cannot be carried out",
        ),
        Err(error) => Finding::fail(
            SPOOL,
            error.to_string(),
            "make the directory accessible: the plugin cannot leave DELs there either",
        ),
    }
}

/// A file that is missing is told with its peer.
fn password_file(password: &Password) -> Option<Finding> {
    let Password::File(path) = password else { return None };
    let seen = files::look(path, Kind::Secret).ok()??;
    let us = rustix::process::geteuid().as_raw();
    Some(files::judge(PASSWORD_FILE, path, Kind::Secret, seen, us))
}

fn runtime_files(args: &Run) -> Vec<Finding> {
    let Some(places) = &args.install_cni else {
        let words = "the runtime's files are not looked at: the agent runs without --install-cni";
        return vec![Finding::ok(CONFLIST, words)];
    };
    let spool = args.spool_dir();
    let wanted = conflist::Wanted { socket: &args.socket, spool: &spool };
    conflist::judge(&conflist::look(places), &wanted)
}
