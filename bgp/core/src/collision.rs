//! Two connections with one peer: which of them goes on (RFC 4271 §6.8, RFC 6286 §2.3, and
//! RFC 4724 §5 for a peer that comes back before we noticed that it was gone).
//!
//! Asked when a good OPEN came on one of them. Decides; closing is the session's business.

use std::net::Ipv4Addr;

/// How the other connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Other {
    /// There is only an attempt that has not sent OPEN.
    Attempt,
    /// It has sent OPEN and seen none.
    OpenSent,
    OpenConfirm,
    Established(Arrival),
}

/// When the connection with the OPEN began, where the other is Established by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Before that.
    Before,
    /// So soon after that both were dialled at once, else as [`Arrival::Returned`].
    Crossing,
    /// After the other was Established, and graceful restart was agreed on it, or no hold time: the
    /// peer must have lost it.
    Returned,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Both go on.
    Both,
    /// The one with the OPEN goes on; the other is ended with Cease 6/7.
    DropOther,
    /// The one with the OPEN goes on; the other failed without our noticing.
    OtherIsDead,
    /// The one with the OPEN is ended with Cease 6/7.
    DropThis,
}

/// Who speaks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sides {
    pub(crate) our_id: Ipv4Addr,
    pub(crate) our_asn: u32,
    pub(crate) peer_id: Ipv4Addr,
    pub(crate) peer_asn: u32,
}

/// `dialled_by_peer`: the connection with the OPEN is the peer's dial.
pub(crate) fn resolve(sides: Sides, dialled_by_peer: bool, other: Other) -> Verdict {
    // The connection that the higher identifier dialled dominates; equal ones are told apart by the
    // AS number (RFC 6286 §2.3).
    let peer_is_higher = (sides.peer_id, sides.peer_asn) > (sides.our_id, sides.our_asn);
    let dominates = peer_is_higher == dialled_by_peer;
    match other {
        // The peer sent OPEN here, so it has this connection, and nothing of ours on the other:
        // giving the attempt up cannot leave both sides with none.
        Other::Attempt => Verdict::DropOther,
        // RFC 4271 §6.8 lets us look at it, as we know the peer's identifier by now. Dropping the
        // weaker one early is safe; dropping this one is not, the other may never see an OPEN.
        Other::OpenSent if dominates => Verdict::DropOther,
        Other::OpenSent => Verdict::Both,
        Other::OpenConfirm if dominates => Verdict::DropOther,
        // "Unless allowed via configuration", a session stands (RFC 4271 §6.8), whichever dominates:
        // every other speaker does so, and two that choose by different rules lose both.
        Other::OpenConfirm | Other::Established(Arrival::Before) => Verdict::DropThis,
        // The peer keeps the other, too: by its identifier, or as a session that stands. Where this
        // one dominates it may keep either, and its OPEN came here.
        Other::Established(Arrival::Crossing) if !dominates => Verdict::DropThis,
        // RFC 4724 §5. The RFC would have it at the TCP handshake; we wait for a good OPEN, so that
        // a connection that says nothing cannot end a session.
        Other::Established(Arrival::Crossing | Arrival::Returned) => Verdict::OtherIsDead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const HIGH: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 0);

    fn sides(our_id: Ipv4Addr, our_asn: u32, peer_id: Ipv4Addr, peer_asn: u32) -> Sides {
        Sides { our_id, our_asn, peer_id, peer_asn }
    }

    #[test]
    fn table() {
        use Arrival::{Before, Crossing, Returned};
        use Verdict::{Both, DropOther, DropThis, OtherIsDead};
        let we_are_higher = sides(HIGH, 65_001, LOW, 65_002);
        let we_are_lower = sides(LOW, 65_002, HIGH, 65_001);
        let same_id_lower_asn = sides(LOW, 65_001, LOW, 65_002);
        let same_id_higher_asn = sides(LOW, 65_002, LOW, 65_001);
        // The OPEN came on: our dial, the peer's dial.
        let rows = [
            (we_are_higher, Other::Attempt, DropOther, DropOther),
            (we_are_lower, Other::Attempt, DropOther, DropOther),
            (we_are_higher, Other::OpenSent, DropOther, Both),
            (we_are_lower, Other::OpenSent, Both, DropOther),
            (we_are_higher, Other::OpenConfirm, DropOther, DropThis),
            (we_are_lower, Other::OpenConfirm, DropThis, DropOther),
            (same_id_higher_asn, Other::OpenConfirm, DropOther, DropThis),
            (same_id_lower_asn, Other::OpenConfirm, DropThis, DropOther),
            (we_are_higher, Other::Established(Before), DropThis, DropThis),
            (we_are_lower, Other::Established(Before), DropThis, DropThis),
            (we_are_higher, Other::Established(Crossing), OtherIsDead, DropThis),
            (we_are_lower, Other::Established(Crossing), DropThis, OtherIsDead),
            (we_are_higher, Other::Established(Returned), OtherIsDead, OtherIsDead),
            (we_are_lower, Other::Established(Returned), OtherIsDead, OtherIsDead),
        ];
        for (sides, other, on_our_dial, on_their_dial) in rows {
            assert_eq!(resolve(sides, false, other), on_our_dial, "our dial, {other:?}, {sides:?}");
            assert_eq!(resolve(sides, true, other), on_their_dial, "theirs, {other:?}, {sides:?}");
        }
    }

    /// Both sides must keep the same connection, whoever is asked first, or none is left.
    #[test]
    fn both_sides_agree() {
        for (a, b) in [((LOW, 1), (HIGH, 2)), ((HIGH, 1), (LOW, 2)), ((LOW, 1), (LOW, 2))] {
            let at_a = sides(a.0, a.1, b.0, b.1);
            let at_b = sides(b.0, b.1, a.0, a.1);
            // The connection that `a` dialled is ours at a, the peer's at b.
            for a_dialled in [true, false] {
                for other in [Other::OpenConfirm, Other::Established(Arrival::Before)] {
                    assert_eq!(resolve(at_a, !a_dialled, other), resolve(at_b, a_dialled, other),);
                }
            }
        }
    }
}
