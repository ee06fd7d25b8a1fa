//! A partner made of bytes: it says what a test wants, and nothing by itself. RFC 4271 §4, written
//! out by hand so that no codec of ours has a say in it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::speakers::{LONG, Speaker, asn, loopback};

pub(crate) const OPEN: u8 = 1;
pub(crate) const UPDATE: u8 = 2;
pub(crate) const NOTIFICATION: u8 = 3;
pub(crate) const KEEPALIVE: u8 = 4;

/// A connection from 127.0.0.`number`, as AS 65000 + `number`.
pub(crate) struct Partner {
    pub(crate) stream: TcpStream,
    number: u8,
}

impl Partner {
    pub(crate) async fn connect(number: u8, to: SocketAddr) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_nodelay(true)?;
        socket.bind(SocketAddr::new(loopback(number), 0))?;
        Ok(Self { stream: socket.connect(to).await?, number })
    }

    /// The same with little room for what it is told and does not read.
    pub(crate) async fn connect_narrow(number: u8, to: SocketAddr) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4096)?;
        socket.bind(SocketAddr::new(loopback(number), 0))?;
        Ok(Self { stream: socket.connect(to).await?, number })
    }

    /// Connects and comes to Established.
    pub(crate) async fn establish(number: u8, to: &mut Speaker) -> Self {
        let partner = Self::connect(number, to.address()).await.unwrap();
        partner.come_up(to).await
    }

    /// Comes to Established.
    pub(crate) async fn come_up(self, to: &mut Speaker) -> Self {
        let number = self.number;
        let mut partner = self;
        partner.say(&partner.open()).await;
        assert_eq!(partner.hear().await.unwrap().0, OPEN);
        partner.say(&keepalive()).await;
        to.up(&format!("peer-{number}")).await;
        partner
    }

    /// An OPEN with both families, four-octet AS numbers and extended messages.
    pub(crate) fn open(&self) -> Vec<u8> {
        let asn = asn(self.number);
        let mut capabilities = vec![1, 4, 0, 1, 0, 1, 1, 4, 0, 2, 0, 1, 6, 0, 65, 4];
        capabilities.extend(asn.to_be_bytes());
        let mut body = vec![4];
        body.extend(u16::try_from(asn).unwrap().to_be_bytes());
        body.extend(90_u16.to_be_bytes());
        body.extend(Ipv4Addr::new(10, 0, 0, self.number).octets());
        let length = u8::try_from(capabilities.len()).unwrap();
        body.extend([length + 2, 2, length]);
        body.extend(capabilities);
        message(OPEN, &body)
    }

    /// An UPDATE that announces IPv4 prefixes of 24 bits.
    pub(crate) fn announce(&self, prefixes: &[[u8; 3]]) -> Vec<u8> {
        self.announce_with(prefixes, &[])
    }

    /// The same with more attributes.
    pub(crate) fn announce_with(&self, prefixes: &[[u8; 3]], more: &[u8]) -> Vec<u8> {
        let mut attributes = vec![0x40, 1, 1, 0, 0x40, 2, 6, 2, 1];
        attributes.extend(asn(self.number).to_be_bytes());
        attributes.extend([0x40, 3, 4, 10, 0, 0, self.number]);
        attributes.extend(more);
        let mut body = vec![0, 0];
        body.extend(u16::try_from(attributes.len()).unwrap().to_be_bytes());
        body.extend(attributes);
        for [a, b, c] in prefixes {
            body.extend([24, *a, *b, *c]);
        }
        message(UPDATE, &body)
    }

    /// An UPDATE of exactly `length` octets that announces one prefix: the rest is an attribute that
    /// nobody knows (optional, transitive, extended length, code 200).
    pub(crate) fn announce_of(&self, length: usize, prefix: [u8; 3]) -> Vec<u8> {
        let filler = length - self.announce(&[prefix]).len() - 4;
        let mut unknown = vec![0xD0, 200];
        unknown.extend(u16::try_from(filler).unwrap().to_be_bytes());
        unknown.resize(4 + filler, 0xAB);
        let update = self.announce_with(&[prefix], &unknown);
        assert_eq!(update.len(), length);
        update
    }

    pub(crate) async fn say(&mut self, bytes: &[u8]) {
        timeout(LONG, self.stream.write_all(bytes)).await.expect("nobody reads").unwrap();
    }

    /// The next message: its type and its body. An error when the connection ends.
    pub(crate) async fn hear(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let read = async {
            let mut header = [0; 19];
            self.stream.read_exact(&mut header).await?;
            assert_eq!(header[..16], [0xFF; 16]);
            let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
            let mut body = vec![0; length - 19];
            self.stream.read_exact(&mut body).await?;
            Ok((header[18], body))
        };
        timeout(LONG, read).await.expect("silence")
    }

    /// Reads until a message of this type comes.
    pub(crate) async fn hear_a(&mut self, kind: u8) -> io::Result<Vec<u8>> {
        loop {
            let (heard, body) = self.hear().await?;
            if heard == kind {
                return Ok(body);
            }
        }
    }

    /// Reads until the other side ends the connection; whether a NOTIFICATION came before.
    pub(crate) async fn end(&mut self) -> Option<Vec<u8>> {
        let mut words = None;
        while let Ok((kind, body)) = self.hear().await {
            if kind == NOTIFICATION {
                words = Some(body);
            }
        }
        words
    }
}

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xFF; 16];
    bytes.extend(u16::try_from(body.len() + 19).unwrap().to_be_bytes());
    bytes.push(kind);
    bytes.extend(body);
    bytes
}

pub(crate) fn keepalive() -> Vec<u8> {
    message(KEEPALIVE, &[])
}
