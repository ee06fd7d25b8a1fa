//! Ports: decides what a rule's list of them comes to, and how ranges of several rules are cut, so
//! that each port lies in one numbered range.

use std::collections::BTreeMap;
use std::sync::Arc;

use flock_dataplane::policy::Element;

use super::model::{PortMatch, PortWish, Protocol};

/// What a rule's ports come to: nothing is said twice, and ranges of a protocol are apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PortSet {
    /// Everything, whatever the protocol; then there is nothing else.
    pub(super) everything: bool,
    /// All ports of these protocols.
    pub(super) protocols: Vec<Protocol>,
    /// Single ports, in order.
    pub(super) single: Vec<(Protocol, u16)>,
    /// Ranges of more than one port, in order.
    pub(super) ranges: Vec<(Protocol, u16, u16)>,
    /// What the destination calls so.
    pub(super) named: Vec<(Protocol, Arc<str>)>,
}

impl PortSet {
    /// Of a rule.
    pub(super) fn of(ports: Option<&[PortWish]>) -> Self {
        let Some(wishes) = ports else { return Self { everything: true, ..Self::default() } };
        let mut set = Self::default();
        for PortWish { protocol, ports } in wishes {
            match ports {
                PortMatch::All => set.protocols.push(*protocol),
                PortMatch::Numbers(first, last) if first == last => {
                    set.single.push((*protocol, *first));
                }
                PortMatch::Numbers(first, last) => set.ranges.push((*protocol, *first, *last)),
                PortMatch::Named(name) => set.named.push((*protocol, name.clone())),
            }
        }
        set.tidy();
        set
    }

    fn tidy(&mut self) {
        let Self { protocols, single, ranges, named, .. } = self;
        protocols.sort_unstable();
        protocols.dedup();
        ranges.retain(|(protocol, ..)| !protocols.contains(protocol));
        *ranges = merged(std::mem::take(ranges));
        single.retain(|(protocol, port)| {
            let inside = |(known, first, last): &(Protocol, u16, u16)| {
                known == protocol && (first..=last).contains(&port)
            };
            !protocols.contains(protocol) && !ranges.iter().any(inside)
        });
        single.sort_unstable();
        single.dedup();
        named.retain(|(protocol, _)| !protocols.contains(protocol));
        named.sort_unstable();
        named.dedup();
    }
}

/// Ranges that overlap as one. (Those that only touch stay apart: their border may be where the
/// numbered ranges were cut.)
pub(super) fn merged(mut ranges: Vec<(Protocol, u16, u16)>) -> Vec<(Protocol, u16, u16)> {
    ranges.sort_unstable();
    let mut apart: Vec<(Protocol, u16, u16)> = Vec::with_capacity(ranges.len());
    for (protocol, first, last) in ranges {
        match apart.last_mut() {
            Some(before) if before.0 == protocol && first <= before.2 => {
                before.2 = before.2.max(last);
            }
            _ => apart.push((protocol, first, last)),
        }
    }
    apart
}

/// Ranges that do not overlap, each with a number.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    numbers: BTreeMap<(Protocol, u16, u16), u32>,
    last_number: u32,
}

impl Ranges {
    /// Cuts these ranges where one begins or ends. What was there before keeps its number. Returns
    /// what goes and what comes.
    pub(super) fn set(
        &mut self,
        ranges: impl Iterator<Item = (Protocol, u16, u16)>,
    ) -> (Vec<Element>, Vec<Element>) {
        let mut before = std::mem::take(&mut self.numbers);
        let mut added = Vec::new();
        for range in elementary(ranges) {
            let number = before.remove(&range).unwrap_or_else(|| {
                self.last_number = self.last_number.wrapping_add(1).max(1);
                added.push(element(range, self.last_number));
                self.last_number
            });
            self.numbers.insert(range, number);
        }
        let removed = before.into_iter().map(|(range, number)| element(range, number)).collect();
        (removed, added)
    }

    /// The numbers of the pieces of a range that was among those given to [`Ranges::set`], or of
    /// several that overlap.
    pub(super) fn within(
        &self,
        (protocol, first, last): (Protocol, u16, u16),
    ) -> impl Iterator<Item = u32> {
        let pieces = self.numbers.range((protocol, first, 0)..=(protocol, last, u16::MAX));
        pieces.map(|(_, number)| *number)
    }

    /// All of them.
    pub(super) fn elements(&self) -> impl Iterator<Item = Element> {
        self.numbers.iter().map(|(range, number)| element(*range, *number))
    }
}

fn element((protocol, first, last): (Protocol, u16, u16), number: u32) -> Element {
    Element::Range { protocol: protocol.number(), first, last, number }
}

/// The pieces between all beginnings and ends that are in a range.
fn elementary(
    ranges: impl Iterator<Item = (Protocol, u16, u16)>,
) -> impl Iterator<Item = (Protocol, u16, u16)> {
    // How many ranges more, or fewer, there are from this port on.
    let mut steps: BTreeMap<(Protocol, u32), i64> = BTreeMap::new();
    for (protocol, first, last) in ranges {
        *steps.entry((protocol, u32::from(first))).or_default() += 1;
        *steps.entry((protocol, u32::from(last) + 1)).or_default() -= 1;
    }
    let ends: Vec<(Protocol, u32)> = steps.keys().copied().skip(1).collect();
    let mut open = 0;
    let pieces = steps.into_iter().zip(ends).filter_map(move |(((protocol, first), step), end)| {
        open += step;
        let last = u16::try_from(end.1.checked_sub(1)?).ok()?;
        (open > 0).then_some((protocol, u16::try_from(first).ok()?, last))
    });
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use Protocol::{Tcp, Udp};

    fn wish(protocol: Protocol, ports: PortMatch) -> PortWish {
        PortWish { protocol, ports }
    }

    #[test]
    fn a_list_of_ports_is_said_once() {
        let everything = PortSet { everything: true, ..PortSet::default() };
        assert_eq!(PortSet::of(None), everything);
        let set = PortSet::of(Some(&[
            wish(Tcp, PortMatch::Numbers(80, 80)),
            wish(Tcp, PortMatch::Numbers(1000, 2000)),
            wish(Tcp, PortMatch::Numbers(80, 80)),
            wish(Tcp, PortMatch::Numbers(1500, 1500)),
            wish(Tcp, PortMatch::Numbers(1900, 3000)),
            wish(Tcp, PortMatch::Numbers(3001, 4000)),
            wish(Tcp, PortMatch::Named("http".into())),
            wish(Udp, PortMatch::Numbers(1500, 1500)),
        ]));
        assert_eq!(set.single, [(Tcp, 80), (Udp, 1500)]);
        assert_eq!(set.ranges, [(Tcp, 1000, 3000), (Tcp, 3001, 4000)]);
        assert_eq!(set.named, [(Tcp, "http".into())]);
        let set = PortSet::of(Some(&[
            wish(Tcp, PortMatch::Numbers(80, 80)),
            wish(Tcp, PortMatch::Numbers(1000, 2000)),
            wish(Tcp, PortMatch::Named("http".into())),
            wish(Tcp, PortMatch::All),
        ]));
        assert_eq!(set, PortSet { protocols: vec![Tcp], ..PortSet::default() });
    }

    #[test]
    fn ranges_are_cut_where_one_begins_or_ends() {
        let cut = |ranges: &[(Protocol, u16, u16)]| elementary(ranges.iter().copied()).collect();
        let cases: [(&[(Protocol, u16, u16)], Vec<(Protocol, u16, u16)>); 6] = [
            (&[], vec![]),
            (&[(Tcp, 1, 65535)], vec![(Tcp, 1, 65535)]),
            (&[(Tcp, 10, 20), (Tcp, 10, 20)], vec![(Tcp, 10, 20)]),
            (
                &[(Tcp, 10, 30), (Tcp, 20, 40), (Udp, 15, 65535)],
                vec![(Tcp, 10, 19), (Tcp, 20, 30), (Tcp, 31, 40), (Udp, 15, 65535)],
            ),
            (&[(Tcp, 10, 20), (Tcp, 21, 30)], vec![(Tcp, 10, 20), (Tcp, 21, 30)]),
            (&[(Tcp, 10, 20), (Tcp, 15, 16)], vec![(Tcp, 10, 14), (Tcp, 15, 16), (Tcp, 17, 20)]),
        ];
        for (ranges, expected) in cases {
            let pieces: Vec<_> = cut(ranges);
            assert_eq!(pieces, expected, "{ranges:?}");
        }
    }

    #[test]
    fn ranges_keep_their_numbers() {
        let mut ranges = Ranges::default();
        let (removed, added) = ranges.set([(Tcp, 10, 20), (Tcp, 100, 200)].into_iter());
        assert!(removed.is_empty() && added.len() == 2);
        let far: Vec<u32> = ranges.within((Tcp, 100, 200)).collect();
        let (removed, added) =
            ranges.set([(Tcp, 10, 20), (Tcp, 15, 30), (Tcp, 100, 200)].into_iter());
        assert_eq!((removed.len(), added.len()), (1, 3));
        assert_eq!(ranges.within((Tcp, 100, 200)).collect::<Vec<_>>(), far);
        assert_eq!(ranges.within((Tcp, 10, 20)).count(), 2);
        assert_eq!(ranges.within((Tcp, 10, 30)).count(), 3);
        assert_eq!(ranges.within((Udp, 10, 30)).count(), 0);
        let (removed, added) = ranges.set(std::iter::empty());
        assert_eq!((removed.len(), added.len(), ranges.elements().count()), (4, 0, 0));
    }
}
