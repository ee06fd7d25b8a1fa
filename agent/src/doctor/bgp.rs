//! The speaker: sessions, where it listens, what it learned and the kernel has not, drains and what
//! two nodes claim. Asks; how one peer is judged is `session`'s.

use std::collections::{BTreeMap, BTreeSet};

use flock_bgp::State;
use flock_dataplane::{LearnedHop, LearnedRoute};
use ipnet::IpNet;

use super::name::{CONFLICT, DRAIN, LEARNED, LISTENER, PEER};
use super::session::{self, Around};
use super::{Doctor, shorten};
use crate::bgp::{Conflict, Sessions};
use crate::capabilities;
use crate::cli::check::Finding;
use crate::config::{self, NodeConfig};
use crate::fib::{Lacking, Learned};

/// More learned routes than these are not compared with the kernel: it would take too long.
const COMPARED: usize = 50_000;
/// Ports from here on are anybody's.
const UNPRIVILEGED: u16 = 1024;

impl Doctor {
    /// Everything about BGP.
    pub(super) async fn bgp(&self, config: Option<&NodeConfig>) -> Result<Vec<Finding>, String> {
        let wanted = config.and_then(|config| config.bgp.as_ref());
        let drained = self.bgp.drain_status().await?.since.is_some();
        let mut findings = Vec::new();
        if drained {
            findings.push(Finding::warn(
                DRAIN,
                "the node is drained, or about to be: not in service",
                "flock-agent drain --undo brings it back",
            ));
        }
        let sessions = self.bgp.sessions().await?;
        let life = Life { drained, young: self.is_young() };
        findings.extend(sessions_of(sessions.as_ref(), wanted, life));
        findings.extend(listener(sessions.as_ref(), wanted, capabilities::may_bind()));
        if sessions.is_some() {
            findings.push(self.learned().await);
            findings.extend(conflicts(&self.bgp.conflicts().await));
        }
        Ok(findings)
    }

    async fn learned(&self) -> Finding {
        let fib = self.bgp.fib();
        let lacking = fib.lacking().await;
        let count = fib.installed();
        if count > COMPARED {
            return learned(&lacking, count, None);
        }
        let before = fib.routes().await;
        let kernel = match self.pods.dataplane.learned_routes().await {
            Ok(routes) => routes,
            Err(error) => {
                let remedy = "see the agent's log; the kernel could not be read";
                return Finding::warn(LEARNED, error.to_string(), remedy);
            }
        };
        // What changes meanwhile is looked at again at the next check.
        let after = fib.routes().await;
        let mut given = before;
        given.retain(|prefix, hops| after.get(prefix) == Some(hops));
        learned(&lacking, count, Some((&given, &kernel)))
    }
}

/// Where the node is in its life.
#[derive(Clone, Copy)]
struct Life {
    drained: bool,
    young: bool,
}

fn sessions_of(
    sessions: Option<&Sessions>,
    wanted: Option<&config::Bgp>,
    life: Life,
) -> Vec<Finding> {
    let Some(wanted) = wanted else {
        return vec![Finding::ok(PEER, "spec.bgp is not set: this node speaks to nobody")];
    };
    let Some(sessions) = sessions else {
        if life.young {
            return vec![Finding::ok(PEER, "the speaker is being started")];
        }
        return vec![Finding::fail(
            PEER,
            "the speaker does not run",
            "see the agent's log for why it cannot start; it is tried again every second",
        )];
    };
    if wanted.peers.is_empty() {
        return vec![Finding::ok(PEER, "spec.bgp.peers is empty: nobody is told anything")];
    }
    let up = sessions.peers.iter().any(|peer| peer.state == State::Established);
    let around = Around { now: sessions.now, drained: life.drained, some_up: up };
    let mut findings: Vec<Finding> =
        sessions.peers.iter().flat_map(|peer| session::judge(peer, around)).collect();
    findings.extend(sessions.not_followed.iter().map(|(name, reason)| {
        let remedy = "write it otherwise, as the message says, or take the peer out";
        Finding::warn(PEER, format!("{name}: {reason}"), remedy)
    }));
    findings
}

fn listener(
    sessions: Option<&Sessions>,
    wanted: Option<&config::Bgp>,
    may_bind: bool,
) -> Option<Finding> {
    let (sessions, wanted) = (sessions?, wanted?);
    Some(match (wanted.listen_port, sessions.listening.first()) {
        (None, _) => Finding::ok(LISTENER, "spec.bgp.listenPort is 0: this node only dials"),
        (Some(_), Some(first)) => Finding::ok(LISTENER, format!("port {}", first.port())),
        (Some(port), None) => Finding::warn(
            LISTENER,
            format!(
                "port {port} cannot be listened on: peers cannot connect, this node only dials"
            ),
            if may_bind || port >= UNPRIVILEGED {
                format!(
                    "stop whatever has port {port} (`ss -ltnp sport = :{port}`), or set \
                     spec.bgp.listenPort, and restart the agent"
                )
            } else {
                "give the agent the capability NET_BIND_SERVICE, or set spec.bgp.listenPort to 1024 \
                 or more, and restart the agent"
                    .to_owned()
            },
        ),
    })
}

/// What was learned and is not in the kernel, or not as it was put there. Nothing to compare: there
/// is too much of it.
fn learned(
    lacking: &Lacking,
    count: usize,
    compare: Option<(&Learned, &[LearnedRoute])>,
) -> Finding {
    if !lacking.refused.is_empty() {
        let each: Vec<String> =
            lacking.refused.iter().map(|(prefix, why)| format!("{prefix}: {why}")).collect();
        return Finding::fail(
            LEARNED,
            format!("{} refused by the kernel: {}", each.len(), shorten(each.iter().map(|w| &**w))),
            "do what the message says; it is tried again by itself",
        );
    }
    let shown = |prefixes: &[IpNet]| {
        let words: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
        shorten(words.iter().map(String::as_str))
    };
    if !lacking.unreachable.is_empty() {
        return Finding::warn(
            LEARNED,
            format!(
                "{} whose next hops no interface leads to: {}",
                lacking.unreachable.len(),
                shown(&lacking.unreachable)
            ),
            "bring the link of the next hop up, or have the peer send one that this node can reach \
             (next-hop-self)",
        );
    }
    let Some((given, kernel)) = compare else {
        let words = format!("{count} installed; too many to compare with the kernel");
        return Finding::ok(LEARNED, words);
    };
    let there: BTreeMap<IpNet, &[LearnedHop]> =
        kernel.iter().map(|route| (route.prefix, &*route.next_hops)).collect();
    let differs = |(prefix, hops): &(&IpNet, &Vec<LearnedHop>)| {
        there.get(prefix).is_none_or(|found| *found != hops.as_slice())
    };
    let differing: Vec<IpNet> = given.iter().filter(differs).map(|(prefix, _)| *prefix).collect();
    if !differing.is_empty() {
        return Finding::fail(
            LEARNED,
            format!("{} are not in the kernel as learned: {}", differing.len(), shown(&differing)),
            "find out which program removes or changes them; the agent puts them back when it is \
             told, and its log says so",
        );
    }
    Finding::ok(LEARNED, format!("{count} installed, as learned"))
}

fn conflicts(found: &BTreeSet<Conflict>) -> Vec<Finding> {
    found
        .iter()
        .map(|conflict| Finding::warn(CONFLICT, conflict.to_string(), conflict.remedy()))
        .collect()
}

#[cfg(test)]
mod tests {
    use flock_bgp::Now;

    use super::*;
    use crate::cli::check::Status;
    use crate::config::parse;

    fn wanted(bgp: &str) -> config::Bgp {
        let text = format!(
            "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {{name: a}}\nspec: {{bgp: {bgp}}}\n"
        );
        parse(&text).unwrap().bgp.unwrap()
    }

    fn sessions() -> Sessions {
        Sessions {
            peers: Vec::new(),
            not_followed: Vec::new(),
            now: Now::default(),
            listening: vec!["[::]:179".parse().unwrap()],
        }
    }

    #[test]
    fn a_node_without_peers_is_well_and_one_without_a_speaker_is_not() {
        let (none, one) = (wanted("{asn: 65001}"), wanted(ONE));
        let status = |sessions: Option<&Sessions>, wanted: Option<&config::Bgp>| {
            let life = Life { drained: false, young: false };
            sessions_of(sessions, wanted, life).first().map(|finding| finding.status)
        };
        assert_eq!(status(None, None), Some(Status::Ok));
        assert_eq!(status(Some(&sessions()), Some(&none)), Some(Status::Ok));
        assert_eq!(status(None, Some(&one)), Some(Status::Fail));
        let young = Life { drained: false, young: true };
        assert_eq!(sessions_of(None, Some(&one), young)[0].status, Status::Ok);
        let reason = "unnumbered peering is not part of this version".to_owned();
        let not_followed = vec![("t".to_owned(), reason)];
        let found = Sessions { not_followed, ..sessions() };
        assert_eq!(status(Some(&found), Some(&one)), Some(Status::Warn));
    }

    const ONE: &str = "{asn: 65001, peers: [{name: t, address: 192.0.2.1, asn: 65000}]}";

    #[test]
    fn a_port_that_somebody_has_is_told() {
        let (plain, quiet) = (wanted(ONE), wanted("{asn: 65001, listenPort: 0}"));
        let deaf = Sessions { listening: Vec::new(), ..sessions() };
        let status = |sessions: &Sessions, wanted: &config::Bgp| {
            listener(Some(sessions), Some(wanted), true).map(|finding| finding.status)
        };
        assert_eq!(status(&sessions(), &plain), Some(Status::Ok));
        assert_eq!(status(&deaf, &plain), Some(Status::Warn));
        assert_eq!(status(&deaf, &quiet), Some(Status::Ok));
        assert_eq!(listener(None, Some(&plain), true), None);
        let remedy = |wanted: &config::Bgp, may_bind: bool| {
            listener(Some(&deaf), Some(wanted), may_bind).unwrap().remedy
        };
        assert!(remedy(&plain, true).contains("stop whatever has port 179"));
        assert!(remedy(&plain, false).contains("capability NET_BIND_SERVICE"));
        let high = wanted("{asn: 65001, listenPort: 1179}");
        assert!(remedy(&high, false).contains("stop whatever has port 1179"));
    }

    #[test]
    fn what_was_learned_and_the_kernel_has_not() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let (a, b) = (net("10.1.0.0/16"), net("10.2.0.0/16"));
        let hop = |n: u32| LearnedHop { via: [10, 0, 0, 1].into(), dev: n };
        let given = Learned::from([(a, vec![hop(1)]), (b, vec![hop(1), hop(2)])]);
        let route =
            |prefix, next_hops: Vec<_>| LearnedRoute { prefix, next_hops: next_hops.into() };
        let whole = [route(a, vec![hop(1)]), route(b, vec![hop(1), hop(2)])];
        let changed = [route(a, vec![hop(1)]), route(b, vec![hop(2)])];
        let refused = Lacking { refused: [(a, "taken".to_owned())].into(), ..Lacking::default() };
        let unreachable = Lacking { unreachable: vec![b], ..Lacking::default() };
        let none = Lacking::default();
        let table = [
            (&none, Some(&whole[..]), Status::Ok, "2 installed"),
            (&none, None, Status::Ok, "too many"),
            (
                &none,
                Some(&whole[..1]),
                Status::Fail,
                "1 are not in the kernel as learned: 10.2.0.0/16",
            ),
            (
                &none,
                Some(&changed[..]),
                Status::Fail,
                "1 are not in the kernel as learned: 10.2.0.0/16",
            ),
            (&refused, Some(&whole[..]), Status::Fail, "10.1.0.0/16: taken"),
            (&unreachable, Some(&whole[..]), Status::Warn, "no interface leads to"),
        ];
        for (lacking, kernel, status, words) in table {
            let finding = learned(lacking, 2, kernel.map(|kernel| (&given, kernel)));
            assert_eq!(finding.status, status, "{finding:?}");
            assert!(finding.message.contains(words), "{finding:?}");
            assert_eq!(finding.status == Status::Ok, finding.remedy.is_empty());
        }
    }
}
