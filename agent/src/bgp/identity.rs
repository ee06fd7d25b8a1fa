//! Who we are to our peers where nobody says: a BGP identifier that is the same after every
//! restart, on every node another, and needs no IPv4 address (RFC 6286 §2.1: any number but zero).

use std::net::Ipv4Addr;

/// First octets that a strict router takes for an address of a host (RFC 4271 §6.2): 1 to 223.
const FIRST_OCTETS: u32 = 223;
const LOOPBACK: u8 = 127;

/// The identifier of a node by its name: FNV-1a, so that it does not change with the version.
pub(super) fn router_id(node: &str) -> Ipv4Addr {
    let hash = node
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [_, second, third, fourth] = hash.to_be_bytes();
    let first = u8::try_from(1 + (hash >> 24) % FIRST_OCTETS).unwrap_or(1);
    let first = if first == LOOPBACK { LOOPBACK - 1 } else { first };
    Ipv4Addr::new(first, second, third, fourth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_stable_and_looks_like_a_host() {
        // Known answers: a change would make every node of a cluster another speaker.
        assert_eq!(router_id("node-a").to_string(), "5.195.181.147");
        assert_eq!(router_id("node-b").to_string(), "6.195.183.38");
        for n in 0..20_000 {
            let first = router_id(&format!("node-{n}")).octets()[0];
            assert!((1..=223).contains(&first) && first != 127, "node-{n}: {first}");
        }
    }
}
