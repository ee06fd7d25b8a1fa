//! The walk over path attributes (RFC 4271 §4.3, §5, §6.3 as revised by RFC 7606): each yields a
//! value or a disposition, and a fault in one never hides the next.
//!
//! Decides per attribute; which of several faults wins and what is missing is `update`'s business.

use std::net::Ipv4Addr;

use super::as_path::{self, Numbers};
use super::{Context, mp};
use crate::attributes::{Aggregator, AsPath, Attributes, NextHop, Origin, Unknown, code, flag};
use crate::community::{Community, ExtendedCommunity, LargeCommunity};
use crate::cursor::Cursor;
use crate::notification::{Notification, Reset, code as error, update as subcode};
use crate::update::{Disposition, Fault, MpReach, MpUnreach};

/// What is wrong with one attribute.
pub(super) enum Bad {
    /// RFC 7606 §2, attribute discard.
    Discard(&'static str),
    /// RFC 7606 §2, treat-as-withdraw; the subcode is that of RFC 4271 §6.3, for when there is
    /// nothing to withdraw (RFC 7606 §5.2).
    Withdraw(u8, &'static str),
    /// RFC 7606 §2, session reset, with a subcode and the attribute as data where the subcode asks.
    Reset(u8),
}

/// What the walk has found. Values of attributes that are absent are those of `Attributes::new`.
pub(super) struct Found<'a> {
    pub(super) attributes: Attributes,
    pub(super) next_hop: Ipv4Addr,
    pub(super) as4_path: Option<AsPath>,
    pub(super) as4_aggregator: Option<Aggregator>,
    pub(super) mp_reach: Option<MpReach<'a>>,
    pub(super) mp_unreach: Option<MpUnreach<'a>>,
    /// An MP_REACH_NLRI with prefixes of a family that is not ours.
    pub(super) foreign: bool,
    /// How many attributes, duplicates included.
    pub(super) count: usize,
    /// Which ones, well-formed or not.
    pub(super) seen: Kinds,
}

/// A set of attribute type codes.
#[derive(Default)]
pub(super) struct Kinds([u64; 4]);

impl Kinds {
    pub(super) fn has(&self, kind: u8) -> bool {
        self.0.get(usize::from(kind / 64)).is_some_and(|word| word & (1 << (kind % 64)) != 0)
    }

    /// Whether it was not there yet.
    fn insert(&mut self, kind: u8) -> bool {
        let new = !self.has(kind);
        if let Some(word) = self.0.get_mut(usize::from(kind / 64)) {
            *word |= 1 << (kind % 64);
        }
        new
    }
}

impl Found<'_> {
    /// Whether MP_REACH_NLRI announces something.
    pub(super) fn reaches(&self) -> bool {
        self.foreign || self.mp_reach.as_ref().is_some_and(|reach| !reach.is_empty())
    }
}

pub(super) struct Walk<'a, 'c> {
    context: &'c Context,
    /// There is NLRI that needs NEXT_HOP.
    announces: bool,
    found: Found<'a>,
    repeated: Kinds,
    faults: Vec<Fault>,
    grave: Option<Notification>,
}

impl<'a, 'c> Walk<'a, 'c> {
    pub(super) fn new(context: &'c Context, announces: bool) -> Self {
        let found = Found {
            attributes: Attributes::new(Origin::Incomplete, NextHop::V4(Ipv4Addr::UNSPECIFIED)),
            next_hop: Ipv4Addr::UNSPECIFIED,
            as4_path: None,
            as4_aggregator: None,
            mp_reach: None,
            mp_unreach: None,
            foreign: false,
            count: 0,
            seen: Kinds::default(),
        };
        let (repeated, faults) = (Kinds::default(), Vec::new());
        Self { context, announces, found, repeated, faults, grave: None }
    }

    /// What was found, what was survived, and the NOTIFICATION of the first fault that is more than
    /// a discarded attribute.
    pub(super) fn finish(self) -> (Found<'a>, Vec<Fault>, Option<Notification>) {
        (self.found, self.faults, self.grave)
    }

    pub(super) fn run(&mut self, bytes: &'a [u8]) -> Result<(), Reset> {
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            let from = cursor.rest();
            let Some((flags, kind, value)) = split(&mut cursor) else {
                return self.cut_off(from);
            };
            let whole = from.get(..from.len() - cursor.len()).unwrap_or_default();
            self.found.count += 1;
            if let Err(bad) = self.one(flags, kind, value) {
                self.judge(kind, whole, bad)?;
            }
        }
        Ok(())
    }

    /// RFC 7606 §4: the last attribute is longer than the field, or its header is. NLRI still
    /// begins where the total length says, so the routes can be withdrawn.
    fn cut_off(&mut self, from: &[u8]) -> Result<(), Reset> {
        let kind = from.get(1).copied().unwrap_or(0);
        self.found.seen.insert(kind); // Damaged is not missing: one fault is enough.
        let mp = kind == code::MP_REACH || kind == code::MP_UNREACH;
        // RFC 7606 §3 j: with the prefixes themselves cut off there is no withdrawing them.
        let bad = match mp {
            true => Bad::Reset(subcode::MALFORMED_LIST),
            false => Bad::Withdraw(subcode::MALFORMED_LIST, "longer than the attributes"),
        };
        self.judge(kind, from, bad)
    }

    /// Notes a fault, at most one per kind: the first, unless a later one is graver.
    fn judge(&mut self, kind: u8, whole: &[u8], bad: Bad) -> Result<(), Reset> {
        let (disposition, what) = match bad {
            Bad::Reset(subcode) => return Err(Reset(notification(subcode, whole))),
            Bad::Discard(what) => (Disposition::Discard, what),
            Bad::Withdraw(subcode, what) => {
                self.grave.get_or_insert_with(|| notification(subcode, whole));
                (Disposition::TreatAsWithdraw, what)
            }
        };
        // At most two of each of 256 kinds come here (see `duplicate`).
        match self.faults.iter_mut().find(|fault| fault.attribute == kind) {
            Some(fault) if fault.disposition >= disposition => {}
            Some(fault) => *fault = Fault { attribute: kind, disposition, what },
            None => self.faults.push(Fault { attribute: kind, disposition, what }),
        }
        Ok(())
    }

    fn one(&mut self, flags: u8, kind: u8, value: &'a [u8]) -> Result<(), Bad> {
        if !self.found.seen.insert(kind) {
            return self.duplicate(kind);
        }
        let Some(expected) = flag::of(kind) else { return self.unknown(flags, kind, value) };
        if (flags ^ expected) & (flag::OPTIONAL | flag::TRANSITIVE) != 0 {
            return Err(match kind {
                // RFC 7606 §5.3: wrong flags make these two syntactically incorrect.
                code::MP_REACH | code::MP_UNREACH => Bad::Reset(subcode::OPTIONAL),
                // RFC 7606 §3 c.
                _ => Bad::Withdraw(subcode::FLAGS, "optional or transitive flag is wrong"),
            });
        }
        match kind {
            code::MP_REACH => self.mp_reach(value),
            code::MP_UNREACH => self.mp_unreach(value),
            _ => self.known(kind, value),
        }
    }

    /// RFC 7606 §3 g. Told once per kind, so that a message full of them costs no more than its
    /// length.
    fn duplicate(&mut self, kind: u8) -> Result<(), Bad> {
        match kind {
            code::MP_REACH | code::MP_UNREACH => Err(Bad::Reset(subcode::MALFORMED_LIST)),
            _ if !self.repeated.insert(kind) => Ok(()),
            _ => Err(Bad::Discard("more than once: the first stands")),
        }
    }

    /// Every attribute that we know but the two with prefixes.
    fn known(&mut self, kind: u8, value: &'a [u8]) -> Result<(), Bad> {
        let context = self.context;
        let attributes = &mut self.found.attributes;
        match kind {
            code::ORIGIN => attributes.origin = origin(value)?,
            code::AS_PATH => {
                let numbers = if context.four_octet_as { Numbers::Four } else { Numbers::Two };
                attributes.as_path = as_path::read(value, numbers, context.internal)?;
            }
            code::NEXT_HOP => self.found.next_hop = next_hop(value, self.announces)?,
            code::MED => attributes.med = Some(number(value, "MULTI_EXIT_DISC is not 4 octets")?),
            code::LOCAL_PREF => {
                internal_only(context, "LOCAL_PREF of an external peer")?; // RFC 7606 §7.5
                let number = number(value, "LOCAL_PREF is not 4 octets")?;
                attributes.local_pref = Some(number);
            }
            code::ATOMIC_AGGREGATE => {
                // RFC 7606 §7.6.
                let empty = value.is_empty();
                attributes.atomic_aggregate = empty;
                empty.then_some(()).ok_or(Bad::Discard("ATOMIC_AGGREGATE is not empty"))?;
            }
            code::AGGREGATOR => {
                attributes.aggregator = Some(as_path::aggregator(value, context.four_octet_as)?);
            }
            code::COMMUNITIES => attributes.communities = communities(value)?,
            code::ORIGINATOR_ID => {
                internal_only(context, "ORIGINATOR_ID of an external peer")?; // RFC 7606 §7.9
                let number = number(value, "ORIGINATOR_ID is not 4 octets")?;
                attributes.originator_id = Some(number.into());
            }
            code::CLUSTER_LIST => {
                internal_only(context, "CLUSTER_LIST of an external peer")?; // RFC 7606 §7.10
                attributes.cluster_list = cluster_list(value)?;
            }
            code::EXTENDED_COMMUNITIES => {
                attributes.extended_communities = extended_communities(value)?;
            }
            code::AS4_PATH => self.found.as4_path = as_path::as4_path(value, context)?,
            code::AS4_AGGREGATOR => {
                self.found.as4_aggregator = Some(as_path::as4_aggregator(value, context)?);
            }
            code::LARGE_COMMUNITIES => attributes.large_communities = large_communities(value)?,
            // RFC 9234 §5: of another length than 4, treat-as-withdraw.
            _ => attributes.only_to_customer = Some(number(value, "OTC is not 4 octets")?),
        }
        Ok(())
    }

    fn unknown(&mut self, flags: u8, kind: u8, value: &[u8]) -> Result<(), Bad> {
        if flags & flag::OPTIONAL == 0 {
            // RFC 4271 §6.3, which RFC 7606 §3 leaves as it is.
            return Err(Bad::Reset(subcode::UNRECOGNIZED));
        }
        if flags & flag::TRANSITIVE != 0 {
            // RFC 4271 §5: kept, to be passed on. How its length was written is no part of it, and
            // the lower four bits mean nothing (RFC 4271 §4.3).
            let flags = flags & (flag::OPTIONAL | flag::TRANSITIVE | flag::PARTIAL);
            self.found.attributes.unknown.push(Unknown { kind, flags, value: value.into() });
        }
        Ok(()) // RFC 4271 §5: otherwise quietly ignored.
    }

    fn mp_reach(&mut self, value: &'a [u8]) -> Result<(), Bad> {
        let reach = mp::reach(value, self.context)?;
        let Some(reach) = reach else {
            self.found.foreign = mp::announces(value);
            return Err(Bad::Discard("MP_REACH_NLRI of a family that is not ours"));
        };
        let (MpReach::V4(next_hop, _) | MpReach::V6(next_hop, _)) = &reach;
        let usable = mp::usable(next_hop);
        self.found.mp_reach = Some(reach);
        usable
            .then_some(())
            .ok_or(Bad::Withdraw(subcode::INVALID_NEXT_HOP, "next hop of MP_REACH_NLRI is no host"))
    }

    fn mp_unreach(&mut self, value: &'a [u8]) -> Result<(), Bad> {
        self.found.mp_unreach = mp::unreach(value, self.context)?;
        match self.found.mp_unreach {
            Some(_) => Ok(()),
            None => Err(Bad::Discard("MP_UNREACH_NLRI of a family that is not ours")),
        }
    }
}

/// Flags, type code and value of the next attribute (RFC 4271 §4.3).
fn split<'a>(cursor: &mut Cursor<'a>) -> Option<(u8, u8, &'a [u8])> {
    let [flags, kind] = cursor.array()?;
    let length = match flags & flag::EXTENDED_LENGTH {
        0 => usize::from(cursor.u8()?),
        _ => usize::from(cursor.u16()?),
    };
    Some((flags, kind, cursor.take(length)?))
}

/// The NOTIFICATION of RFC 4271 §6.3: most subcodes carry the attribute in error.
fn notification(subcode: u8, whole: &[u8]) -> Notification {
    match subcode {
        subcode::MALFORMED_LIST | subcode::MALFORMED_AS_PATH => {
            Notification::new(error::UPDATE, subcode)
        }
        _ => Notification::with(error::UPDATE, subcode, whole.to_vec()),
    }
}

/// RFC 7606 §7.1.
fn origin(value: &[u8]) -> Result<Origin, Bad> {
    match value {
        [0] => Ok(Origin::Igp),
        [1] => Ok(Origin::Egp),
        [2] => Ok(Origin::Incomplete),
        [_] => Err(Bad::Withdraw(subcode::INVALID_ORIGIN, "ORIGIN is none of the three")),
        _ => Err(Bad::Withdraw(subcode::LENGTH, "ORIGIN is not 1 octet")),
    }
}

/// RFC 7606 §7.3. RFC 4271 §6.3: a valid host address; whether it is a useful one (loopback, ours,
/// on the link) is for who knows the node. Where no NLRI uses it, its value is ignored
/// (RFC 4760 §3): speakers send zeros there.
fn next_hop(value: &[u8], used: bool) -> Result<Ipv4Addr, Bad> {
    let octets: [u8; 4] =
        value.try_into().map_err(|_| Bad::Withdraw(subcode::LENGTH, "NEXT_HOP is not 4 octets"))?;
    let address = Ipv4Addr::from(octets);
    if used && !mp::usable(&NextHop::V4(address)) {
        return Err(Bad::Withdraw(subcode::INVALID_NEXT_HOP, "NEXT_HOP is no host"));
    }
    Ok(address)
}

/// RFC 7606 §7.4, §7.5, §7.9: four octets or treat-as-withdraw.
fn number(value: &[u8], what: &'static str) -> Result<u32, Bad> {
    let octets = value.try_into().map_err(|_| Bad::Withdraw(subcode::LENGTH, what))?;
    Ok(u32::from_be_bytes(octets))
}

fn internal_only(context: &Context, what: &'static str) -> Result<(), Bad> {
    context.internal.then_some(()).ok_or(Bad::Discard(what))
}

/// A list of items of `N` octets: at least one and none in part.
fn items<'a, const N: usize>(value: &'a [u8], what: &'static str) -> Result<&'a [[u8; N]], Bad> {
    match value.as_chunks::<N>() {
        (items @ [_, ..], []) => Ok(items),
        _ => Err(Bad::Withdraw(subcode::LENGTH, what)),
    }
}

/// RFC 7606 §7.8.
fn communities(value: &[u8]) -> Result<Vec<Community>, Bad> {
    let items = items::<4>(value, "COMMUNITIES is no list of 4 octets each")?;
    Ok(items.iter().map(|item| Community(u32::from_be_bytes(*item))).collect())
}

/// RFC 7606 §7.10.
fn cluster_list(value: &[u8]) -> Result<Vec<Ipv4Addr>, Bad> {
    let items = items::<4>(value, "CLUSTER_LIST is no list of 4 octets each")?;
    Ok(items.iter().map(|item| Ipv4Addr::from(*item)).collect())
}

/// RFC 7606 §7.14; types that we do not know are no fault.
fn extended_communities(value: &[u8]) -> Result<Vec<ExtendedCommunity>, Bad> {
    let items = items::<8>(value, "EXTENDED_COMMUNITIES is no list of 8 octets each")?;
    Ok(items.iter().map(|item| ExtendedCommunity(*item)).collect())
}

/// RFC 8092 §5; redundant values are silently removed (RFC 8092 §2).
fn large_communities(value: &[u8]) -> Result<Vec<LargeCommunity>, Bad> {
    let items = items::<12>(value, "LARGE_COMMUNITY is no list of 12 octets each")?;
    let mut list: Vec<_> = items.iter().map(large_community).collect();
    // By sorting, not by comparing each with each: a message holds some 5,000 of them.
    let mut sorted = list.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() < list.len() {
        let mut told = vec![false; sorted.len()];
        list.retain(|community| match sorted.binary_search(community) {
            Ok(at) => told.get_mut(at).is_some_and(|told| !std::mem::replace(told, true)),
            Err(_) => true,
        });
    }
    Ok(list)
}

fn large_community(item: &[u8; 12]) -> LargeCommunity {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *item;
    LargeCommunity(
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
        u32::from_be_bytes([i, j, k, l]),
    )
}
