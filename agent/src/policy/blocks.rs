//! Address blocks: decides which addresses a list of them means, and how the address space is cut
//! where blocks of several rules overlap, so that each address lies in one piece.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;

/// Addresses from one to another, of one family. In order: by family, then by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Span {
    six: bool,
    first: u128,
    last: u128,
}

impl Span {
    fn of(network: &IpNet) -> Self {
        let (six, first) = number(network.network());
        Self { six, first, last: number(network.broadcast()).1 }
    }

    /// The first and the last of the addresses.
    pub(super) fn ends(&self) -> (IpAddr, IpAddr) {
        (address(self.six, self.first), address(self.six, self.last))
    }

    /// The number behind the last one, where there is one.
    fn behind(&self) -> Option<u128> {
        self.last.checked_add(1)
    }
}

fn number(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(address) => (false, u128::from(address.to_bits())),
        IpAddr::V6(address) => (true, address.to_bits()),
    }
}

fn address(six: bool, number: u128) -> IpAddr {
    match six {
        true => Ipv6Addr::from_bits(number).into(),
        false => Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(u32::MAX)).into(),
    }
}

/// What is in a block and in none of the exceptions.
pub(super) fn without(cidr: &IpNet, except: &[IpNet]) -> Vec<Span> {
    let mut rest = Span::of(cidr);
    let mut spans = Vec::new();
    for hole in union(except.iter().map(Span::of).collect()) {
        if hole.six != rest.six || hole.last < rest.first || hole.first > rest.last {
            continue;
        }
        if hole.first > rest.first {
            spans.push(Span { last: hole.first.saturating_sub(1), ..rest });
        }
        match hole.behind().filter(|behind| *behind <= rest.last) {
            Some(behind) => rest.first = behind,
            None => return spans,
        }
    }
    spans.push(rest);
    spans
}

/// The same addresses, in order, with nothing that overlaps or touches.
pub(super) fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut().filter(|before| before.six == span.six) {
            Some(before) if before.behind().is_none_or(|behind| span.first <= behind) => {
                before.last = before.last.max(span.last);
            }
            _ => merged.push(span),
        }
    }
    merged
}

/// Addresses that are in the same blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Which addresses.
    pub(super) span: Span,
    /// The blocks, by number, in order; at least one.
    pub(super) blocks: Arc<[u32]>,
}

/// Cuts the address space where a block begins or ends. Each block is what [`union`] gives. What is
/// in no block is in no piece. `None`: the pieces would name blocks more often than `room` times.
pub(super) fn partition<'a>(
    blocks: impl Iterator<Item = (u32, &'a [Span])>,
    mut room: usize,
) -> Option<Vec<Piece>> {
    let mut cuts: BTreeMap<(bool, u128), Cut> = BTreeMap::new();
    for (block, spans) in blocks {
        for span in spans {
            cuts.entry((span.six, span.first)).or_default().begins.push(block);
            if let Some(behind) = span.behind() {
                cuts.entry((span.six, behind)).or_default().ends.push(block);
            }
        }
    }
    let mut pieces = Vec::new();
    let mut inside: BTreeSet<u32> = BTreeSet::new();
    let mut cuts = cuts.into_iter().peekable();
    while let Some(((six, first), cut)) = cuts.next() {
        for block in &cut.ends {
            inside.remove(block);
        }
        inside.extend(cut.begins);
        let next = cuts.peek().filter(|((family, _), _)| *family == six);
        // Only what reaches the last address of all is still open at the last cut of its family.
        let last = next.map_or(u128::MAX, |((_, point), _)| point.saturating_sub(1));
        if !inside.is_empty() {
            room = room.checked_sub(inside.len())?;
            let blocks = inside.iter().copied().collect();
            pieces.push(Piece { span: Span { six, first, last }, blocks });
        }
        if next.is_none() {
            inside.clear();
        }
    }
    Some(pieces)
}

#[derive(Default)]
struct Cut {
    begins: Vec<u32>,
    ends: Vec<u32>,
}

/// The piece with an address.
pub(super) fn find(pieces: &[Piece], address: IpAddr) -> Option<&Piece> {
    let (six, number) = number(address);
    let behind =
        pieces.partition_point(|piece| (piece.span.six, piece.span.first) <= (six, number));
    let piece = pieces.get(behind.checked_sub(1)?)?;
    (piece.span.six == six && number <= piece.span.last).then_some(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| net(text)).collect()
    }

    fn words(spans: &[Span]) -> Vec<String> {
        spans.iter().map(|span| format!("{}-{}", span.ends().0, span.ends().1)).collect()
    }

    const ALL6: &str = "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";

    #[test]
    fn what_is_left_of_a_block() {
        let cases: [(&str, &[&str], &[&str]); 9] = [
            ("10.0.0.0/24", &[], &["10.0.0.0-10.0.0.255"]),
            ("0.0.0.0/0", &[], &["0.0.0.0-255.255.255.255"]),
            ("::/0", &[], &[ALL6]),
            (
                "0.0.0.0/0",
                &["10.0.0.0/8", "0.0.0.0/32", "255.255.255.255/32"],
                &["0.0.0.1-9.255.255.255", "11.0.0.0-255.255.255.254"],
            ),
            ("::/0", &["8000::/1", "::/128"], &["::1-7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]),
            ("10.0.0.0/24", &["10.0.0.0/25", "10.0.0.128/25"], &[]),
            (
                "10.0.0.0/24",
                &["10.0.0.64/26", "10.0.0.80/28"],
                &["10.0.0.0-10.0.0.63", "10.0.0.128-10.0.0.255"],
            ),
            (
                "10.0.0.0/30",
                &["10.0.0.1/32", "10.0.0.2/32"],
                &["10.0.0.0-10.0.0.0", "10.0.0.3-10.0.0.3"],
            ),
            ("10.0.0.7/32", &[], &["10.0.0.7-10.0.0.7"]),
        ];
        for (cidr, except, expected) in cases {
            assert_eq!(words(&without(&net(cidr), &nets(except))), expected, "{cidr} {except:?}");
        }
    }

    #[test]
    fn blocks_that_touch_are_one() {
        let union = |texts: &[&str]| words(&union(nets(texts).iter().map(Span::of).collect()));
        assert_eq!(union(&["10.0.1.0/24", "10.0.0.0/24"]), ["10.0.0.0-10.0.1.255"]);
        assert_eq!(union(&["10.0.0.0/8", "10.1.0.0/16", "11.0.0.0/32"]), ["10.0.0.0-11.0.0.0"]);
        assert_eq!(union(&["::/0", "::1/128", "ff00::/8"]), [ALL6]);
        let both = union(&["::/128", "255.255.255.255/32", "0.0.0.0/0"]);
        assert_eq!(both, ["0.0.0.0-255.255.255.255", "::-::"], "families are apart");
    }

    fn cut(blocks: &[&[(&str, &[&str])]]) -> Vec<String> {
        let spans = blocks.iter().map(|rule| {
            union(
                rule.iter().flat_map(|(cidr, except)| without(&net(cidr), &nets(except))).collect(),
            )
        });
        let spans: Vec<Vec<Span>> = spans.collect();
        let numbered = (1..).zip(spans.iter().map(Vec::as_slice));
        let pieces = partition(numbered, usize::MAX).unwrap();
        for piece in &pieces {
            let (first, last) = piece.span.ends();
            assert_eq!(find(&pieces, first), Some(piece));
            assert_eq!(find(&pieces, last), Some(piece));
        }
        let word = |piece: &Piece| format!("{} {:?}", words(&[piece.span])[0], piece.blocks);
        pieces.iter().map(word).collect()
    }

    #[test]
    fn the_address_space_is_cut_where_blocks_begin_and_end() {
        assert_eq!(cut(&[]), [""; 0]);
        assert_eq!(
            cut(&[&[("10.0.0.0/8", &[])], &[("10.1.0.0/16", &["10.1.2.0/24"])]]),
            [
                "10.0.0.0-10.0.255.255 [1]",
                "10.1.0.0-10.1.1.255 [1, 2]",
                "10.1.2.0-10.1.2.255 [1]",
                "10.1.3.0-10.1.255.255 [1, 2]",
                "10.2.0.0-10.255.255.255 [1]",
            ]
        );
        assert_eq!(
            cut(&[&[("10.0.0.0/24", &[])], &[("10.0.1.0/24", &[])]]),
            ["10.0.0.0-10.0.0.255 [1]", "10.0.1.0-10.0.1.255 [2]"]
        );
        assert_eq!(
            cut(&[
                &[("0.0.0.0/0", &[]), ("::/0", &["fc00::/7"])],
                &[("::1/128", &[]), ("255.255.255.255/32", &[])]
            ]),
            [
                "0.0.0.0-255.255.255.254 [1]",
                "255.255.255.255-255.255.255.255 [1, 2]",
                "::-:: [1]",
                "::1-::1 [1, 2]",
                "::2-fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff [1]",
                "fe00::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff [1]",
            ]
        );
    }

    #[test]
    fn an_address_is_found_or_not() {
        let spans = [Span::of(&net("10.0.0.0/24")), Span::of(&net("2001:db8::/64"))];
        let pieces = partition([(7, &spans[..])].into_iter(), usize::MAX).unwrap();
        let found = |text: &str| find(&pieces, text.parse().unwrap()).is_some();
        assert!(found("10.0.0.0") && found("10.0.0.255") && found("2001:db8::1"));
        assert!(!found("9.255.255.255") && !found("10.0.1.0") && !found("2001:db8:0:1::"));
        assert!(!found("::a00:1"), "the same number of another family");
    }
}
