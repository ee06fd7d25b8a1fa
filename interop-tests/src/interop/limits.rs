//! What a router cannot do, and why. A cell that is listed here is not played.

use crate::router::Brand;

const NO_FIB: &str = "the portable OpenBGPD has no kernel routes on Linux";
const ZEBRA: &str = "GoBGP leaves kernel routes to zebra";
const ONE_GOBGP: &str = "GoBGP takes the first connection and closes every other";
const ONE_OPENBGPD: &str = "OpenBGPD takes the first connection and closes every other";
const ONE_EXABGP: &str = "ExaBGP drops the connection that it dialled when another comes in";
const ALWAYS_FOUR: &str = "four-byte AS numbers cannot be switched off alone";
const NO_ROLES: &str = "this version does not know RFC 9234";
const NO_KERNEL: &str = "ExaBGP never touches the kernel";

/// Router, cell, reason.
pub const LIMITS: &[(Brand, &str, &str)] = &[
    (Brand::Gobgp, "announce: their kernel", ZEBRA),
    (Brand::Gobgp, "withdraw: their kernel", ZEBRA),
    (Brand::Gobgp, "IPv4 over IPv6 next hop: kernel", ZEBRA),
    (Brand::Gobgp, "our restart: their kernel", ZEBRA),
    (Brand::Openbgpd, "announce: their kernel", NO_FIB),
    (Brand::Openbgpd, "withdraw: their kernel", NO_FIB),
    (Brand::Openbgpd, "IPv4 over IPv6 next hop: kernel", NO_FIB),
    (Brand::Openbgpd, "our restart: their kernel", NO_FIB),
    (Brand::Exabgp, "announce: their kernel", NO_KERNEL),
    (Brand::Exabgp, "withdraw: their kernel", NO_KERNEL),
    (Brand::Exabgp, "IPv4 over IPv6 next hop: kernel", NO_KERNEL),
    (Brand::Exabgp, "our restart: their kernel", NO_KERNEL),
    (Brand::Gobgp, "collision, our identifier lower", ONE_GOBGP),
    (Brand::Gobgp, "collision, our identifier higher", ONE_GOBGP),
    (Brand::Gobgp, "collision with a session", ONE_GOBGP),
    (Brand::Openbgpd, "collision with a session", ONE_OPENBGPD),
    (
        Brand::Frr,
        "collision with a session",
        "FRR settles it at the first OPEN, before there is a session",
    ),
    (Brand::Openbgpd, "collision, our identifier lower", ONE_OPENBGPD),
    (Brand::Openbgpd, "collision, our identifier higher", ONE_OPENBGPD),
    (Brand::Exabgp, "collision, our identifier lower", ONE_EXABGP),
    (Brand::Exabgp, "collision, our identifier higher", ONE_EXABGP),
    (Brand::Exabgp, "collision with a session", ONE_EXABGP),
    (Brand::Gobgp, "UPDATE over 4096 bytes, by us", "GoBGP 3.10 does not offer RFC 8654"),
    (Brand::Gobgp, "UPDATE over 4096 bytes, by them", "GoBGP 3.10 does not offer RFC 8654"),
    (Brand::Openbgpd, "UPDATE over 4096 bytes, by us", "OpenBGPD 7.7 does not offer RFC 8654"),
    (Brand::Openbgpd, "UPDATE over 4096 bytes, by them", "OpenBGPD 7.7 does not offer RFC 8654"),
    (
        Brand::Frr,
        "UPDATE over 4096 bytes, by them",
        "FRR takes no line that is long enough to configure such a route",
    ),
    (Brand::Frr, "two-byte session: AS path seen as sent", ALWAYS_FOUR),
    (Brand::Frr, "two-byte session: chosen by us", ALWAYS_FOUR),
    (Brand::Gobgp, "two-byte session: AS path seen as sent", ALWAYS_FOUR),
    (Brand::Gobgp, "two-byte session: chosen by us", ALWAYS_FOUR),
    (Brand::Gobgp, "roles agree", NO_ROLES),
    (Brand::Gobgp, "roles disagree", NO_ROLES),
    (Brand::Exabgp, "roles agree", NO_ROLES),
    (Brand::Exabgp, "roles disagree", NO_ROLES),
    (Brand::Openbgpd, "IPv4 over IPv6 next hop", "OpenBGPD 7.7 does not offer RFC 8950"),
    (
        Brand::Gobgp,
        "refresh: they ask us",
        "GoBGP keeps what it received and never sends ROUTE-REFRESH",
    ),
    (
        Brand::Exabgp,
        "refresh: we ask them",
        "ExaBGP 4.2 ends the session with a TypeError of its own when enhanced refresh is agreed",
    ),
    (
        Brand::Openbgpd,
        "refresh: we ask them",
        "OpenBGPD 7.7 refuses every ROUTE-REFRESH: \"AID IPv4 unicast not negotiated\"",
    ),
    (
        Brand::Openbgpd,
        "learn: IPv6 over an IPv4 session",
        "OpenBGPD 7.7 on Linux gives such routes the next hop ::1",
    ),
    (
        Brand::Exabgp,
        "shutdown by us, with text",
        "ExaBGP 4.2 trips over any text under Python 3 (a TypeError) and answers with an error",
    ),
    (
        Brand::Exabgp,
        "GTSM: they drop what is too far",
        "Python has no IP_MINTTL, so ExaBGP does not look at the TTL that it gets",
    ),
    (Brand::Exabgp, "shutdown by them, with text", "ExaBGP 4.2 has no words for a text"),
    (Brand::Exabgp, "max-prefix: their limit", "ExaBGP has no limit on prefixes"),
    (Brand::Exabgp, "our restart: their table", "ExaBGP keeps no table of what it learned"),
    (Brand::Exabgp, "our restart: by farewell", "ExaBGP keeps no table of what it learned"),
    (Brand::Exabgp, "our restart: swept", "ExaBGP keeps no table of what it learned"),
    (
        Brand::Openbgpd,
        "their restart: we keep",
        "OpenBGPD's restart capability is for End-of-RIB only: it never keeps forwarding",
    ),
    (
        Brand::Openbgpd,
        "their restart: confirmed",
        "OpenBGPD's restart capability is for End-of-RIB only: it never keeps forwarding",
    ),
];

/// Why a router cannot do a cell, if so.
pub fn reason(brand: Brand, cell: &str) -> Option<&'static str> {
    let listed = LIMITS.iter().find(|(there, name, _)| *there == brand && *name == cell);
    listed.map(|(_, _, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interop::GROUPS;

    #[test]
    fn every_limit_is_about_a_cell() {
        for (_, cell, _) in LIMITS {
            let known = GROUPS.iter().any(|group| group.cells.contains(cell));
            assert!(known, "{cell} is no cell");
        }
    }

    #[test]
    fn no_cell_is_in_two_groups() {
        let mut cells: Vec<_> = GROUPS.iter().flat_map(|group| group.cells).collect();
        let count = cells.len();
        cells.sort();
        cells.dedup();
        assert_eq!(cells.len(), count);
    }
}
