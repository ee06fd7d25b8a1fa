//! Prefixes on the wire (RFC 4271 §4.3, RFC 4760 §5, with path identifiers RFC 7911 §3).
//!
//! A run is checked once as a whole and then read lazily: the check decides whether the session goes
//! on (RFC 7606 §5.3), so it must come before the first route is touched. Both loops guess that a
//! prefix is as long as the one before it: guessed right, where the next one begins does not wait
//! for a load, and its mask is there already.

use std::marker::PhantomData;

use crate::family::{Net, mask};

/// A run of prefixes that was checked as a whole: iterating cannot fail. Prefixes are masked.
#[derive(Debug, Clone, Copy)]
pub struct Nlri<'a, N> {
    bytes: &'a [u8],
    add_path: bool,
    guess: Shape,
    family: PhantomData<N>,
}

/// What follows from the length of a prefix: that of the last one is a guess at the next one's.
#[derive(Debug, Clone, Copy)]
struct Shape {
    len: u8,
    octets: usize,
    mask: u128,
}

impl Shape {
    const DEFAULT_ROUTE: Self = Self { len: 0, octets: 0, mask: 0 };

    /// Not inlined, so that a guess stays a branch: as a conditional move it would wait for the load.
    #[cold]
    #[inline(never)]
    fn of(len: u8) -> Self {
        Self { len, octets: octets(len), mask: mask(len) }
    }
}

/// The guess is no part of the value.
impl<N> PartialEq for Nlri<'_, N> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.add_path == other.add_path
    }
}

impl<N> Eq for Nlri<'_, N> {}

/// A prefix as received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<N> {
    /// 0 without ADD-PATH.
    pub path_id: u32,
    /// The prefix, masked.
    pub net: N,
}

/// Octets of a path identifier (RFC 7911 §3).
const PATH_ID: usize = 4;

/// Octets that a prefix of `len` bits takes, its length octet not counted.
#[inline]
pub(crate) fn octets(len: u8) -> usize {
    usize::from(len).div_ceil(8)
}

impl<'a, N: Net> Nlri<'a, N> {
    /// No prefix.
    pub const EMPTY: Self = Self::unchecked(&[], false);

    const fn unchecked(bytes: &'a [u8], add_path: bool) -> Self {
        Self { bytes, add_path, guess: Shape::DEFAULT_ROUTE, family: PhantomData }
    }

    /// Checks a run: each length within the family's, none cut off.
    pub fn check(bytes: &'a [u8], add_path: bool) -> Option<Self> {
        let before = if add_path { PATH_ID } else { 0 };
        let mut guess = Shape::DEFAULT_ROUTE;
        let mut at = 0;
        while at < bytes.len() {
            let len = *bytes.get(at + before)?;
            if len != guess.len {
                if len > N::MAX_LEN {
                    return None;
                }
                guess = Shape::of(len);
            }
            at += before + 1 + guess.octets;
        }
        // `at` only ever overshoots with the last prefix, which is then cut off.
        (at == bytes.len()).then_some(Self::unchecked(bytes, add_path))
    }

    /// Whether there is no prefix in it.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl<N: Net> Iterator for Nlri<'_, N> {
    type Item = Received<N>;

    #[inline]
    fn next(&mut self) -> Option<Received<N>> {
        let mut path_id = 0;
        let mut bytes = self.bytes;
        if self.add_path {
            let (id, rest) = bytes.split_first_chunk::<PATH_ID>()?;
            path_id = u32::from_be_bytes(*id);
            bytes = rest;
        }
        let (&len, bytes) = bytes.split_first()?;
        if len != self.guess.len {
            self.guess = Shape::of(len);
        }
        let (prefix, rest) = bytes.split_at_checked(self.guess.octets)?;
        // One wide load where 16 octets are left, whatever the prefix needs: the rest is masked.
        let bits = match bytes.first_chunk::<16>() {
            Some(wide) => u128::from_be_bytes(*wide),
            None => bits_of_few(prefix),
        };
        self.bytes = rest;
        Some(Received { path_id, net: N::from_masked(bits & self.guess.mask, len) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let before = if self.add_path { PATH_ID } else { 0 };
        let least = self.bytes.len() / (before + 1 + octets(N::MAX_LEN));
        (least, Some(self.bytes.len() / (before + 1)))
    }
}

/// The last prefixes of a run, where a wide load would read beyond it.
fn bits_of_few(prefix: &[u8]) -> u128 {
    let mut wide = [0; 16];
    for (to, from) in wide.iter_mut().zip(prefix) {
        *to = *from;
    }
    u128::from_be_bytes(wide)
}
