//! Packets and oracle side by side: every case is sent for real, and what becomes of it has to be what the
//! oracle says. Agreement is awaited; what still differs then is told with everything that explains it.

use std::fmt::Write as _;
use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};

use super::oracle::{self, End, Protocol, Verdict, Who, World};
use super::people::{Home, policy};
use super::rig::{Rig, Spot};
use super::round::{Due, Outcome, Shot, fire};
use crate::wait::{PATIENCE, until};

/// How many differences are told in full.
const TOLD: usize = 12;

/// What is sent in every direction unless a test says otherwise.
pub const USUAL: [(Protocol, u16); 8] = [
    (Protocol::Tcp, 80),
    (Protocol::Tcp, 8080),
    (Protocol::Tcp, 9005),
    (Protocol::Udp, 53),
    (Protocol::Udp, 5353),
    (Protocol::Udp, 9000),
    (Protocol::Sctp, 80),
    (Protocol::Icmp, 0),
];

/// One connection that is tried.
#[derive(Debug, Clone)]
pub struct Case<'a> {
    /// Who begins.
    pub from: &'a Spot,
    /// With whom.
    pub to: &'a Spot,
    /// Over which family.
    pub ipv6: bool,
    /// What is spoken.
    pub protocol: Protocol,
    /// The port of the destination.
    pub port: u16,
}

impl Case<'_> {
    /// What the oracle says of it in a world.
    pub fn judged(&self, world: &World) -> Verdict {
        let (from, to) = self.ends();
        oracle::allowed(world, &from, &to, self.protocol, self.port)
    }

    fn ends(&self) -> (End, End) {
        let end = |spot: &Spot| End { who: spot.who.clone(), address: self.address(spot) };
        (end(self.from), end(self.to))
    }

    fn address(&self, spot: &Spot) -> IpAddr {
        let [v4, v6] = spot.addresses;
        if self.ipv6 { v6 } else { v4 }
    }
}

impl std::fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (from, to) = (&self.from.name, &self.to.name);
        let ends = (self.address(self.from), self.address(self.to));
        write!(f, "{from} ({}) to {to} ({}) {} {}", ends.0, ends.1, self.protocol, self.port)
    }
}

impl Rig {
    /// What the oracle says of a case.
    pub fn oracle(&self, case: &Case<'_>) -> Verdict {
        case.judged(self.world())
    }

    /// Everybody with everybody over both families, wherever packets lead to and fro.
    pub fn everybody(&self, sent: &[(Protocol, u16)]) -> Vec<Case<'_>> {
        let mut cases = Vec::new();
        for from in self.spots() {
            for to in self.spots().iter().filter(|to| leads_there_and_back(from, to)) {
                for (protocol, port) in sent.iter().copied() {
                    let case = |ipv6| Case { from, to, ipv6, protocol, port };
                    cases.extend([case(false), case(true)]);
                }
            }
        }
        cases
    }

    /// Awaits that packets and oracle agree in all of these cases; returns how many are allowed.
    pub fn agree(&self, what: &str, cases: &[Case<'_>]) -> Result<usize> {
        self.agree_with(what, self.world(), cases)
    }

    /// The same with what was in force at another time.
    pub fn agree_with(&self, what: &str, world: &World, cases: &[Case<'_>]) -> Result<usize> {
        let verdicts: Vec<_> = cases.iter().map(|case| case.judged(world)).collect();
        let agreed = until(&format!("agreement about {what}"), PATIENCE, || {
            let outcomes = self.send(cases, &verdicts)?;
            let wrong = differences(cases, &verdicts, &outcomes);
            ensure!(wrong.is_empty(), Differences(wrong));
            Ok(())
        });
        match agreed {
            Ok(()) => Ok(verdicts.iter().filter(|verdict| verdict.allowed).count()),
            Err(error) => {
                let told = self.tell(world, cases, &error);
                Err(error.context(format!("{what}: packets and oracle differ\n{told}")))
            }
        }
    }

    /// What becomes of cases now, in one round.
    pub fn send(&self, cases: &[Case<'_>], verdicts: &[Verdict]) -> Result<Vec<Outcome>> {
        let mut shots = self.controls()?;
        let controls = shots.len();
        for (case, verdict) in cases.iter().zip(verdicts) {
            let due = if verdict.allowed { Due::Answer } else { Due::Silence };
            shots.push(self.shot(case, due)?);
        }
        Ok(fire(&shots)?.split_off(controls))
    }

    fn shot<'a>(&'a self, case: &Case<'_>, due: Due) -> Result<Shot<'a>> {
        Ok(Shot {
            station: self.station(case.from)?,
            source: case.address(case.from),
            target: case.address(case.to),
            protocol: case.protocol,
            port: case.port,
            due,
        })
    }

    /// What no policy may deny, over every cable and in both directions.
    fn controls(&self) -> Result<Vec<Shot<'_>>> {
        let nodes = [self.spot("node-a")?, self.spot("node-b")?];
        let mut pairs: Vec<(&Spot, &Spot)> = vec![(nodes[0], nodes[1]), (nodes[1], nodes[0])];
        for spot in self.spots() {
            let pod = matches!(spot.who, Who::Pod(_)) && !spot.name.contains('+');
            match spot.home {
                Some(home) if pod => {
                    let node = *home.of(&nodes);
                    pairs.extend([(spot, node), (node, spot)]);
                }
                None => pairs.extend([(spot, nodes[0]), (spot, nodes[1])]),
                Some(_) => {}
            }
        }
        let both = pairs.into_iter().flat_map(|pair| [(pair, false), (pair, true)]);
        let control = |((from, to), ipv6): ((&Spot, &Spot), bool)| {
            let case = Case { from, to, ipv6, protocol: Protocol::Tcp, port: 443 };
            self.shot(&case, Due::Surely)
        };
        both.map(control).collect()
    }

    /// The differences with everything that explains them: the oracle's reason, what the agents say, the policies.
    fn tell(&self, world: &World, cases: &[Case<'_>], error: &anyhow::Error) -> String {
        let mut told = String::new();
        let Some(Differences(wrong)) = error.downcast_ref::<Differences>() else { return told };
        for difference in wrong.iter().take(TOLD) {
            let _infallible = writeln!(told, "- {}", difference.told);
            if let Some(case) = cases.get(difference.index) {
                let _infallible = writeln!(told, "{}", self.explained(case));
            }
        }
        if wrong.len() > TOLD {
            let _infallible = writeln!(told, "... and {} more", wrong.len() - TOLD);
        }
        for policy in &world.policies {
            let yaml = serde_saphyr::to_string(policy).unwrap_or_else(|_| policy.to_string());
            let _infallible = writeln!(told, "---\n{yaml}");
        }
        told
    }

    /// What the agents say of a case.
    fn explained(&self, case: &Case<'_>) -> String {
        let name = |spot: &Spot| match &spot.who {
            Who::Pod(name) => name.clone(),
            _ => case.address(spot).to_string(),
        };
        let (from, to, port) = (name(case.from), name(case.to), case.port.to_string());
        let words = ["policy", "explain", "--from", &from, "--to", &to];
        let ported = ["--port", &port, "--protocol", case.protocol.name()];
        let words: Vec<_> = words.into_iter().chain(ported).chain(["-o", "json"]).collect();
        let homes = Home::BOTH.into_iter();
        let concerned = homes.filter(|home| [case.from.home, case.to.home].contains(&Some(*home)));
        let said = concerned.map(|home| {
            let said = self.node(home).cli(&words).unwrap_or_else(|error| format!("{error:#}"));
            format!("    node {home:?}: {}", said.trim().replace('\n', "\n    "))
        });
        said.collect::<Vec<_>>().join("\n")
    }

    /// Checks what a person wrote about the policies in force against the oracle, without any packet, and
    /// returns it as cases over both families. A line is `FROM -> TO PROTOCOL[/PORT] yes|no`.
    pub fn written(&self, lines: &str) -> Result<Vec<Case<'_>>> {
        let mut cases = Vec::new();
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<_> = line.split_whitespace().collect();
            let &[from, "->", to, sent, wanted] = words.as_slice() else {
                bail!("not FROM -> TO PROTOCOL/PORT yes|no: {line}");
            };
            let (protocol, port) = sent.split_once('/').unwrap_or((sent, "0"));
            let protocol =
                Protocol::of(protocol).with_context(|| format!("no protocol: {line}"))?;
            let (from, to, port) = (self.spot(from)?, self.spot(to)?, port.parse()?);
            for ipv6 in [false, true] {
                let case = Case { from, to, ipv6, protocol, port };
                let verdict = self.oracle(&case);
                ensure!(verdict.allowed == (wanted == "yes"), "{line}: the oracle says {verdict}");
                cases.push(case);
            }
        }
        Ok(cases)
    }

    /// Puts policies into force, checks what is written about them, and awaits that packets agree with it
    /// and with the oracle in everything else.
    pub fn try_set(&mut self, name: &str, policies: &[(&str, &str)], lines: &str) -> Result<usize> {
        let policies = policies.iter().map(|(name, spec)| policy(name, spec));
        self.set_policies(&policies.collect::<Result<Vec<_>>>()?)?;
        let mut cases = self.written(lines).with_context(|| name.to_owned())?;
        cases.extend(self.everybody(&USUAL));
        self.agree(name, &cases)?;
        Ok(cases.len())
    }
}

/// One case that is not as it should be.
#[derive(Debug)]
struct Difference {
    index: usize,
    told: String,
}

#[derive(Debug)]
struct Differences(Vec<Difference>);

impl std::fmt::Display for Differences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cases are not as the oracle says", self.0.len())
    }
}

impl std::error::Error for Differences {}

fn differences(cases: &[Case<'_>], verdicts: &[Verdict], outcomes: &[Outcome]) -> Vec<Difference> {
    let all = cases.iter().zip(verdicts).zip(outcomes).enumerate();
    let differing = all.filter_map(|(index, ((case, verdict), outcome))| {
        let right = match outcome {
            Outcome::Answered(by) => verdict.allowed && (by.is_empty() || is(case.to, by)),
            Outcome::Silent => !verdict.allowed,
            Outcome::Refused(_) => false,
        };
        let told = format!("{case}: {outcome:?}, but the oracle says it is {verdict}");
        (!right).then_some(Difference { index, told })
    });
    differing.collect()
}

/// Whether who answered is who was asked.
fn is(spot: &Spot, answered: &str) -> bool {
    let station = spot.name.split_once('+').map_or(spot.name.as_str(), |(pod, _)| pod);
    station == answered || (spot.who == Who::Outside && answered == "outside")
}

/// Whether packets between two lead to exactly these two, and concern a pod at all. A shared address is at
/// whoever is nearer: at the second node for those on it, at the first for everybody else.
fn leads_there_and_back(from: &Spot, to: &Spot) -> bool {
    let pod = |spot: &Spot| matches!(spot.who, Who::Pod(_));
    let gate = |spot: &Spot| spot.name.starts_with("gates/");
    if !(pod(from) || pod(to)) || gate(from) || gate(to) {
        return false;
    }
    let near = |shared: &Spot, other: &Spot| {
        !shared.name.ends_with("+anycast") || shared.home == Some(other.home.unwrap_or(Home::A))
    };
    near(from, to) && near(to, from)
}
