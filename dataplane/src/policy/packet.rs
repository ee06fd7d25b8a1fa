//! The beginning of a packet: who sends what to whom. Pure, and total.
//!
//! Decides that a packet is told of as far as it can be read: a port that is
//! not there, or in another fragment, is none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// What a packet says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Headers {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) port: Option<u16>,
}

/// Reads an IP packet, or the beginning of one; `None` where it is none.
pub(super) fn read(bytes: &[u8]) -> Option<Headers> {
    match bytes.first()? >> 4 {
        4 => read4(bytes),
        6 => read6(bytes),
        _ => None,
    }
}

fn read4(bytes: &[u8]) -> Option<Headers> {
    let header = bytes.first_chunk::<20>()?;
    let [first, _, _, _, _, _, high, low, _, protocol, _, _, addresses @ ..] = header;
    let [a, b, c, d, e, f, g, h] = *addresses;
    let is_first_fragment = u16::from_be_bytes([*high, *low]) & 0x1fff == 0;
    let length = usize::from(first & 0xf) * 4;
    let rest = bytes.get(length..).filter(|_| is_first_fragment && length >= 20);
    Some(Headers {
        source: Ipv4Addr::new(a, b, c, d).into(),
        destination: Ipv4Addr::new(e, f, g, h).into(),
        protocol: *protocol,
        port: rest.and_then(|rest| port(*protocol, rest)),
    })
}

fn read6(bytes: &[u8]) -> Option<Headers> {
    let (header, rest) = bytes.split_first_chunk::<40>()?;
    let source = header.get(8..)?.first_chunk::<16>()?;
    let destination = header.get(24..)?.first_chunk::<16>()?;
    let (protocol, rest) = behind_extensions(*header.get(6)?, rest);
    Some(Headers {
        source: Ipv6Addr::from(*source).into(),
        destination: Ipv6Addr::from(*destination).into(),
        protocol,
        port: rest.and_then(|rest| port(protocol, rest)),
    })
}

/// The protocol behind all extension headers that are there whole, and what is
/// behind them: nothing where that is in another fragment.
fn behind_extensions(mut protocol: u8, mut rest: &[u8]) -> (u8, Option<&[u8]>) {
    loop {
        let Some([next, length, high, low, ..]) = rest.first_chunk::<8>() else {
            return (protocol, Some(rest));
        };
        let length = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => (usize::from(*length) + 1) * 8,
            AUTHENTICATION => (usize::from(*length) + 2) * 4,
            FRAGMENT if u16::from_be_bytes([*high, *low]) & !7 != 0 => return (*next, None),
            FRAGMENT => 8,
            _ => return (protocol, Some(rest)),
        };
        match rest.get(length..) {
            Some(behind) => (protocol, rest) = (*next, behind),
            None => return (protocol, None),
        }
    }
}

fn port(protocol: u8, bytes: &[u8]) -> Option<u16> {
    match (protocol, bytes) {
        (TCP | UDP | SCTP, [_, _, high, low, ..]) => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip4(protocol: u8, fragment: u16, options: usize, payload: &[u8]) -> Vec<u8> {
        let words = u8::try_from(5 + options).unwrap();
        let mut bytes = vec![0x40 | words, 0, 0, 0, 0, 0];
        bytes.extend(fragment.to_be_bytes());
        bytes.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.resize(20 + options * 4, 0);
        bytes.extend(payload);
        bytes
    }

    fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        bytes.extend(Ipv6Addr::LOCALHOST.octets());
        bytes.extend("2001:db8::2".parse::<Ipv6Addr>().unwrap().octets());
        bytes.extend(payload);
        bytes
    }

    /// From port 1 to port 80.
    const PORTS: [u8; 4] = [0, 1, 0, 80];

    fn found(bytes: &[u8]) -> (u8, Option<u16>) {
        let headers = read(bytes).unwrap();
        (headers.protocol, headers.port)
    }

    #[test]
    fn headers_are_read() {
        let headers = read(&ip4(UDP, 0x4000, 0, &PORTS)).unwrap();
        let expected = Headers {
            source: "10.0.0.1".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            protocol: UDP,
            port: Some(80),
        };
        assert_eq!(headers, expected);
        let headers = read(&ip6(TCP, &PORTS)).unwrap();
        let expected = Headers {
            source: "::1".parse().unwrap(),
            destination: "2001:db8::2".parse().unwrap(),
            protocol: TCP,
            port: Some(80),
        };
        assert_eq!(headers, expected);
        assert_eq!(found(&ip4(SCTP, 0x2000, 3, &PORTS)), (SCTP, Some(80)));
    }

    #[test]
    fn where_there_is_no_port_there_is_none() {
        assert_eq!(found(&ip4(1, 0, 0, &PORTS)), (1, None));
        assert_eq!(found(&ip4(UDP, 7, 0, &PORTS)), (UDP, None));
        assert_eq!(found(&ip6(58, &PORTS)), (58, None));
        // A header that is said to be shorter than it can be.
        let mut bytes = ip4(UDP, 0, 0, &PORTS);
        bytes[0] = 0x41;
        assert_eq!(found(&bytes), (UDP, None));
    }

    #[test]
    fn extension_headers_are_passed() {
        let hop = [DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0];
        let options = [ROUTING, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let routing = [AUTHENTICATION, 0, 0, 0, 0, 0, 0, 0];
        let authentication = [FRAGMENT, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let fragment = |offset: u16| {
            let [high, low] = (offset << 3 | 1).to_be_bytes();
            [UDP, 0, high, low, 0, 0, 0, 9]
        };
        let all = |offset| {
            let before = [&hop[..], &options, &routing, &authentication].concat();
            ip6(HOP_BY_HOP, &[before, fragment(offset).to_vec(), PORTS.to_vec()].concat())
        };
        assert_eq!(found(&all(0)), (UDP, Some(80)));
        assert_eq!(found(&all(3)), (UDP, None));
    }

    #[test]
    fn the_beginning_is_enough_for_what_is_in_it() {
        let whole = [
            ip4(UDP, 0, 2, &PORTS),
            ip6(UDP, &PORTS),
            ip6(HOP_BY_HOP, &[&[UDP, 1][..], &[0; 14], &PORTS].concat()),
        ];
        for whole in whole {
            let complete = read(&whole).unwrap();
            for length in 0..whole.len() {
                let Some(part) = read(&whole[..length]) else {
                    assert!(length < 40, "{length}");
                    continue;
                };
                assert_eq!(
                    (part.source, part.destination),
                    (complete.source, complete.destination)
                );
                assert_eq!(part.port, None, "{length}");
            }
            assert_eq!(complete.port, Some(80));
        }
        assert_eq!(read(&[0x50; 60]), None);
    }

    proptest::proptest! {
        #[test]
        fn nothing_is_too_strange(mut bytes: Vec<u8>, version in 0u8..16) {
            if let Some(first) = bytes.first_mut() {
                *first = version << 4 | *first & 0xf;
            }
            let _ = read(&bytes);
        }

        #[test]
        fn nor_behind_an_address(next: u8, payload: Vec<u8>) {
            let headers = read(&ip6(next, &payload)).unwrap();
            proptest::prop_assert_eq!(headers.destination, "2001:db8::2".parse::<IpAddr>().unwrap());
        }
    }
}
