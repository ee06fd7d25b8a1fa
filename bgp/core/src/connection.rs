//! One TCP connection as the core sees it: where a message ends in what was read, and what is to
//! be said beside routes.
//!
//! Reading keeps at most one unfinished message. Writing keeps flags and not a queue: a KEEPALIVE
//! that was not yet sent is not sent twice, so a peer that does not read costs nothing more.

use std::net::SocketAddr;

use bytes::BytesMut;
use flock_bgp_wire::{
    Context, Family, Notification, Open, Refresh, RefreshKind, Reset, encode, frame,
};

use crate::event::ConnId;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnId,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// Our OPEN, once it is to be sent.
    pub(crate) offer: Option<Open>,
    /// How to read the peer; by default as before any OPEN.
    pub(crate) context: Context,
    /// Messages over 4,096 octets are taken (RFC 8654).
    pub(crate) extended: bool,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    /// The driver was told to call `transmit`, and has not yet.
    pub(crate) woken: bool,
}

impl Connection {
    pub(crate) fn new(id: ConnId, local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            id,
            local,
            remote,
            offer: None,
            context: Context::default(),
            extended: false,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            woken: false,
        }
    }
}

/// The message that is not yet complete.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    partial: Vec<u8>,
}

/// Where a whole message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole<'a> {
    /// In the bytes that just came.
    Passing(&'a [u8]),
    /// In [`Inbox::kept`].
    Kept,
}

/// What is kept of an inbox's memory between messages.
const KEEP: usize = frame::MAX;

impl Inbox {
    /// The next whole message of what is kept and of `bytes`, which is shortened by what was taken;
    /// `None`: more must come. After a kept one, [`Inbox::done`] is to be called.
    pub(crate) fn next<'a>(
        &mut self,
        bytes: &mut &'a [u8],
        extended: bool,
    ) -> Result<Option<Whole<'a>>, Reset> {
        if self.partial.is_empty() {
            let whole = frame::length(bytes, extended)?.and_then(|n| bytes.split_at_checked(n));
            let Some((message, rest)) = whole else {
                self.partial.extend_from_slice(bytes);
                *bytes = &[];
                return Ok(None);
            };
            *bytes = rest;
            return Ok(Some(Whole::Passing(message)));
        }
        // First the header, then as much as the header says: never more than one message is kept,
        // and a peer that sends single octets costs a look at the header for each.
        self.fill(frame::HEADER, bytes);
        let Some(length) = frame::length(&self.partial, extended)? else { return Ok(None) };
        self.fill(length, bytes);
        Ok((self.partial.len() >= length).then_some(Whole::Kept))
    }

    /// The message behind [`Whole::Kept`].
    pub(crate) fn kept(&self) -> &[u8] {
        &self.partial
    }

    /// The message that was kept has been used.
    pub(crate) fn done(&mut self) {
        self.partial.clear();
        if self.partial.capacity() > KEEP {
            self.partial.shrink_to(KEEP);
        }
    }

    fn fill(&mut self, length: usize, bytes: &mut &[u8]) {
        let missing = length.saturating_sub(self.partial.len()).min(bytes.len());
        let (head, rest) = bytes.split_at_checked(missing).unwrap_or((bytes, &[]));
        self.partial.extend_from_slice(head);
        *bytes = rest;
    }
}

/// What is to be said beside routes, in the order of the fields.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    open: Option<Open>,
    keepalive: bool,
    /// ROUTE-REFRESH requests, by family.
    refresh: [bool; 2],
    notification: Option<Notification>,
}

impl Outbox {
    pub(crate) fn open(&mut self, open: Open) {
        self.open = Some(open);
    }

    pub(crate) fn keepalive(&mut self) {
        self.keepalive = true;
    }

    pub(crate) fn refresh(&mut self, family: Family) {
        if let Some(wanted) = self.refresh.get_mut(family.index()) {
            *wanted = true;
        }
    }

    /// The last word; nothing follows it.
    pub(crate) fn notification(&mut self, notification: Notification) {
        self.notification.get_or_insert(notification);
    }

    /// Says it. Returns how many messages that were.
    pub(crate) fn drain(&mut self, out: &mut BytesMut) -> u32 {
        let mut messages = 0;
        if let Some(open) = self.open.take() {
            encode::open(&open, out);
            messages += 1;
        }
        if std::mem::take(&mut self.keepalive) {
            encode::keepalive(out);
            messages += 1;
        }
        for family in Family::ALL {
            if self.refresh.get_mut(family.index()).is_some_and(std::mem::take) {
                let (afi, safi) = (family.afi(), family.safi());
                encode::refresh(Refresh { afi, safi, kind: RefreshKind::Request }, out);
                messages += 1;
            }
        }
        if let Some(notification) = self.notification.take() {
            encode::notification(&notification, out);
            messages += 1;
        }
        messages
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_none()
            && !self.keepalive
            && self.refresh == [false; 2]
            && self.notification.is_none()
    }
}

#[cfg(test)]
mod tests;
