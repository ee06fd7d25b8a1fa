//! What a prefix costs: flock's codec, netgauze-bgp-pkt and a plain loop over the octets, in one run.
//!
//! `cargo run --release -p flock-bgp-wire --example codec-bench` prints a line of JSON for each figure
//! on stdout and a table on stderr. Nanoseconds a prefix, the best of several rounds that take turns,
//! because whatever else runs on the machine only ever adds.
//!
//! The floor of decoding is a loop that walks the lengths, masks and adds up the prefixes, and checks
//! nothing; the floor of encoding is one that writes lengths and addresses into a slice that is
//! there. Neither knows of attributes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking and prints its result"
)]

use std::hint::black_box;
use std::io::Cursor;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use bytes::BytesMut;
use flock_bgp_wire::encode::{self, Form};
use flock_bgp_wire::frame::MAX;
use flock_bgp_wire::{
    AsPath, Attributes, Community, Context, Message, MpReach, Net, NextHop, Origin, decode,
};
use ipnet::{Ipv4Net, Ipv6Net};
use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::wire::deserializer::BgpParsingContext;
use netgauze_parse_utils::WritablePdu;
use netgauze_parse_utils::reader::SliceReader;
use netgauze_parse_utils::traits::ParseFromWithOneInput;

const FORM: Form = Form { four_octet_as: true, max: MAX };
const CONTEXT: Context = Context {
    four_octet_as: true,
    add_path_ipv4: false,
    add_path_ipv6: false,
    extended_next_hop: false,
    internal: false,
};

fn attributes(next_hop: NextHop) -> Attributes {
    let mut attributes = Attributes::new(Origin::Igp, next_hop);
    attributes.as_path = AsPath::sequence([65001, 65002, 65003]);
    attributes.med = Some(10);
    attributes.communities = vec![Community(0xFDE9_0001), Community(0xFDE9_0002)];
    attributes
}

/// Adds up what was read, so that none of it is left out. For IPv6 both halves count.
fn sum<N: Net>(total: u64, net: N) -> u64 {
    let bits = net.bits();
    #[allow(clippy::cast_possible_truncation, reason = "both halves of 128 bits")]
    let halves = (bits >> 64) as u64 ^ bits as u64;
    total.wrapping_add(halves).wrapping_add(u64::from(net.len()))
}

fn flock_decode(bytes: &[u8]) -> u64 {
    let Ok(Message::Update(update)) = decode(bytes, &CONTEXT) else { panic!() };
    let total = update.announced.fold(0, |total, received| sum(total, received.net));
    match &update.mp_reach {
        Some(MpReach::V6(_, nlri)) => nlri.fold(total, |total, received| sum(total, received.net)),
        _ => total,
    }
}

fn netgauze_decode(bytes: &[u8]) -> u64 {
    let mut context = BgpParsingContext::default();
    let message = BgpMessage::parse(&mut SliceReader::new(bytes), &mut context).unwrap();
    let BgpMessage::Update(update) = message else { panic!() };
    let total = update.nlri().iter().fold(0, |total, net| sum(total, net.network().address()));
    update.path_attributes().iter().fold(total, |total, attribute| {
        use netgauze_bgp_pkt::path_attribute::{MpReach, PathAttributeValue};
        match attribute.value() {
            PathAttributeValue::MpReach(MpReach::Ipv6Unicast { nlri, .. }) => {
                nlri.iter().fold(total, |total, net| sum(total, net.network().address()))
            }
            _ => total,
        }
    })
}

/// Walks octets that are known to be sound.
fn floor_decode<N: Net>(nlri: &[u8]) -> u64 {
    let (mut at, mut total) = (0, 0);
    while let Some(len) = nlri.get(at) {
        let size = usize::from(*len).div_ceil(8);
        let mut wide = [0; 16];
        match nlri[at + 1..].first_chunk::<16>() {
            Some(chunk) => wide = *chunk,
            None => wide[..size].copy_from_slice(&nlri[at + 1..at + 1 + size]),
        }
        total = sum(total, N::from_bits(u128::from_be_bytes(wide), *len));
        at += 1 + size;
    }
    total
}

fn floor_encode<N: Net>(nets: &[N], out: &mut [u8]) -> usize {
    let mut at = 0;
    for net in nets {
        out[at] = net.len();
        out[at + 1..at + 17].copy_from_slice(&net.bits().to_be_bytes());
        at += 1 + usize::from(net.len()).div_ceil(8);
    }
    at
}

/// Nanoseconds of one call, in a round of about a millisecond: short enough to fall between what else
/// runs.
fn time(run: &mut dyn FnMut()) -> f64 {
    let mut calls = 1_u32;
    loop {
        let start = Instant::now();
        (0..calls).for_each(|_| run());
        let took = start.elapsed();
        if took.as_micros() >= 700 {
            return took.as_secs_f64() * 1e9 / f64::from(calls);
        }
        calls *= 2;
    }
}

/// The best of rounds that take turns.
fn race<const N: usize>(mut runners: [&mut dyn FnMut(); N]) -> [f64; N] {
    let mut best = [f64::INFINITY; N];
    for _ in 0..150 {
        for (best, runner) in best.iter_mut().zip(&mut runners) {
            *best = best.min(time(runner));
        }
    }
    best
}

fn report(name: &str, [flock, floor, netgauze]: [f64; 3], prefixes: usize) {
    #[allow(clippy::cast_precision_loss, reason = "a few hundred")]
    let [flock, floor, netgauze] = [flock, floor, netgauze].map(|time| time / prefixes as f64);
    println!(
        "{{\"name\":\"{name}\",\"flock\":{flock:.2},\"floor\":{floor:.2},\"netgauze\":{netgauze:.2},\"unit\":\"ns/prefix\"}}"
    );
    eprintln!(
        "{name:<28} {prefixes:>8} {flock:>8.2} {floor:>8.2} {netgauze:>9.2} {:>9.2}x {:>10.1}x",
        flock / floor,
        netgauze / flock
    );
}

fn bench<N: Net>(name: &str, attributes: &Attributes, nets: &[N]) {
    let mut message = BytesMut::new();
    let count = encode::announce(attributes, nets, FORM, &mut message);
    let nets = &nets[..count];
    let mut nlri = vec![0; count * 17 + 17];
    let size = floor_encode(nets, &mut nlri);
    nlri.truncate(size);
    assert_eq!(flock_decode(&message), floor_decode::<N>(&nlri));
    assert_eq!(flock_decode(&message), netgauze_decode(&message));
    let decoded = race([
        &mut || _ = black_box(flock_decode(black_box(&message))),
        &mut || _ = black_box(floor_decode::<N>(black_box(&nlri))),
        &mut || _ = black_box(netgauze_decode(black_box(&message))),
    ]);
    report(&format!("decode {name}"), decoded, count);

    let mut context = BgpParsingContext::default();
    let theirs = BgpMessage::parse(&mut SliceReader::new(&message), &mut context).unwrap();
    let mut out = BytesMut::with_capacity(MAX + 64);
    let mut plain = vec![0; count * 17 + 17];
    let mut written = Vec::with_capacity(MAX + 64);
    let encoded = race([
        &mut || {
            out.clear();
            black_box(encode::announce(attributes, black_box(nets), FORM, &mut out));
        },
        &mut || _ = black_box(floor_encode(black_box(nets), black_box(&mut plain))),
        &mut || {
            written.clear();
            black_box(&theirs).write(&mut Cursor::new(&mut written)).unwrap();
        },
    ]);
    report(&format!("encode {name}"), encoded, count);
}

fn main() {
    if cfg!(debug_assertions) {
        eprintln!("codec-bench measures release builds only: cargo run --release ...");
        return;
    }
    eprintln!(
        "{:<28} {:>8} {:>8} {:>8} {:>9} {:>10} {:>11}",
        "ns a prefix", "prefixes", "flock", "floor", "netgauze", "to floor", "to netgauze"
    );
    let v4: Vec<Ipv4Net> = (0..2000_u32)
        .map(|n| Ipv4Net::new(Ipv4Addr::from(0x0A00_0000 + (n << 8)), 24).unwrap())
        .collect();
    let v6: Vec<Ipv6Net> = (0..2000_u128)
        .map(|n| Ipv6Net::new(Ipv6Addr::from((0x2001_0DB8 << 96) + (n << 64)), 64).unwrap())
        .collect();
    let hop = attributes(NextHop::V4(Ipv4Addr::new(192, 0, 2, 1)));
    let global = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
    let hop6 = attributes(NextHop::V6 { global, link_local: None });
    bench("ipv4 /24, 150", &hop, &v4[..150]);
    bench("ipv4 /24, full", &hop, &v4);
    bench("ipv6 /64, 150", &hop6, &v6[..150]);
    bench("ipv6 /64, full", &hop6, &v6);
    bench("ipv4 /24, 1", &hop, &v4[..1]);
    bench("ipv6 /64, 1", &hop6, &v6[..1]);
}
