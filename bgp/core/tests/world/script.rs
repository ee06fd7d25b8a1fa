//! A peer played by hand: the test says each message, and reads each answer.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use flock_bgp::{Action, ConnId, Event, Family, Notice, Now, PeerConfig, Speaker, SpeakerConfig};
use flock_bgp_wire::{Capability, Context, Message, Open, decode, encode, frame};

/// One speaker and its hand-played peer of AS 65002 at 10.0.0.2.
pub(crate) struct Script {
    pub(crate) speaker: Speaker,
    pub(crate) now: Now,
    pub(crate) conn: ConnId,
    next: u64,
    /// Connections that the speaker closed.
    pub(crate) closed: Vec<ConnId>,
    pub(crate) dials: Vec<ConnId>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) context: Context,
}

/// A message, so that it outlives its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    Open(Open),
    Update(Vec<u8>),
    EndOfRib(Family),
    Notification(u8, u8, Vec<u8>),
    Keepalive,
    Refresh(u16, flock_bgp_wire::RefreshKind),
}

pub(crate) fn open(capabilities: Vec<Capability>) -> Vec<u8> {
    let open = Open { wire_asn: 65_002, hold_time: 90, id: [10, 0, 0, 2].into(), capabilities };
    written(|out| encode::open(&open, out))
}

pub(crate) fn written(write: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
    let mut out = BytesMut::new();
    write(&mut out);
    out.to_vec()
}

pub(crate) fn keepalive() -> Vec<u8> {
    written(encode::keepalive)
}

/// What a modern peer offers.
pub(crate) fn modern() -> Vec<Capability> {
    vec![
        Capability::Multiprotocol(Family::Ipv4),
        Capability::Multiprotocol(Family::Ipv6),
        Capability::RouteRefresh,
        Capability::EnhancedRouteRefresh,
        Capability::FourOctetAs(65_002),
    ]
}

impl Script {
    pub(crate) fn new(config: SpeakerConfig, peer: PeerConfig) -> Self {
        let mut script = Self {
            speaker: Speaker::new(config),
            now: Now(Duration::from_secs(1)),
            conn: ConnId(0),
            next: 1,
            closed: Vec::new(),
            dials: Vec::new(),
            notices: Vec::new(),
            context: Context { four_octet_as: true, ..Context::default() },
        };
        script.tell(Event::Peers(vec![peer]));
        script
    }

    pub(crate) fn tell(&mut self, event: Event<'_>) {
        self.speaker.handle(self.now, event);
        while let Some(action) = self.speaker.poll() {
            match action {
                Action::Close(conn) => self.closed.push(conn),
                Action::Dial { conn, .. } => self.dials.push(conn),
                Action::Notice(notice) => self.notices.push(notice),
                Action::Admit { .. } | Action::Expel { .. } | Action::Wake(_) => {}
            }
        }
    }

    /// The peer connects.
    pub(crate) fn connect(&mut self) -> ConnId {
        self.conn = ConnId(self.next);
        self.next += 2;
        let ours: SocketAddr = "10.0.0.1:179".parse().unwrap();
        let theirs: SocketAddr = "10.0.0.2:40000".parse().unwrap();
        self.tell(Event::Accepted(self.conn, ours, theirs));
        self.conn
    }

    /// The peer says this on its last connection.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.tell(Event::Received(self.conn, bytes));
    }

    /// What the speaker says on the last connection.
    pub(crate) fn hear(&mut self) -> Vec<Said> {
        self.hear_on(self.conn)
    }

    pub(crate) fn hear_on(&mut self, conn: ConnId) -> Vec<Said> {
        let mut out = BytesMut::new();
        loop {
            let before = out.len();
            self.speaker.transmit(conn, &mut out);
            if out.len() == before {
                break;
            }
        }
        let mut said = Vec::new();
        let mut rest = &out[..];
        while let Some(length) = frame::length(rest, true).unwrap() {
            let (message, behind) = rest.split_at(length);
            rest = behind;
            said.push(match decode(message, &self.context).unwrap() {
                Message::Open(open) => Said::Open(open),
                Message::Keepalive => Said::Keepalive,
                Message::Notification(n) => Said::Notification(n.code, n.subcode, n.data.to_vec()),
                Message::Refresh(refresh) => Said::Refresh(refresh.afi, refresh.kind),
                Message::Update(update) => match update.end_of_rib {
                    Some(family) => Said::EndOfRib(family),
                    None => Said::Update(message.to_vec()),
                },
            });
        }
        assert!(rest.is_empty(), "whole messages only");
        said
    }

    /// Time passes, second by second.
    pub(crate) fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now = Now(self.now.0 + Duration::from_secs(1));
            self.tell(Event::Tick);
        }
    }

    /// Connects and gets as far as Established.
    pub(crate) fn establish(&mut self, capabilities: Vec<Capability>) -> Vec<Said> {
        self.connect();
        self.say(&open(capabilities));
        let mut said = self.hear();
        self.say(&keepalive());
        said.extend(self.hear());
        said
    }
}
