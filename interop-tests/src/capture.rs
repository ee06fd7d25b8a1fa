//! A BGP peer played by hand: a TCP connection to a real router, framed into
//! messages, with whatever bytes the script wants to send.
//!
//! It knows the header (RFC 4271 §4.1) and how to write the few messages that
//! keep a router talking; what the router says is handed over as raw bytes and
//! judged by others. It uses nothing of flock's codec, so that what is captured
//! with it can test the codec.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::netns::Netns;
use crate::wait::{PATIENCE, go_on, until};

/// The port of BGP.
pub const PORT: u16 = 179;

const HEADER: usize = 19;

/// What kind of message it is (RFC 4271 §4.1, RFC 2918).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 1
    Open,
    /// 2
    Update,
    /// 3
    Notification,
    /// 4
    Keepalive,
    /// 5
    Refresh,
    /// Anything else.
    Other(u8),
}

/// One message, header included, as it came from the socket.
#[derive(Clone, PartialEq, Eq)]
pub struct Message(Vec<u8>);

impl Message {
    /// Takes the first whole message off a stream of bytes, if there is one.
    pub fn take(stream: &mut Vec<u8>) -> Result<Option<Self>> {
        let Some(&[high, low]) = stream.get(16..18) else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        ensure!(length >= HEADER, "a message of {length} bytes");
        if stream.len() < length {
            return Ok(None);
        }
        let rest = stream.split_off(length);
        Ok(Some(Self(std::mem::replace(stream, rest))))
    }

    /// All its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// What follows the header.
    pub fn body(&self) -> &[u8] {
        self.0.get(HEADER..).unwrap_or_default()
    }

    /// What the header says it is.
    pub fn kind(&self) -> Kind {
        match self.0.get(HEADER - 1).copied().unwrap_or(0) {
            1 => Kind::Open,
            2 => Kind::Update,
            3 => Kind::Notification,
            4 => Kind::Keepalive,
            5 => Kind::Refresh,
            other => Kind::Other(other),
        }
    }

    /// Whether these bytes are somewhere in it.
    pub fn contains(&self, bytes: &[u8]) -> bool {
        self.0.windows(bytes.len()).any(|window| window == bytes)
    }

    /// The capabilities of an OPEN: code and value (RFC 5492).
    pub fn capabilities(&self) -> Vec<(u8, Vec<u8>)> {
        let mut all = Vec::new();
        for (kind, parameter) in triplets(self.body().get(10..).unwrap_or_default()) {
            if kind == 2 {
                all.extend(triplets(parameter).map(|(code, value)| (code, value.to_vec())));
            }
        }
        all
    }

    /// Whether it is an UPDATE that names no route: End-of-RIB (RFC 4724 §2).
    pub fn is_end_of_rib(&self) -> bool {
        self.kind() == Kind::Update
            && (self.body() == [0, 0, 0, 0]
                // One attribute, MP_UNREACH_NLRI, with a family and nothing else.
                || matches!(self.body(), [0, 0, 0, 6, _, 15, 3, _, _, _])
                || matches!(self.body(), [0, 0, 0, 7, _, 15, 0, 3, _, _, _]))
    }

    /// The bytes as digits, sixteen bytes a row.
    pub fn hex(&self) -> String {
        let row = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        self.0.chunks(16).map(row).collect::<Vec<_>>().join("\n")
    }
}

/// Type, length, value, as far as they are whole.
fn triplets(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (&[kind, length], rest) = bytes.split_first_chunk::<2>()?;
        let (value, rest) = rest.split_at_checked(usize::from(length))?;
        bytes = rest;
        Some((kind, value))
    })
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind(), self.hex().replace('\n', ""))
    }
}

/// A connection that is spoken by hand.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Wire {
    /// Dials a router from inside a namespace, again and again until it listens.
    pub fn dial(netns: &Netns, router: IpAddr) -> Result<Self> {
        let stream = netns.within(|| {
            until(&format!("{router} to accept"), PATIENCE, || {
                Ok(TcpStream::connect(SocketAddr::new(router, PORT))?)
            })
        })?;
        Self::new(stream)
    }

    /// Awaits that a router dials this address.
    pub fn accept(netns: &Netns, here: IpAddr) -> Result<Self> {
        let stream = netns.within(|| {
            let listener = TcpListener::bind(SocketAddr::new(here, PORT))?;
            listener.set_nonblocking(true)?;
            until(&format!("a connection to {here}"), PATIENCE, || Ok(listener.accept()?.0))
        })?;
        stream.set_nonblocking(false)?;
        Self::new(stream)
    }

    fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_millis(50)))?;
        Ok(Self { stream, unread: Vec::new() })
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).context("sending to the router")
    }

    /// The next message.
    pub fn receive(&mut self) -> Result<Message> {
        self.receive_within(PATIENCE)?.context("the router said nothing")
    }

    /// The next message, or none when the router says nothing for so long.
    pub fn receive_within(&mut self, limit: Duration) -> Result<Option<Message>> {
        let deadline = Instant::now() + limit;
        loop {
            go_on()?;
            if let Some(message) = Message::take(&mut self.unread)? {
                return Ok(Some(message));
            }
            let mut buffer = [0; 65_536];
            match self.stream.read(&mut buffer) {
                Ok(0) => bail!("the router closed the connection"),
                Ok(count) => self.unread.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if Instant::now() >= deadline {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error).context("reading from the router"),
            }
        }
    }

    /// The next message that pleases; KEEPALIVEs are answered, all others are
    /// put into `passed`.
    pub fn receive_until(
        &mut self,
        passed: &mut Vec<Message>,
        pleases: impl Fn(&Message) -> bool,
    ) -> Result<Message> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let message = self.receive()?;
            if pleases(&message) {
                return Ok(message);
            }
            if message.kind() == Kind::Keepalive {
                // Its last words may be on their way already.
                let _closed_meanwhile = self.send(&keepalive());
            } else {
                passed.push(message);
            }
        }
        bail!("the awaited message did not come; others did: {passed:?}")
    }

    /// Opens a session: OPEN and KEEPALIVE both ways. Returns the router's two.
    pub fn establish(&mut self, open: &[u8]) -> Result<(Message, Message)> {
        self.send(open)?;
        let theirs = self.receive()?;
        ensure!(theirs.kind() == Kind::Open, "instead of OPEN: {theirs:?}");
        self.send(&keepalive())?;
        let alive = self.receive()?;
        ensure!(alive.kind() == Kind::Keepalive, "instead of KEEPALIVE: {alive:?}");
        Ok((theirs, alive))
    }
}

/// Puts a header in front of a body.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut all = vec![0xff; 16];
    let length = u16::try_from(HEADER + body.len()).unwrap_or(u16::MAX);
    all.extend_from_slice(&length.to_be_bytes());
    all.push(kind);
    all.extend_from_slice(body);
    all
}

/// A KEEPALIVE.
pub fn keepalive() -> Vec<u8> {
    message(4, &[])
}

/// A ROUTE-REFRESH for a family (1 or 2) with a subtype (RFC 7313).
pub fn refresh(afi: u8, subtype: u8) -> Vec<u8> {
    message(5, &[0, afi, subtype, 1])
}

/// A NOTIFICATION.
pub fn notification(code: u8, subcode: u8) -> Vec<u8> {
    message(3, &[code, subcode])
}

/// An OPEN in the making.
#[derive(Debug, Clone)]
pub struct Open {
    /// The version: 4.
    pub version: u8,
    /// The AS number; AS_TRANS stands in the old field when it has four bytes.
    pub asn: u32,
    /// Seconds.
    pub hold_time: u16,
    /// The BGP identifier.
    pub router_id: Ipv4Addr,
    /// Whether the four-byte AS capability is sent (RFC 6793).
    pub as4: bool,
    /// Further capabilities: code and value.
    pub capabilities: Vec<(u8, Vec<u8>)>,
}

impl Open {
    /// Both families, refresh, enhanced refresh and four-byte AS numbers.
    pub fn new(asn: u32, router_id: Ipv4Addr) -> Self {
        let capabilities =
            vec![(1, vec![0, 1, 0, 1]), (1, vec![0, 2, 0, 1]), (2, vec![]), (70, vec![])];
        Self { version: 4, asn, hold_time: 90, router_id, as4: true, capabilities }
    }

    /// With one more capability.
    pub fn with(mut self, code: u8, value: &[u8]) -> Self {
        self.capabilities.push((code, value.to_vec()));
        self
    }

    /// The whole message.
    pub fn bytes(&self) -> Vec<u8> {
        let mut capabilities = self.capabilities.clone();
        if self.as4 {
            capabilities.push((65, self.asn.to_be_bytes().to_vec()));
        }
        let mut list = Vec::new();
        for (code, value) in &capabilities {
            list.extend([*code, byte(value.len())]);
            list.extend_from_slice(value);
        }
        let old_asn = u16::try_from(self.asn).unwrap_or(23_456);
        let mut body = vec![self.version];
        body.extend(old_asn.to_be_bytes());
        body.extend(self.hold_time.to_be_bytes());
        body.extend(self.router_id.octets());
        body.extend([byte(list.len() + 2), 2, byte(list.len())]);
        body.extend(list);
        message(1, &body)
    }
}

fn byte(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_rib_is_told_from_other_updates() {
        let update = |body: &[u8]| Message(message(2, body));
        assert!(update(&[0, 0, 0, 0]).is_end_of_rib());
        assert!(update(&[0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1]).is_end_of_rib());
        assert!(update(&[0, 0, 0, 7, 0x90, 15, 0, 3, 0, 2, 1]).is_end_of_rib());
        assert!(!update(&[0, 2, 8, 10, 0, 0]).is_end_of_rib());
        assert!(!Message(keepalive()).is_end_of_rib());
    }

    #[test]
    fn an_open_with_a_large_asn_says_as_trans() {
        let open = Message(Open::new(4_200_000_001, Ipv4Addr::new(10, 0, 0, 1)).bytes());
        assert_eq!(open.kind(), Kind::Open);
        assert_eq!(open.body()[..5], [4, 0x5b, 0xa0, 0, 90]);
        let capabilities = open.capabilities();
        assert!(capabilities.contains(&(65, 4_200_000_001_u32.to_be_bytes().to_vec())));
        assert_eq!(capabilities.len(), 5);
        assert_eq!(usize::from(open.bytes()[17]), open.bytes().len());
    }
}
