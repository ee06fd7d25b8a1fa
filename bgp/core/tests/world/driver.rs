//! What a driver does: dials, sockets with limits, bytes both ways.

use std::net::SocketAddr;

use bytes::BytesMut;
use flock_bgp::{Action, ConnId, Event, Refusal};

use super::{Happening, Lane, Pipe, World};

impl World {
    pub(crate) fn obey(&mut self, node: usize) {
        while let Some(action) = self.nodes[node].speaker.poll() {
            match action {
                Action::Dial { conn, remote, .. } => {
                    let life = self.nodes[node].life;
                    let delay = self.delay();
                    let conn = conn.0;
                    self.schedule(delay, Happening::DialEnds { node, life, conn, remote });
                }
                Action::Admit { remote, .. } => self.nodes[node].admitted.push(remote),
                Action::Expel { remote } => self.nodes[node].admitted.retain(|a| *a != remote),
                Action::Wake(conn) => self.pump(node, conn),
                Action::Close(conn) => self.close(node, conn),
                Action::Notice(notice) => {
                    let now = self.now;
                    self.nodes[node].notices.push((now, notice));
                }
            }
        }
        let node = &mut self.nodes[node];
        while let Some(change) = node.speaker.poll_route() {
            if change.next_hops.is_empty() {
                node.kernel.remove(&change.net.to_string());
            } else {
                node.kernel.insert(change.net.to_string(), change);
            }
        }
    }

    pub(crate) fn happen(&mut self, what: Happening) {
        match what {
            Happening::DialEnds { node, life, conn, remote } => {
                if self.nodes[node].life == life && !self.nodes[node].dead {
                    self.dial_ends(node, ConnId(conn), remote);
                }
            }
            Happening::Deliver { pipe, lane } => self.deliver(pipe, lane),
        }
    }

    fn dial_ends(&mut self, node: usize, conn: ConnId, remote: SocketAddr) {
        let from = self.nodes[node].address;
        let other = self
            .nodes
            .iter()
            .position(|n| n.address == remote.ip() && !n.dead && n.admitted.contains(&from));
        let fails = self.faults.failed_dials;
        let Some(other) = other.filter(|_| !self.chance(fails)) else {
            let what = "Connection refused".into();
            return self.tell(node, Event::Refused(conn, Refusal { what }));
        };
        let accepted = ConnId(self.nodes[other].next_accept);
        self.nodes[other].next_accept += 2;
        let (cuts, within) = (self.faults.cuts, self.faults.cut_within);
        let cut = self.chance(cuts).then(|| self.pick(within));
        let lives = (self.nodes[node].life, self.nodes[other].life);
        self.pipes.push(Pipe {
            ends: [(node, lives.0, conn), (other, lives.1, accepted)],
            lanes: [Lane::default(), Lane::default()],
            up: [true, true],
            cut,
            gone: false,
        });
        let near = SocketAddr::new(from, 40_000);
        self.tell(other, Event::Accepted(accepted, remote, near));
        self.tell(node, Event::Dialled(conn, near, remote));
    }

    fn end_of(&self, node: usize, conn: ConnId) -> Option<(usize, usize)> {
        let life = self.nodes[node].life;
        let is = |pipe: &Pipe, end: usize| pipe.ends[end] == (node, life, conn);
        self.pipes
            .iter()
            .enumerate()
            .rev()
            .find_map(|(at, pipe)| (0..2).find(|end| is(pipe, *end)).map(|end| (at, end)))
    }

    /// Takes what the speaker has for a connection, as far as the socket has room.
    fn pump(&mut self, node: usize, conn: ConnId) {
        let Some((pipe, end)) = self.end_of(node, conn) else { return };
        if self.pipes[pipe].gone || !self.pipes[pipe].up[end] {
            return;
        }
        let limit = if self.faults.socket == 0 { usize::MAX } else { self.faults.socket };
        loop {
            if self.pipes[pipe].lanes[end].bytes.len() >= limit {
                return self.move_on(pipe, end);
            }
            let mut out = BytesMut::new();
            self.nodes[node].speaker.transmit(conn, &mut out);
            if out.is_empty() {
                return self.move_on(pipe, end);
            }
            self.pipes[pipe].lanes[end].log.extend(&out);
            self.pipes[pipe].lanes[end].bytes.extend(&out);
        }
    }

    fn close(&mut self, node: usize, conn: ConnId) {
        let Some((pipe, end)) = self.end_of(node, conn) else { return };
        let mut out = BytesMut::new();
        self.nodes[node].speaker.transmit(conn, &mut out);
        let pipe_ref = &mut self.pipes[pipe];
        pipe_ref.up[end] = false;
        pipe_ref.lanes[end].log.extend(&out);
        pipe_ref.lanes[end].bytes.extend(&out);
        pipe_ref.lanes[end].closing = true;
        self.move_on(pipe, end);
    }

    pub(crate) fn move_on(&mut self, pipe: usize, lane: usize) {
        let it = &mut self.pipes[pipe].lanes[lane];
        if !it.moving && (!it.bytes.is_empty() || it.closing) {
            it.moving = true;
            let delay = self.delay();
            self.schedule(delay, Happening::Deliver { pipe, lane });
        }
    }

    fn deliver(&mut self, pipe: usize, lane: usize) {
        let piece = self.faults.piece;
        let piece = if piece == 0 { usize::MAX } else { 1 + self.pick(piece) };
        let it = &mut self.pipes[pipe];
        it.lanes[lane].moving = false;
        if it.gone {
            return;
        }
        let mut count = it.lanes[lane].bytes.len().min(piece);
        let mut cut = false;
        if let Some(left) = &mut it.cut {
            cut = count >= *left;
            count = count.min(*left);
            *left -= count;
        }
        let bytes: Vec<u8> = it.lanes[lane].bytes.drain(..count).collect();
        let ((sender, sent_as), (receiver, received_as)) = self.both(pipe, lane);
        if !bytes.is_empty() && self.alive(pipe, 1 - lane) {
            self.tell(receiver, Event::Received(received_as, &bytes));
        }
        if cut {
            return self.cut(pipe);
        }
        if self.alive(pipe, lane) && !bytes.is_empty() {
            self.tell(sender, Event::Sent(sent_as));
            self.pump(sender, sent_as);
        }
        let it = &self.pipes[pipe].lanes[lane];
        if it.bytes.is_empty() && it.closing {
            self.pipes[pipe].gone = true;
            if self.alive(pipe, 1 - lane) {
                self.tell(receiver, Event::Closed(received_as, None));
            }
        } else {
            self.move_on(pipe, lane);
        }
    }

    /// Both ends hear that the connection is gone.
    pub(crate) fn cut(&mut self, pipe: usize) {
        self.pipes[pipe].gone = true;
        let (one, other) = self.both(pipe, 0);
        for (end, (node, conn)) in [(0, one), (1, other)] {
            if self.alive(pipe, end) {
                self.pipes[pipe].up[end] = false;
                self.tell(node, Event::Closed(conn, Some("Connection reset by peer".into())));
            }
        }
    }

    /// This end of the connection is open, and its process lives.
    fn alive(&self, pipe: usize, end: usize) -> bool {
        let (node, life, _) = self.pipes[pipe].ends[end];
        self.pipes[pipe].up[end] && self.nodes[node].life == life && !self.nodes[node].dead
    }

    fn both(&self, pipe: usize, lane: usize) -> ((usize, ConnId), (usize, ConnId)) {
        let [a, b] = self.pipes[pipe].ends;
        let ends = [(a.0, a.2), (b.0, b.2)];
        (ends[lane], ends[1 - lane])
    }
}
