//! The parts of a rule that flock uses, as nftables wants them.
//!
//! Decides encodings of expressions (linux/netfilter/nf_tables.h) and how
//! registers are counted: sixteen of four bytes; what is longer takes several,
//! and a key of several parts is what is beside each other. Rules are made of
//! them in `rules` and `policy::rules`.

use crate::nftables::{NFTA_LIST_ELEM, attribute, nested, number, text};

const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_DATA_VALUE: u16 = 1;

/// NFT_REG32_00, the first of those of four bytes.
const FIRST_REGISTER: u32 = 8;
const REGISTER_VERDICT: u32 = 0;

const OPERATOR_EQUAL: u32 = 0;
const OPERATOR_NOT_EQUAL: u32 = 1;

/// Verdicts are negative where they are nftables' own, and not netfilter's.
const VERDICT_DROP: i32 = 0;
const VERDICT_ACCEPT: i32 = 1;
const VERDICT_JUMP: i32 = -3;
const VERDICT_GOTO: i32 = -4;
const VERDICT_RETURN: i32 = -5;

/// A register by its place, 0 to 15.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register(pub(crate) u32);

impl Register {
    fn number(self) -> u32 {
        FIRST_REGISTER + self.0
    }
}

/// What is known of a packet beside its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meta {
    /// The input interface's name, four registers.
    InputName,
    /// The output interface's name, four registers.
    OutputName,
    /// Its family (AF_INET, AF_INET6).
    Family,
    /// Its protocol, behind whatever extension headers there are.
    Protocol,
}

impl Meta {
    fn key(self) -> u32 {
        match self {
            Self::InputName => 6,
            Self::OutputName => 7,
            Self::Family => 15,
            Self::Protocol => 16,
        }
    }
}

/// Where an offset is counted from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    Network,
    Transport,
}

impl Base {
    fn number(self) -> u32 {
        match self {
            Self::Network => 1,
            Self::Transport => 2,
        }
    }
}

/// One step of a rule; where a condition does not hold, the rule ends.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    Meta {
        what: Meta,
        to: Register,
    },
    /// Part of a header; the rest of the last register is 0. No such part: the rule ends.
    Header {
        base: Base,
        offset: u32,
        length: u32,
        to: Register,
    },
    /// What conntrack makes of the packet, as bits.
    ConnectionState {
        to: Register,
    },
    /// The interface by which the source would be routed, if it is the input
    /// interface, else 0.
    FibSourceThroughInput {
        to: Register,
    },
    Constant {
        value: Vec<u8>,
        to: Register,
    },
    /// Begins with these bytes.
    Equals {
        from: Register,
        value: Vec<u8>,
    },
    /// Has any of these bits.
    AnyOf {
        from: Register,
        bits: u32,
    },
    /// What begins there is in the set.
    InSet {
        name: &'static str,
        from: Register,
    },
    /// What begins there is in the map: to what it leads.
    InMap {
        name: &'static str,
        from: Register,
        to: Register,
    },
    Counter,
    /// At most so many in a second, and so many at once.
    Limit {
        rate: u64,
        burst: u32,
    },
    /// The beginning of the packet for whoever is bound to the group.
    Log {
        group: u16,
        prefix: &'static str,
        length: u32,
    },
    Accept,
    Drop,
    Return,
    Jump(&'static str),
    Goto(&'static str),
}

impl Expression {
    /// One element of a rule's list of expressions.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let parts: Vec<Vec<u8>> = match self {
            Self::AnyOf { from, bits } => {
                vec![part(and(*from, *bits)), part(compare(*from, OPERATOR_NOT_EQUAL, &[0; 4]))]
            }
            other => vec![part(other.words())],
        };
        parts.concat()
    }

    /// Its name and attributes.
    fn words(&self) -> (&'static str, Vec<u8>) {
        match self {
            Self::Meta { what, to } => {
                ("meta", [number(2, what.key()), number(1, to.number())].concat())
            }
            Self::Header { base, offset, length, to } => {
                let place = [number(2, base.number()), number(3, *offset), number(4, *length)];
                ("payload", [number(1, to.number()), place.concat()].concat())
            }
            // Key: state (0).
            Self::ConnectionState { to } => ("ct", [number(2, 0), number(1, to.number())].concat()),
            // Flags: saddr (1) and iif (8); result: oif (1).
            Self::FibSourceThroughInput { to } => {
                ("fib", [number(3, 1 | 8), number(2, 1), number(1, to.number())].concat())
            }
            Self::Constant { value, to } => {
                ("immediate", [number(1, to.number()), nested(2, &data(value))].concat())
            }
            Self::Equals { from, value } => compare(*from, OPERATOR_EQUAL, value),
            Self::AnyOf { from, bits } => and(*from, *bits),
            Self::InSet { name, from } => {
                ("lookup", [text(1, name), number(2, from.number())].concat())
            }
            Self::InMap { name, from, to } => {
                let registers = [number(2, from.number()), number(3, to.number())];
                ("lookup", [text(1, name), registers.concat()].concat())
            }
            Self::Counter => ("counter", Vec::new()),
            Self::Limit { rate, burst } => {
                let rate = attribute(1, &rate.to_be_bytes());
                let second = attribute(2, &1u64.to_be_bytes());
                ("limit", [rate, second, number(3, *burst)].concat())
            }
            Self::Log { group, prefix, length } => {
                let group = attribute(1, &group.to_be_bytes());
                ("log", [group, text(2, prefix), number(3, *length)].concat())
            }
            Self::Accept => verdict(VERDICT_ACCEPT, &[]),
            Self::Drop => verdict(VERDICT_DROP, &[]),
            Self::Return => verdict(VERDICT_RETURN, &[]),
            Self::Jump(chain) => verdict(VERDICT_JUMP, &text(2, chain)),
            Self::Goto(chain) => verdict(VERDICT_GOTO, &text(2, chain)),
        }
    }
}

/// An expression as it stands alone, in the description of a set.
fn alone((name, words): (&str, Vec<u8>)) -> Vec<u8> {
    [text(NFTA_EXPR_NAME, name), nested(NFTA_EXPR_DATA, &words)].concat()
}

/// A counter, for every element of a set.
pub(crate) fn counter_each() -> Vec<u8> {
    alone(Expression::Counter.words())
}

fn part(words: (&'static str, Vec<u8>)) -> Vec<u8> {
    nested(NFTA_LIST_ELEM, &alone(words))
}

fn data(value: &[u8]) -> Vec<u8> {
    attribute(NFTA_DATA_VALUE, value)
}

fn compare(from: Register, operator: u32, value: &[u8]) -> (&'static str, Vec<u8>) {
    let value = nested(3, &data(value));
    ("cmp", [number(1, from.number()), number(2, operator), value].concat())
}

fn and(register: Register, bits: u32) -> (&'static str, Vec<u8>) {
    let registers = [number(1, register.number()), number(2, register.number()), number(3, 4)];
    let mask = nested(4, &data(&bits.to_ne_bytes()));
    let nothing = nested(5, &data(&[0; 4]));
    ("bitwise", [registers.concat(), mask, nothing].concat())
}

fn verdict(code: i32, chain: &[u8]) -> (&'static str, Vec<u8>) {
    let code = attribute(1, &code.to_be_bytes());
    let verdict = nested(2, &nested(2, &[code, chain.to_vec()].concat()));
    ("immediate", [number(1, REGISTER_VERDICT), verdict].concat())
}
