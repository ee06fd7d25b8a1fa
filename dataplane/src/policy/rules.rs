//! What the table's chains say.
//!
//! Decides the rules: pure, and always the same. A packet of a connection that
//! is known, or one that tells of a smaller MTU, or from a pod to itself,
//! passes. What comes from an isolated link jumps to `egress4` or `egress6`,
//! what goes to one to `ingress4` or `ingress6`:
//!
//! 1. the other end is a pod: one of four lookups finds that its class may,
//! 2. it is a pod: on to 4,
//! 3. it is in a block: likewise that the block's class may,
//! 4. `egress-anybody`, `ingress-anybody`: likewise that anybody may; counted, dropped.
//!
//! Each rule loads what it looks at itself: newer kernels do not let one read
//! registers that another has filled. What lets through is a condition that
//! holds, never one that fails: a load that fails ends a rule.
//!
//! `nft` (1.0.6 at least) aborts on a key in which a part comes from a map.
//! So the first part is always a constant that is loaded as long as the parts
//! from maps beside it, which then take their places: it sees the constant only.

use super::elements::Kind;
use super::sets::{self, ALLOWED, BLOCKS4, BLOCKS6, MEMBERS4, MEMBERS6, RANGES, SELF4, SELF6};
use super::{Direction, Layout};
use crate::expression::{Base, Expression, Meta, Register};

/// Raised when the meaning of any rule changes, so that it is seen which were
/// made by another version.
const VERSION: u32 = 1;

pub(super) const FORWARD: &str = "forward";

/// All chains, the one on the hook first.
pub(super) const CHAINS: [&str; 7] =
    [FORWARD, "egress4", "egress6", "egress-anybody", "ingress4", "ingress6", "ingress-anybody"];

/// The group that hears of dropped packets: flock's number wherever it needs one.
pub(super) const LOG_GROUP: u16 = 241;
/// Of a packet: its headers, with some extension headers.
pub(super) const LOG_LENGTH: u32 = 128;
const LOG_RATE: u64 = 10;
const LOG_BURST: u32 = 20;

/// The words before a logged packet.
pub(super) const LOG_INGRESS: &str = "in";
pub(super) const LOG_EGRESS: &str = "out";

/// ESTABLISHED and RELATED.
const KNOWN: u32 = (1 << 1) | (1 << 2);

const ICMP: u8 = 1;
const ICMP6: u8 = 58;

/// The parts of a key of `allowed`, side by side.
const KIND: Register = Register(0);
const PROFILE: Register = Register(1);
const CLASS: Register = Register(2);
const PROTOCOL: Register = Register(3);
const PORT: Register = Register(4);
/// Whatever else a rule looks at, and what is behind a protocol there.
const SCRATCH: Register = Register(8);
const BEHIND_SCRATCH: Register = Register(9);
/// Source and destination side by side.
const SOURCE: Register = Register(0);

/// One rule.
pub(super) struct Rule {
    pub(super) chain: &'static str,
    /// For people, and to know it again.
    pub(super) comment: String,
    pub(super) expressions: Vec<Expression>,
}

impl Rule {
    fn new(chain: &'static str, says: &str, expressions: Vec<Expression>) -> Self {
        Self { chain, comment: format!("flock ({VERSION}): {says}"), expressions }
    }
}

/// A family: its number and where addresses are in its header.
struct Family {
    number: u8,
    length: u32,
    source: u32,
    destination: u32,
    /// Behind a source.
    beside: Register,
    members: &'static str,
    blocks: &'static str,
    own: &'static str,
}

const FAMILY4: Family = Family {
    number: 2,
    length: 4,
    source: 12,
    destination: 16,
    beside: Register(1),
    members: MEMBERS4,
    blocks: BLOCKS4,
    own: SELF4,
};

const FAMILY6: Family = Family {
    number: 10,
    length: 16,
    source: 8,
    destination: 24,
    beside: Register(4),
    members: MEMBERS6,
    blocks: BLOCKS6,
    own: SELF6,
};

/// What differs between what a pod sends and what it is sent.
struct Way {
    direction: Direction,
    /// For each family, and for anybody.
    chains: [&'static str; 3],
    link: Meta,
    prefix: &'static str,
}

const EGRESS: Way = Way {
    direction: Direction::Egress,
    chains: ["egress4", "egress6", "egress-anybody"],
    link: Meta::InputName,
    prefix: LOG_EGRESS,
};

const INGRESS: Way = Way {
    direction: Direction::Ingress,
    chains: ["ingress4", "ingress6", "ingress-anybody"],
    link: Meta::OutputName,
    prefix: LOG_INGRESS,
};

impl Way {
    /// Out of `egress` back to `forward`, which has the receiver's side still to come.
    fn passes(&self) -> Expression {
        match self.direction {
            Direction::Egress => Expression::Return,
            Direction::Ingress => Expression::Accept,
        }
    }

    /// The address of the other end.
    fn peer(&self, family: &Family) -> Expression {
        let offset = match self.direction {
            Direction::Egress => family.destination,
            Direction::Ingress => family.source,
        };
        address(family, offset, SCRATCH)
    }

    /// What the pod's packets are held against; ends the rule where it is not isolated.
    fn profile(&self) -> [Expression; 2] {
        let name = sets::subjects(self.direction);
        [
            Expression::Meta { what: self.link, to: SCRATCH },
            Expression::InMap { name, from: SCRATCH, to: PROFILE },
        ]
    }
}

/// In the order in which they are looked for.
const KINDS: [(Kind, &str); 4] = [
    (Kind::One, "this port"),
    (Kind::All, "everything"),
    (Kind::Protocol, "this protocol"),
    (Kind::Range, "a range of ports"),
];

/// The first part of a key, with room for a profile and a class: anybody's, for now.
fn begin(kind: Kind) -> Expression {
    Expression::Constant { value: [kind.key(), [0; 4], [0; 4]].concat(), to: KIND }
}

/// The last parts.
fn service(kind: Kind) -> Vec<Expression> {
    let protocol = |to| Expression::Meta { what: Meta::Protocol, to };
    let port = |to| Expression::Header { base: Base::Transport, offset: 2, length: 2, to };
    let nothing = |length, to| Expression::Constant { value: vec![0; length], to };
    match kind {
        Kind::One => vec![protocol(PROTOCOL), port(PORT)],
        Kind::All => vec![nothing(8, PROTOCOL)],
        Kind::Protocol => vec![protocol(PROTOCOL), nothing(4, PORT)],
        Kind::Range => vec![
            nothing(8, PROTOCOL),
            protocol(SCRATCH),
            port(BEHIND_SCRATCH),
            Expression::InMap { name: RANGES, from: SCRATCH, to: PORT },
        ],
    }
}

/// All rules, each chain's in their order.
pub(super) fn all(layout: Layout) -> Vec<Rule> {
    let mut rules = forward();
    for way in [&EGRESS, &INGRESS] {
        let [chain4, chain6, anybody] = way.chains;
        for (chain, family) in [(chain4, &FAMILY4), (chain6, &FAMILY6)] {
            rules.extend(peer_rules(way, chain, family, anybody));
        }
        rules.extend(last_rules(way, anybody, layout));
    }
    rules
}

fn forward() -> Vec<Rule> {
    let mut rules = vec![Rule::new(
        FORWARD,
        "of a connection that may be",
        vec![
            Expression::ConnectionState { to: SCRATCH },
            Expression::AnyOf { from: SCRATCH, bits: KNOWN },
            Expression::Accept,
        ],
    )];
    for family in [&FAMILY4, &FAMILY6] {
        let pair = [
            address(family, family.source, SOURCE),
            address(family, family.destination, family.beside),
            Expression::InSet { name: family.own, from: SOURCE },
            Expression::Accept,
        ];
        let expressions = is(family).into_iter().chain(pair).collect();
        rules.push(Rule::new(FORWARD, "a pod reaches itself", expressions));
    }
    rules.extend(held(&EGRESS, "from an isolated pod"));
    // Between the two: what an isolated pod forges of these is held to what it may send.
    rules.extend([
        Rule::new(FORWARD, "Packet Too Big", icmp(&FAMILY6, ICMP6, vec![2])),
        Rule::new(FORWARD, "Fragmentation Needed", icmp(&FAMILY4, ICMP, vec![3, 4])),
    ]);
    rules.extend(held(&INGRESS, "to an isolated pod"));
    rules
}

/// Packets of isolated pods are held against what they may.
fn held(way: &'static Way, says: &'static str) -> impl Iterator<Item = Rule> {
    let [chain4, chain6, _] = way.chains;
    [(chain4, &FAMILY4), (chain6, &FAMILY6)].into_iter().map(move |(chain, family)| {
        let jump = [Expression::Jump(chain)];
        let expressions = is(family).into_iter().chain(way.profile()).chain(jump).collect();
        Rule::new(FORWARD, says, expressions)
    })
}

/// What the class of the other end may, be it a pod's or a block's.
fn peer_rules(way: &Way, chain: &'static str, family: &Family, anybody: &'static str) -> Vec<Rule> {
    let class = |name| [way.peer(family), Expression::InMap { name, from: SCRATCH, to: CLASS }];
    let mut rules = may(way, chain, "the pod", &class(family.members));
    let is_pod = class(family.members).into_iter().chain([Expression::Goto(anybody)]);
    rules.push(Rule::new(chain, "a pod is no part of a block", is_pod.collect()));
    rules.extend(may(way, chain, "the block", &class(family.blocks)));
    rules.push(Rule::new(chain, "what anybody may", vec![Expression::Goto(anybody)]));
    rules
}

/// A rule for each kind of ports that a class may be allowed.
fn may(way: &Way, chain: &'static str, who: &str, class: &[Expression]) -> Vec<Rule> {
    let rules = KINDS.iter().map(|(kind, what)| {
        let mut expressions = vec![begin(*kind)];
        expressions.extend(way.profile());
        expressions.extend(class.iter().cloned());
        expressions.extend(service(*kind));
        expressions.extend([Expression::InSet { name: ALLOWED, from: KIND }, way.passes()]);
        Rule::new(chain, &format!("{who} may: {what}"), expressions)
    });
    rules.collect()
}

/// What anybody may; and the end.
fn last_rules(way: &Way, chain: &'static str, layout: Layout) -> Vec<Rule> {
    let mut rules = may(way, chain, "anybody", &[]);
    if layout.log_drops {
        let log = Expression::Log { group: LOG_GROUP, prefix: way.prefix, length: LOG_LENGTH };
        let limit = Expression::Limit { rate: LOG_RATE, burst: LOG_BURST };
        rules.push(Rule::new(chain, "some are told of", vec![limit, log]));
    }
    // In a rule of its own: whether it is counted must not decide whether it is dropped.
    let counted = vec![
        Expression::Meta { what: way.link, to: SCRATCH },
        Expression::InSet { name: sets::denied(way.direction), from: SCRATCH },
    ];
    rules.push(Rule::new(chain, "counted", counted));
    rules.push(Rule::new(chain, "not allowed", vec![Expression::Drop]));
    rules
}

fn is(family: &Family) -> [Expression; 2] {
    [
        Expression::Meta { what: Meta::Family, to: SCRATCH },
        Expression::Equals { from: SCRATCH, value: vec![family.number] },
    ]
}

fn address(family: &Family, offset: u32, to: Register) -> Expression {
    Expression::Header { base: Base::Network, offset, length: family.length, to }
}

/// ICMP of a family that begins with these bytes.
fn icmp(family: &Family, protocol: u8, begins: Vec<u8>) -> Vec<Expression> {
    let length = u32::try_from(begins.len()).unwrap_or(0);
    let rest = [
        Expression::Meta { what: Meta::Protocol, to: SCRATCH },
        Expression::Equals { from: SCRATCH, value: vec![protocol] },
        Expression::Header { base: Base::Transport, offset: 0, length, to: SCRATCH },
        Expression::Equals { from: SCRATCH, value: begins },
        Expression::Accept,
    ];
    is(family).into_iter().chain(rest).collect()
}
