//! From received bytes to one answer per request: pure.
//!
//! Decides which received message belongs to which request (by sequence
//! number), when a request is answered (an acknowledgement, or DONE for a
//! dump), and that a dump with NLM_F_DUMP_INTR on any of its parts did not
//! show one consistent state. Sending, and trying again, are the channel's.

use netlink_packet_core::{
    NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP,
    NLMSG_OVERRUN, NlasIterator,
};

use crate::error::Refusal;

const HEADER: usize = 16;
const NLMSGERR_ATTR_MSG: u16 = 1;

/// One message that the kernel sent in answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The message's type (RTM_NEWLINK and so on).
    pub kind: u16,
    /// What follows its header.
    pub payload: Vec<u8>,
}

/// All that came back for one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// `None` until the request is answered, then the verdict.
    pub verdict: Option<Result<(), Refusal>>,
    /// The messages before the verdict.
    pub replies: Vec<Reply>,
    /// A part said that the table changed under the dump.
    pub interrupted: bool,
}

/// Sorts what is received to the requests of one batch.
#[derive(Debug)]
pub struct Collector {
    first: u32,
    answers: Vec<Answer>,
    open: usize,
}

impl Collector {
    /// Expects answers to `count` requests numbered from `first`.
    pub fn new(first: u32, count: usize) -> Self {
        Self { first, answers: vec![Answer::default(); count], open: count }
    }

    /// Whether every request has its verdict.
    pub fn complete(&self) -> bool {
        self.open == 0
    }

    /// Whether the last request has its verdict, and so each before it that the kernel refused: it
    /// answers in order.
    pub fn last_is_answered(&self) -> bool {
        self.answers.last().is_none_or(|answer| answer.verdict.is_some())
    }

    /// The answers, in the order of the requests.
    pub fn into_answers(self) -> Vec<Answer> {
        self.answers
    }

    /// Takes one received datagram. The error says what cannot be read.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            let (header, payload, rest) = split(bytes)
                .ok_or_else(|| format!("{} bytes do not hold a whole message", bytes.len()))?;
            self.take(&header, payload)?;
            bytes = rest;
        }
        Ok(())
    }

    fn take(&mut self, header: &Header, payload: &[u8]) -> Result<(), String> {
        let place = usize::try_from(header.sequence.wrapping_sub(self.first)).unwrap_or(usize::MAX);
        // An answer to an earlier batch, given up on: no longer of interest.
        let Some(answer) = self.answers.get_mut(place) else { return Ok(()) };
        answer.interrupted |= header.flags & NLM_F_DUMP_INTR != 0;
        match header.kind {
            NLMSG_NOOP => return Ok(()),
            NLMSG_OVERRUN => return Err("the kernel reports an overrun".to_owned()),
            NLMSG_ERROR | NLMSG_DONE => {}
            kind => {
                answer.replies.push(Reply { kind, payload: payload.to_vec() });
                return Ok(());
            }
        }
        let verdict = verdict(header, payload)?;
        if answer.verdict.is_none() {
            self.open = self.open.saturating_sub(1);
        }
        answer.verdict = Some(verdict);
        Ok(())
    }
}

fn verdict(header: &Header, payload: &[u8]) -> Result<Result<(), Refusal>, String> {
    // DONE may come without a code, which means success.
    if header.kind == NLMSG_DONE && payload.is_empty() {
        return Ok(Ok(()));
    }
    let code = payload
        .first_chunk::<4>()
        .map(|bytes| i32::from_ne_bytes(*bytes))
        .ok_or_else(|| format!("a verdict of {} bytes", payload.len()))?;
    if code >= 0 {
        return Ok(Ok(()));
    }
    Ok(Err(Refusal { code: code.saturating_neg(), text: words(header, payload) }))
}

/// The extended acknowledgement's text, behind the copy of our own header.
fn words(header: &Header, payload: &[u8]) -> Option<String> {
    if header.flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let skip = match header.kind {
        NLMSG_DONE => 4,
        _ if header.flags & NLM_F_CAPPED != 0 => 4 + HEADER,
        _ => 4 + usize::try_from(u32_at(payload, 4)?).ok()?,
    };
    let attributes = payload.get(skip..)?;
    NlasIterator::new(attributes)
        .flatten()
        .find(|nla| nla.kind() == NLMSGERR_ATTR_MSG)
        .map(|nla| String::from_utf8_lossy(nla.value()).trim_end_matches('\0').to_owned())
}

/// A netlink message's header, without the length that framing consumed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// The socket that asked; 0 is the kernel itself.
    pub(crate) port: u32,
}

/// The first message: its header, its payload, and what follows it.
pub(crate) fn split(bytes: &[u8]) -> Option<(Header, &[u8], &[u8])> {
    let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
    let header = Header {
        kind: u16_at(bytes, 4)?,
        flags: u16_at(bytes, 6)?,
        sequence: u32_at(bytes, 8)?,
        port: u32_at(bytes, 12)?,
    };
    let payload = bytes.get(HEADER..length)?;
    let padded = length.checked_next_multiple_of(4)?.min(bytes.len());
    Some((header, payload, bytes.get(padded..)?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|chunk| u32::from_ne_bytes(*chunk))
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk::<2>().map(|chunk| u16::from_ne_bytes(*chunk))
}
