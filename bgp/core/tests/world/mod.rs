//! Speakers in memory: virtual time, and a network that can be as bad as a seed says. The world is
//! the driver of each speaker, and follows the driver's contract and nothing more.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod driver;
pub(crate) mod script;
pub(crate) mod wishes;

use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use flock_bgp::{Action, ConnId, Event, Notice, Now, RouteChange, Speaker, SpeakerConfig};

pub(crate) use wishes::{peer, speaker};

/// What can go wrong. All zero: nothing does.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Of a hundred dials, this many fail.
    pub(crate) failed_dials: u64,
    /// Of a hundred connections, this many are cut somewhere in their first `cut_within` octets.
    pub(crate) cuts: u64,
    pub(crate) cut_within: usize,
    /// Octets arrive after up to this many milliseconds, in pieces of up to `piece`.
    pub(crate) delay: u64,
    /// 0: whole.
    pub(crate) piece: usize,
    /// A socket holds this many octets; 0: plenty.
    pub(crate) socket: usize,
}

/// One speaker and what its driver knows.
pub(crate) struct Node {
    pub(crate) speaker: Speaker,
    pub(crate) config: SpeakerConfig,
    pub(crate) address: IpAddr,
    pub(crate) admitted: Vec<IpAddr>,
    pub(crate) notices: Vec<(Now, Notice)>,
    pub(crate) kernel: BTreeMap<String, RouteChange>,
    pub(crate) next_accept: u64,
    /// A process that was killed is another one afterwards.
    pub(crate) life: u64,
    pub(crate) dead: bool,
}

/// One direction of a pipe: octets on their way from `from`.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) bytes: VecDeque<u8>,
    /// A delivery is scheduled.
    pub(crate) moving: bool,
    /// The sender has closed: the receiver hears of it after the last octet.
    pub(crate) closing: bool,
    /// What left the sender altogether, for golden tests.
    pub(crate) log: Vec<u8>,
}

/// A TCP connection.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// Who dialled, then who accepted: node, its life, its number for the connection.
    pub(crate) ends: [(usize, u64, ConnId); 2],
    pub(crate) lanes: [Lane; 2],
    pub(crate) up: [bool; 2],
    /// Octets until it is cut.
    pub(crate) cut: Option<usize>,
    pub(crate) gone: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happening {
    DialEnds { node: usize, life: u64, conn: u64, remote: SocketAddr },
    Deliver { pipe: usize, lane: usize },
}

/// All of it.
pub(crate) struct World {
    pub(crate) now: Now,
    pub(crate) nodes: Vec<Node>,
    pub(crate) pipes: Vec<Pipe>,
    pub(crate) faults: Faults,
    pub(crate) queue: BinaryHeap<std::cmp::Reverse<(Now, u64, Happening)>>,
    pub(crate) sequence: u64,
    dice: u64,
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        Self {
            now: Now::default(),
            nodes: Vec::new(),
            pipes: Vec::new(),
            faults,
            queue: BinaryHeap::new(),
            sequence: 0,
            dice: seed ^ 0x5DEE_CE66_D1CE_4E5B,
        }
    }

    pub(crate) fn add(&mut self, address: &str, config: SpeakerConfig) -> usize {
        self.nodes.push(Node {
            speaker: Speaker::new(config.clone()),
            config,
            address: address.parse().unwrap(),
            admitted: Vec::new(),
            notices: Vec::new(),
            kernel: BTreeMap::new(),
            next_accept: 1,
            life: 0,
            dead: false,
        });
        self.nodes.len() - 1
    }

    /// A number below `bound`.
    pub(crate) fn roll(&mut self, bound: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % bound.max(1)
    }

    pub(crate) fn pick(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap();
        usize::try_from(self.roll(bound)).unwrap()
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        percent > 0 && self.roll(100) < percent
    }

    pub(crate) fn delay(&mut self) -> Duration {
        let bound = self.faults.delay + 1;
        Duration::from_millis(self.roll(bound)) + Duration::from_micros(50)
    }

    pub(crate) fn schedule(&mut self, after: Duration, what: Happening) {
        self.sequence += 1;
        let at = Now(self.now.0 + after);
        self.queue.push(std::cmp::Reverse((at, self.sequence, what)));
    }

    /// Tells a speaker something, and does what it asks for.
    pub(crate) fn tell(&mut self, node: usize, event: Event<'_>) {
        let now = self.now;
        self.nodes[node].speaker.handle(now, event);
        self.obey(node);
    }

    /// The next thing that happens, if it does before `until`.
    fn advance(&mut self, until: Now) -> bool {
        let happening = self.queue.peek().map(|next| next.0.0);
        let deadline = (0..self.nodes.len())
            .filter(|node| !self.nodes[*node].dead)
            .filter_map(|node| Some((self.nodes[node].speaker.next_deadline()?, node)))
            .min();
        match (happening, deadline) {
            (Some(at), due) if at <= until && due.is_none_or(|(due, _)| at <= due) => {
                self.now = self.now.max(at);
                let next = self.queue.pop().unwrap().0;
                self.happen(next.2);
            }
            (_, Some((due, node))) if due <= until => {
                self.now = self.now.max(due);
                self.tell(node, Event::Tick);
            }
            _ => {
                self.now = until;
                return false;
            }
        }
        true
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, time: Duration) {
        let until = Now(self.now.0 + time);
        while self.advance(until) {}
    }

    /// Lets time pass until something is so; fails where it is not after `time`.
    pub(crate) fn until(&mut self, what: &str, time: Duration, so: impl Fn(&Self) -> bool) {
        let until = Now(self.now.0 + time);
        while !so(self) {
            assert!(self.advance(until), "{what}: not so after {time:?}");
        }
    }

    pub(crate) fn established(&self, node: usize, name: &str) -> bool {
        self.status(node, name).is_some_and(|s| s.state == flock_bgp::State::Established)
    }

    pub(crate) fn status(&self, node: usize, name: &str) -> Option<flock_bgp::PeerStatus> {
        let speaker = &self.nodes[node].speaker;
        speaker.peer(speaker.peer_by_name(name)?)
    }

    pub(crate) fn has(&self, node: usize, net: &str) -> bool {
        let route = self.nodes[node].speaker.route(net.parse().unwrap());
        route.is_some_and(|route| route.paths.iter().any(|path| path.best))
    }

    /// Sessions of a node that ended.
    pub(crate) fn flaps(&self, node: usize) -> u64 {
        self.nodes[node].speaker.peers().map(|peer| peer.flaps).sum()
    }

    /// Kills the process without a word: the kernel closes its connections.
    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes[node].dead = true;
        let life = self.nodes[node].life;
        for pipe in 0..self.pipes.len() {
            for end in 0..2 {
                let (of, its_life, _) = self.pipes[pipe].ends[end];
                if of == node && its_life == life && !self.pipes[pipe].gone {
                    self.pipes[pipe].lanes[end].closing = true;
                    self.pipes[pipe].up[end] = false;
                    self.move_on(pipe, end);
                }
            }
        }
        self.nodes[node].life += 1;
        self.nodes[node].admitted.clear();
        self.nodes[node].kernel.clear();
    }

    /// Another process in its place.
    pub(crate) fn revive(&mut self, node: usize, config: SpeakerConfig) {
        let node = &mut self.nodes[node];
        node.speaker = Speaker::new(config.clone());
        node.config = config;
        node.dead = false;
    }
}

/// What an action is called in an assertion.
pub(crate) fn name(action: &Action) -> &'static str {
    match action {
        Action::Dial { .. } => "dial",
        Action::Admit { .. } => "admit",
        Action::Expel { .. } => "expel",
        Action::Wake(_) => "wake",
        Action::Close(_) => "close",
        Action::Notice(_) => "notice",
    }
}
