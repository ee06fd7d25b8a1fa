//! Packets that no socket of this kernel makes: the first chunk of an SCTP association and its answer.
//! They are whole and true to their checksum, because conntrack looks into them.

/// The chunk that asks for an association.
const INIT: u8 = 1;
/// The chunk that answers it.
const INIT_ACK: u8 = 2;

/// Common header and an INIT chunk without parameters.
const LENGTH: usize = 12 + 20;

/// What an SCTP packet of a probe says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sctp {
    /// Source port, destination port.
    pub(super) ports: (u16, u16),
    /// Whether it is the answer.
    pub(super) answer: bool,
    /// The tag that its sender wants to be called by.
    pub(super) tag: u32,
}

impl Sctp {
    /// The packet behind the IP header. An answer carries the tag that the request asked for.
    pub(super) fn bytes(self, tag_of_peer: u32) -> [u8; LENGTH] {
        let verification = if self.answer { tag_of_peer } else { 0 };
        let mut packet = [0; LENGTH];
        let kind = if self.answer { INIT_ACK } else { INIT };
        let parts = [
            &self.ports.0.to_be_bytes()[..],
            &self.ports.1.to_be_bytes(),
            &verification.to_be_bytes(),
            &[0; 4],
            &[kind, 0, 0, 20],
            &self.tag.to_be_bytes(),
            &65536_u32.to_be_bytes(),
            &[0, 1, 0, 1],
            &self.tag.to_be_bytes(),
        ];
        packet.iter_mut().zip(parts.concat()).for_each(|(byte, part)| *byte = part);
        let checksum = crc32c(&packet).to_le_bytes();
        packet.iter_mut().skip(8).zip(checksum).for_each(|(byte, part)| *byte = part);
        packet
    }

    /// Reads what follows an IP header.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (ports, rest) = bytes.split_first_chunk::<4>()?;
        let &[s0, s1, d0, d1] = ports;
        let (chunk, rest) = rest.get(8..)?.split_first_chunk::<4>()?;
        let tag = u32::from_be_bytes(*rest.first_chunk()?);
        let &[kind, ..] = chunk;
        let ports = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
        matches!(kind, INIT | INIT_ACK).then_some(Self { ports, answer: kind == INIT_ACK, tag })
    }
}

/// What follows the header of a raw IPv4 packet; IPv6 sockets leave it out themselves.
pub(super) fn payload(bytes: &[u8], ipv6: bool) -> &[u8] {
    if ipv6 {
        return bytes;
    }
    let words = bytes.first().map_or(0, |first| usize::from(first & 0x0f));
    bytes.get(4 * words..).unwrap_or_default()
}

/// An echo request with a sequence number of no meaning; identifier and checksum are the kernel's.
pub(super) fn echo(ipv6: bool) -> [u8; 12] {
    [if ipv6 { 128 } else { 8 }, 0, 0, 0, 0, 0, 0, 1, b'f', b'l', b'o', b'k']
}

/// CRC-32C, as SCTP has it.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(!0, byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_rfc() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn what_is_written_is_read() {
        let asked = Sctp { ports: (4000, 80), answer: false, tag: 7 };
        assert_eq!(Sctp::read(&asked.bytes(9)), Some(asked));
        let answered = Sctp { ports: (80, 4000), answer: true, tag: 8 };
        assert_eq!(Sctp::read(&answered.bytes(7)), Some(answered));
        assert_eq!(answered.bytes(7)[4..8], 7_u32.to_be_bytes());
        assert_eq!(Sctp::read(&asked.bytes(0)[..10]), None);
        let behind_a_header = [&[0x45][..], &[0; 19], &asked.bytes(0)].concat();
        assert_eq!(Sctp::read(payload(&behind_a_header, false)), Some(asked));
    }
}
