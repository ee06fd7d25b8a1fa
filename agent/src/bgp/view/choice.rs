//! The next few prefixes in order, chosen from many that come in none. Pure.
//!
//! Choosing the smallest behind the last one, and then the smallest behind those, walks the table
//! anew for each few, and needs room for those few alone: however many routes there are, a reader
//! costs the same memory.

use std::collections::{BinaryHeap, VecDeque};

use ipnet::IpNet;

/// A choice that is being made.
#[derive(Debug)]
pub(super) struct Choice {
    most: usize,
    after: Option<IpNet>,
    /// The smallest so far; the greatest of them on top.
    smallest: BinaryHeap<IpNet>,
}

impl Choice {
    /// The `most` smallest that are greater than `after`.
    pub(super) fn new(most: usize, after: Option<IpNet>) -> Self {
        Self { most, after, smallest: BinaryHeap::new() }
    }

    /// One of many; the same may be offered again.
    pub(super) fn offer(&mut self, net: IpNet) {
        if self.after.is_some_and(|after| net <= after) {
            return;
        }
        if self.smallest.len() < self.most {
            self.smallest.push(net);
        } else if let Some(mut greatest) = self.smallest.peek_mut()
            && net < *greatest
        {
            *greatest = net;
        }
    }

    /// Whether there may be more than were chosen.
    pub(super) fn is_full(&self) -> bool {
        self.smallest.len() >= self.most
    }

    /// In order, each once.
    pub(super) fn into_sorted(self) -> VecDeque<IpNet> {
        let mut chosen = self.smallest.into_sorted_vec();
        chosen.dedup();
        chosen.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(number: u32) -> IpNet {
        let length = u8::try_from(number % 25).unwrap() + 8;
        IpNet::new(std::net::Ipv4Addr::from(number << 4).into(), length).unwrap().trunc()
    }

    proptest! {
        /// Few at a time come to all of them, in order and once, in whatever order they are offered.
        #[test]
        fn few_at_a_time_are_all_of_them_in_order(
            numbers in prop::collection::vec(0..5000_u32, 0..300),
            most in 1..20_usize,
            after in prop::option::of(0..5000_u32),
        ) {
            let begin = after.map(net);
            let (mut seen, mut last) = (Vec::new(), begin);
            loop {
                let mut choice = Choice::new(most, last);
                numbers.iter().for_each(|number| choice.offer(net(*number)));
                let full = choice.is_full();
                let chosen = choice.into_sorted();
                prop_assert!(chosen.len() <= most);
                last = chosen.back().copied().or(last);
                seen.extend(chosen);
                if !full {
                    break;
                }
            }
            let mut wanted: Vec<IpNet> = numbers.iter().map(|number| net(*number)).collect();
            wanted.sort_unstable();
            wanted.dedup();
            wanted.retain(|net| begin.is_none_or(|begin| *net > begin));
            prop_assert_eq!(seen, wanted);
        }
    }
}
