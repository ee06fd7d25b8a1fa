//! What two speakers really said to each other, overheard with tcpdump.
//!
//! tcpdump writes packets to a file; here they become TCP streams (in the order
//! of their sequence numbers, whatever was sent twice counted once) and the
//! streams BGP messages. It has to be there before the connection is made, or
//! the framing is lost.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::binaries::tool;
use crate::capture::{Kind, Message};
use crate::names;
use crate::netns::Netns;
use crate::process::Daemon;
use crate::wait::{PATIENCE, until};

/// A tcpdump that runs.
#[derive(Debug)]
pub struct Sniffer {
    _tcpdump: Daemon,
    dir: TempDir,
}

/// One direction of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Who speaks.
    pub from: SocketAddr,
    /// Who listens.
    pub to: SocketAddr,
    /// What was said, in order.
    pub messages: Vec<Message>,
}

impl Sniffer {
    /// Starts to listen on an interface, and awaits that it does.
    pub fn start(netns: &Netns, ifname: &str) -> Result<Self> {
        let prefix = format!("{}-", names::unique("sniffer"));
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir()?;
        let mut command = netns.command(tool("tcpdump")?)?;
        command.args(["-i", ifname, "-Z", "root", "-n", "-U", "--immediate-mode", "-w"]);
        command.arg(dir.path().join("pcap")).arg("tcp port 179");
        let log = dir.path().join("log");
        let mut tcpdump = Daemon::start("tcpdump", &mut command, &log)?;
        until("tcpdump to listen", PATIENCE, || {
            tcpdump.ensure_alive()?;
            let said = fs::read_to_string(&log)?;
            ensure!(said.contains("listening on"), "it says {said:?}");
            Ok(())
        })?;
        Ok(Self { _tcpdump: tcpdump, dir })
    }

    /// The streams so far, in the order of their first packet.
    pub fn streams(&self) -> Result<Vec<Stream>> {
        streams(&fs::read(self.dir.path().join("pcap"))?)
    }

    /// All that was said by an address so far.
    pub fn said_by(&self, speaker: IpAddr) -> Result<Vec<Message>> {
        let streams = self.streams()?.into_iter().filter(|stream| stream.from.ip() == speaker);
        Ok(streams.flat_map(|stream| stream.messages).collect())
    }

    /// What was heard so far, a line for each stream; for failures.
    pub fn story(&self) -> String {
        let streams = self.streams().unwrap_or_default();
        let lines = streams.iter().map(|stream| {
            let words = stream.messages.iter().map(|message| match message.kind() {
                Kind::Notification => format!("Notification {:?}", message.body()),
                kind => format!("{kind:?}"),
            });
            let words: Vec<_> = words.collect();
            format!("{} -> {}: {}", stream.from, stream.to, words.join(", "))
        });
        format!("--- on the wire\n{}\n---", lines.collect::<Vec<_>>().join("\n"))
    }

    /// Awaits that an address has said something that pleases, beyond the first
    /// `since` messages.
    pub fn await_said(
        &self,
        speaker: IpAddr,
        since: usize,
        what: &str,
        pleases: impl Fn(&Message) -> bool,
    ) -> Result<Message> {
        until(&format!("{what} from {speaker}"), PATIENCE, || {
            let said = self.said_by(speaker)?;
            let later = said.get(since..).unwrap_or_default();
            let found = later.iter().find(|message| pleases(message));
            found.cloned().with_context(|| format!("it said {later:?}"))
        })
    }
}

/// One TCP segment.
struct Segment<'a> {
    from: SocketAddr,
    to: SocketAddr,
    sequence: u32,
    opens: bool,
    payload: &'a [u8],
}

/// Pieces of a stream by their distance from its first byte.
struct Pieces<'a> {
    from: SocketAddr,
    to: SocketAddr,
    first: u32,
    by_offset: BTreeMap<u32, &'a [u8]>,
}

fn streams(file: &[u8]) -> Result<Vec<Stream>> {
    let mut flows: Vec<Pieces<'_>> = Vec::new();
    for segment in packets(file)?.into_iter().filter_map(segment) {
        let same = |flow: &&mut Pieces<'_>| flow.from == segment.from && flow.to == segment.to;
        if segment.opens {
            let first = segment.sequence.wrapping_add(1);
            // A SYN that was sent again opens nothing new.
            if !flows.iter_mut().any(|flow| same(&flow) && flow.first == first) {
                let by_offset = BTreeMap::new();
                flows.push(Pieces { from: segment.from, to: segment.to, first, by_offset });
            }
        } else if let Some(flow) = flows.iter_mut().rev().find(same)
            && !segment.payload.is_empty()
        {
            let offset = segment.sequence.wrapping_sub(flow.first);
            let piece = flow.by_offset.entry(offset).or_default();
            if piece.len() < segment.payload.len() {
                *piece = segment.payload;
            }
        }
    }
    flows.into_iter().map(assemble).collect()
}

fn assemble(flow: Pieces<'_>) -> Result<Stream> {
    let mut bytes: Vec<u8> = Vec::new();
    for (offset, piece) in flow.by_offset {
        let known = bytes.len();
        let Some(overlap) = known.checked_sub(usize::try_from(offset)?) else {
            break; // A gap: the rest has not been heard yet.
        };
        bytes.extend_from_slice(piece.get(overlap..).unwrap_or_default());
    }
    let mut messages = Vec::new();
    while let Some(message) = Message::take(&mut bytes)? {
        messages.push(message);
    }
    Ok(Stream { from: flow.from, to: flow.to, messages })
}

/// The packets of a pcap file, as far as they are whole.
fn packets(file: &[u8]) -> Result<Vec<&[u8]>> {
    let Some((header, mut rest)) = file.split_at_checked(24) else { return Ok(Vec::new()) };
    ensure!(header.starts_with(&0xa1b2_c3d4_u32.to_ne_bytes()), "not a pcap file of this machine");
    let mut all = Vec::new();
    while let Some((record, after)) = rest.split_at_checked(16) {
        let Some(&[a, b, c, d]) = record.get(8..12) else { bail!("a record without a length") };
        let length = usize::try_from(u32::from_ne_bytes([a, b, c, d]))?;
        let Some((packet, after)) = after.split_at_checked(length) else { break };
        all.push(packet);
        rest = after;
    }
    Ok(all)
}

/// Ethernet, then IPv4 or IPv6, then TCP.
fn segment(packet: &[u8]) -> Option<Segment<'_>> {
    let (ethernet, packet) = packet.split_at_checked(14)?;
    let (from, to, tcp): (IpAddr, IpAddr, &[u8]) = match ethernet.get(12..14)? {
        [0x08, 0x00] => {
            let header = usize::from(packet.first()? & 15) * 4;
            let length = usize::from(u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?));
            let from: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
            let to: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            // Short frames are padded, so the packet's own length counts.
            (from.into(), to.into(), packet.get(header..length)?)
        }
        [0x86, 0xdd] => {
            let length = usize::from(u16::from_be_bytes(packet.get(4..6)?.try_into().ok()?));
            let from: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
            let to: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            (from.into(), to.into(), packet.get(40..40 + length)?)
        }
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_be_bytes(tcp.get(at..at + 2)?.try_into().ok()?));
    let header = usize::from(tcp.get(12)? >> 4) * 4;
    Some(Segment {
        from: SocketAddr::new(from, port(0)?),
        to: SocketAddr::new(to, port(2)?),
        sequence: u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?),
        opens: tcp.get(13)? & 2 != 0,
        payload: tcp.get(header..)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{keepalive, refresh};

    fn packet(sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend([0x08, 0x00, 0x45, 0]);
        bytes.extend(u16::try_from(40 + payload.len()).unwrap().to_be_bytes());
        bytes.extend([0; 8]);
        bytes.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        bytes.extend(40_000_u16.to_be_bytes());
        bytes.extend(179_u16.to_be_bytes());
        bytes.extend(sequence.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        bytes.extend(payload);
        bytes.extend([0; 6]); // padding
        bytes
    }

    fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
        let mut file = 0xa1b2_c3d4_u32.to_ne_bytes().to_vec();
        file.extend([0; 20]);
        for packet in packets {
            let length = u32::try_from(packet.len()).unwrap().to_ne_bytes();
            file.extend([0; 8]);
            file.extend(length);
            file.extend(length);
            file.extend(packet);
        }
        file
    }

    #[test]
    fn segments_out_of_order_and_sent_twice_become_messages() {
        let stream = [keepalive(), refresh(1, 0), keepalive()].concat();
        let base = u32::MAX - 10; // The numbers wrap in the middle.
        let at = |offset: usize| base.wrapping_add(1).wrapping_add(u32::try_from(offset).unwrap());
        let file = pcap(&[
            packet(base, 2, &[]),
            packet(base, 2, &[]),
            packet(at(30), 0x18, &stream[30..50]),
            packet(at(0), 0x18, &stream[..30]),
            packet(at(20), 0x18, &stream[20..40]),
            packet(at(50), 0x18, &stream[50..]),
        ]);
        let streams = streams(&file).unwrap();
        assert_eq!(streams.len(), 1);
        let kinds: Vec<_> = streams[0].messages.iter().map(Message::kind).collect();
        assert_eq!(kinds, [Kind::Keepalive, Kind::Refresh, Kind::Keepalive]);
        assert_eq!(streams[0].to.port(), 179);
    }

    #[test]
    fn what_follows_a_gap_is_not_told() {
        let stream = [keepalive(), keepalive()].concat();
        let file = pcap(&[packet(0, 2, &[]), packet(21, 0x18, &stream[20..])]);
        assert!(super::streams(&file).unwrap()[0].messages.is_empty());
    }
}
