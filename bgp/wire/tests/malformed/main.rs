//! Malformed messages, each with the exact thing that must come of it: the NOTIFICATION that ends
//! the session, octet by octet, or the faults survived and everything that remains of the message.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod attribute;
mod forge;
mod frame;
mod mp;
mod open;
mod others;
mod path;
mod update;

use std::collections::BTreeSet;

use flock_bgp_wire::{
    Attributes, Context, Disposition, Family, Message, MpReach, MpUnreach, Reset, decode,
};

use Disposition::{Discard, TreatAsWithdraw};

struct Case {
    name: &'static str,
    context: Context,
    bytes: Vec<u8>,
    expect: Expect,
}

#[allow(clippy::large_enum_variant, reason = "a few hundred, once")]
enum Expect {
    /// Code, subcode, data.
    Reset(u8, u8, Vec<u8>),
    Update(Remains),
    /// Another message.
    Message(Message<'static>),
}

/// What is left of an UPDATE.
#[derive(Debug, Default, PartialEq)]
struct Remains {
    faults: Vec<(u8, Disposition)>,
    /// All prefixes that go, and that come, as text; classic ones first.
    withdrawn: Vec<String>,
    announced: Vec<String>,
    attributes: Option<Attributes>,
    end_of_rib: Option<Family>,
}

/// Nothing wrong with it.
fn sound(attributes: Attributes, announced: &[&str]) -> Expect {
    Expect::Update(Remains {
        announced: announced.iter().map(|net| net.to_string()).collect(),
        attributes: Some(attributes),
        ..Remains::default()
    })
}

/// 203.0.113.0/24 remains, without the attributes that had a fault.
fn discarded(kinds: &[u8], attributes: Attributes) -> Expect {
    Expect::Update(Remains {
        faults: kinds.iter().map(|kind| (*kind, Discard)).collect(),
        announced: vec!["203.0.113.0/24".into()],
        attributes: Some(attributes),
        ..Remains::default()
    })
}

/// 203.0.113.0/24 is treated as withdrawn.
fn withdrawn(kinds: &[u8]) -> Expect {
    withdrawn_nets(kinds, &["203.0.113.0/24"])
}

fn withdrawn_nets(kinds: &[u8], announced: &[&str]) -> Expect {
    Expect::Update(Remains {
        faults: kinds.iter().map(|kind| (*kind, TreatAsWithdraw)).collect(),
        announced: announced.iter().map(|net| net.to_string()).collect(),
        ..Remains::default()
    })
}

fn all() -> Vec<Case> {
    let groups = [
        open::cases(),
        update::cases(),
        attribute::cases(),
        path::cases(),
        mp::cases(),
        others::cases(),
    ];
    groups.into_iter().flatten().collect()
}

fn remains(message: &Message<'_>) -> Remains {
    let Message::Update(update) = message else { panic!("not an UPDATE: {message:?}") };
    let mut remains = Remains {
        faults: update.faults.iter().map(|f| (f.attribute, f.disposition)).collect(),
        withdrawn: update.withdrawn.map(|received| received.net.to_string()).collect(),
        announced: update.announced.map(|received| received.net.to_string()).collect(),
        attributes: update.attributes.clone(),
        end_of_rib: update.end_of_rib,
    };
    match &update.mp_reach {
        Some(MpReach::V4(_, nlri)) => {
            remains.announced.extend(nlri.map(|received| received.net.to_string()));
        }
        Some(MpReach::V6(_, nlri)) => {
            remains.announced.extend(nlri.map(|received| received.net.to_string()));
        }
        None => {}
    }
    match &update.mp_unreach {
        Some(MpUnreach::V4(nlri)) => {
            remains.withdrawn.extend(nlri.map(|received| received.net.to_string()));
        }
        Some(MpUnreach::V6(nlri)) => {
            remains.withdrawn.extend(nlri.map(|received| received.net.to_string()));
        }
        None => {}
    }
    remains
}

/// What differs, in words.
fn check(case: &Case) -> Result<(), String> {
    let result = decode(&case.bytes, &case.context);
    match (&case.expect, &result) {
        (Expect::Reset(code, subcode, data), Err(Reset(got)))
            if (*code, *subcode, &data[..]) == (got.code, got.subcode, &got.data[..]) =>
        {
            Ok(())
        }
        (Expect::Reset(code, subcode, data), _) => {
            Err(format!("expected reset {code}/{subcode} {data:02x?}, got {result:02x?}"))
        }
        (Expect::Update(expected), Ok(message)) => {
            let got = remains(message);
            if *expected == got {
                Ok(())
            } else {
                Err(format!("expected\n    {expected:?}, got\n    {got:?}"))
            }
        }
        (Expect::Message(expected), Ok(message)) if expected == message => Ok(()),
        (Expect::Message(expected), _) => Err(format!("expected {expected:?}, got {result:02x?}")),
        (Expect::Update(expected), Err(got)) => {
            Err(format!("expected {expected:?}, got {got:02x?}"))
        }
    }
}

#[test]
fn every_case_has_its_exact_disposition() {
    let failed: Vec<String> = all()
        .iter()
        .filter_map(|case| check(case).err().map(|what| format!("{}: {what}", case.name)))
        .collect();
    assert!(failed.is_empty(), "{} cases differ:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn there_are_enough_and_each_has_a_name_of_its_own() {
    let cases = all();
    let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len());
    assert!(cases.len() + frame::COUNT >= 150, "{} cases", cases.len() + frame::COUNT);
}

/// A message in error with one octet less or more is in error too or is another message, but never
/// a panic; and its length field then tells on it.
#[test]
fn cut_and_padded_messages_are_header_errors() {
    for case in all() {
        for bytes in [&case.bytes[..case.bytes.len() - 1], &[&case.bytes[..], &[0]].concat()] {
            let Err(Reset(got)) = decode(bytes, &case.context) else { panic!("{}", case.name) };
            assert_eq!(got.code, 1, "{}: {got:?}", case.name);
        }
    }
}
