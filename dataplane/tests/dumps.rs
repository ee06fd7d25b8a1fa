//! A listing shows one consistent state, or it is taken again.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flock_dataplane::Dataplane;
use flock_dataplane::reply::Collector;
use lab::{Space, dual, on_node};
use proptest::prelude::*;

const NLM_F_MULTI: u16 = 2;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(u32::try_from(16 + payload.len()).unwrap().to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[test]
fn an_interruption_on_any_part_is_noticed() {
    for interrupted in 0..4 {
        let mut collector = Collector::new(7, 1);
        for part in 0..3 {
            let flag = if part == interrupted { NLM_F_DUMP_INTR } else { 0 };
            collector.feed(&message(16, NLM_F_MULTI | flag, 7, &[part; 5])).unwrap();
            assert!(!collector.complete());
        }
        let flag = if interrupted == 3 { NLM_F_DUMP_INTR } else { 0 };
        collector.feed(&message(NLMSG_DONE, NLM_F_MULTI | flag, 7, &0i32.to_ne_bytes())).unwrap();
        assert!(collector.complete());
        let answers = collector.into_answers();
        assert!(answers[0].interrupted, "part {interrupted}");
        assert_eq!(answers[0].replies.len(), 3);
        assert_eq!(answers[0].verdict, Some(Ok(())));
    }
}

#[test]
fn answers_find_their_requests_and_strangers_do_not_count() {
    let mut collector = Collector::new(10, 2);
    let refused = [(-17i32).to_ne_bytes().as_slice(), &[0; 16]].concat();
    let fine = [0i32.to_ne_bytes().as_slice(), &[0; 16]].concat();
    collector.feed(&message(NLMSG_ERROR, 0, 9, &refused)).unwrap();
    let both = [message(NLMSG_ERROR, 0, 11, &refused), message(16, 0, 10, b"link")].concat();
    collector.feed(&both).unwrap();
    assert!(!collector.complete());
    collector.feed(&message(NLMSG_ERROR, 0, 10, &fine)).unwrap();
    assert!(collector.complete());
    let answers = collector.into_answers();
    assert_eq!(answers[0].verdict, Some(Ok(())));
    assert_eq!(answers[0].replies[0].payload, b"link");
    assert_eq!(answers[1].verdict.clone().unwrap().unwrap_err().code, 17);
}

#[test]
fn the_kernels_own_words_are_kept() {
    const CAPPED: u16 = 0x100;
    const ACK_TLVS: u16 = 0x200;
    let mut payload = (-22i32).to_ne_bytes().to_vec();
    payload.extend([0; 16]);
    payload.extend(10u16.to_ne_bytes());
    payload.extend(1u16.to_ne_bytes());
    payload.extend(b"wrong\0\0\0");
    let mut collector = Collector::new(1, 1);
    collector.feed(&message(NLMSG_ERROR, CAPPED | ACK_TLVS, 1, &payload)).unwrap();
    let refusal = collector.into_answers()[0].verdict.clone().unwrap().unwrap_err();
    assert_eq!(refusal.to_string(), "Invalid argument (os error 22): wrong");
}

proptest! {
    /// Whatever arrives, reading it neither panics nor runs on for ever.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut collector = Collector::new(0, 3);
        let _ = collector.feed(&bytes);
    }

    /// A message cut anywhere is an error or nothing, never half an answer.
    #[test]
    fn a_cut_message_is_not_an_answer(cut in 1usize..20) {
        let whole = message(NLMSG_DONE, 0, 0, &0i32.to_ne_bytes());
        let mut collector = Collector::new(0, 1);
        prop_assert!(collector.feed(&whole[..cut.min(whole.len() - 1)]).is_err());
        prop_assert!(!collector.complete());
    }
}

/// Links come and go all the while; those that stay are in every listing.
#[test]
fn listings_are_whole_during_churn() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let pods: Vec<Space> = (0..40).map(|_| Space::new("p")).collect();
        for (pod, n) in pods.iter().zip(2..) {
            dataplane.attach(dual(pod, n)).await.unwrap();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let churn = std::thread::spawn({
            let (stop, name) = (Arc::clone(&stop), node.name.clone());
            move || {
                let mut rounds = 0;
                while !stop.load(Ordering::Relaxed) {
                    for command in ["link add churn0 type veth peer name churn1", "link del churn0"]
                    {
                        let all: Vec<&str> =
                            ["-n", name.as_str()].into_iter().chain(command.split(' ')).collect();
                        lab::run("ip", &all);
                    }
                    rounds += 1;
                }
                rounds
            }
        });
        for _ in 0..200 {
            assert_eq!(dataplane.links().await.unwrap().len(), 40);
            assert_eq!(dataplane.pod_routes().await.unwrap().len(), 80);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(churn.join().unwrap() > 0);
    });
}
