//! Bytes: reading, writing and closing. Decides whose turn it is and for how long; what the bytes
//! mean is the speaker's.
//!
//! Reading: a turn is one full buffer, or a few short ones; then the others come first. Writing:
//! straight from the speaker's pull into the socket; what the kernel does not take is kept, and the
//! speaker is not asked again before it is gone.

use std::io;
use std::sync::Arc;
use std::task::Poll;

use bytes::BytesMut;
use flock_bgp::{ConnId, Event, Now};
use tracing::debug;

use crate::connection::Written;
use crate::dial;
use crate::driver::Driver;

/// What is read at once.
pub(crate) const INPUT: usize = 64 * 1024;
/// Reads in a turn, where each is short.
const READS_PER_TURN: usize = 4;
/// Transmits in a turn.
const TRANSMITS_PER_TURN: usize = 4;
/// What is said at most while a connection ends.
const LAST_WORDS: usize = 256 * 1024;

impl Driver {
    /// Sends what became pending.
    pub(crate) fn flush(&mut self) {
        while !self.woken.is_empty() {
            for conn in std::mem::take(&mut self.woken) {
                self.transmit(conn);
            }
        }
    }

    /// A connection's socket can go on.
    pub(crate) fn serve(&mut self, conn: ConnId) {
        self.write(conn);
        self.read(conn);
    }

    /// What was kept goes first.
    fn write(&mut self, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        if connection.unsent() > 0 {
            let before = connection.unsent();
            let outcome = connection.write_unsent();
            let left = connection.unsent();
            if !self.written(conn, before - left, outcome) {
                return;
            }
        }
        if self.connections.get(&conn).is_some_and(|connection| connection.owes) {
            self.transmit(conn);
        }
    }

    /// Asks the speaker for more, as long as the kernel takes it.
    fn transmit(&mut self, conn: ConnId) {
        self.pull(conn);
        // To have told everything may be news.
        self.carry_out();
    }

    fn pull(&mut self, conn: ConnId) {
        for _ in 0..TRANSMITS_PER_TURN {
            let Some(connection) = self.connections.get_mut(&conn) else { return };
            if connection.unsent() > 0 || connection.broken.is_some() {
                connection.owes = true;
                return;
            }
            self.output.clear();
            self.speaker.transmit(conn, &mut self.output);
            connection.owes = !self.output.is_empty();
            if !connection.owes {
                return;
            }
            let outcome = connection.write(&self.output);
            let taken = self.output.len() - connection.unsent();
            if !self.written(conn, taken, outcome) {
                return;
            }
        }
        if let Some(connection) = self.connections.get(&conn) {
            connection.come_again();
        }
    }

    /// Tells the speaker what the kernel took. Returns whether it would take more.
    fn written(&mut self, conn: ConnId, taken: usize, outcome: io::Result<Written>) -> bool {
        match outcome {
            Ok(Written { some, all }) => {
                self.sent += u64::try_from(taken).unwrap_or(0);
                if some {
                    self.tell(Event::Sent(conn));
                }
                all
            }
            Err(error) => {
                // The peer may have said why: that is read first.
                if let Some(connection) = self.connections.get_mut(&conn) {
                    connection.broken = Some(error.to_string().into());
                    connection.come_again();
                }
                false
            }
        }
    }

    fn read(&mut self, conn: ConnId) {
        for _ in 0..READS_PER_TURN {
            let Some(connection) = self.connections.get_mut(&conn) else { return };
            match connection.read(&mut self.input) {
                Poll::Pending => {
                    if let Some(words) = connection.broken.take() {
                        self.closed(conn, Some(words));
                    }
                    return;
                }
                Poll::Ready(Ok(0)) => {
                    let words = connection.broken.take();
                    return self.closed(conn, words);
                }
                Poll::Ready(Err(error)) => {
                    return self.closed(conn, Some(error.to_string().into()));
                }
                Poll::Ready(Ok(count)) => {
                    self.received += u64::try_from(count).unwrap_or(0);
                    let bytes = self.input.get(..count).unwrap_or_default();
                    let now = Now(self.began.elapsed());
                    self.speaker.handle(now, Event::Received(conn, bytes));
                    self.carry_out();
                    if count == self.input.len() {
                        break;
                    }
                }
            }
        }
        if let Some(connection) = self.connections.get(&conn) {
            connection.come_again();
        }
    }

    fn closed(&mut self, conn: ConnId, words: Option<Arc<str>>) {
        if let Some(connection) = self.connections.remove(&conn) {
            debug!(remote = %connection.remote(), conn = conn.0, words = words.as_deref(), "connection closed");
            self.tell(Event::Closed(conn, words));
        }
    }

    /// The speaker wants it closed: the last words go out first.
    pub(crate) fn close(&mut self, conn: ConnId) {
        // Asked for also where nobody is left to hear them, so that the speaker keeps none.
        let words = self.last_words(conn);
        let Some(mut connection) = self.connections.remove(&conn) else { return };
        debug!(remote = %connection.remote(), conn = conn.0, "closing connection");
        if connection.broken.is_some() {
            return;
        }
        // At once, as far as the kernel takes it; the rest within the time that is given.
        let waits = connection.unsent() > 0;
        if !waits && connection.write(&words).is_err() {
            return;
        }
        let (stream, kept, seat) = connection.into_parts();
        let rest = if waits { [&*kept, &*words].concat().into() } else { kept };
        self.tasks.spawn(dial::linger(stream, rest, seat));
    }

    fn last_words(&mut self, conn: ConnId) -> BytesMut {
        let mut words = BytesMut::new();
        while words.len() < LAST_WORDS {
            self.output.clear();
            self.speaker.transmit(conn, &mut self.output);
            if self.output.is_empty() {
                break;
            }
            words.extend_from_slice(&self.output);
        }
        words
    }
}
