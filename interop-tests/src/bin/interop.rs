//! `make interop`: plays the whole matrix, our speaker with each real router, and
//! prints it. The exit code is 1 when a cell fails.
//!
//! `interop [ROUTER..] [GROUP..]`, as root; without names, all of them.
#![allow(clippy::print_stdout, reason = "it prints the matrix")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Result, ensure};
use rack::interop::table::{Entry, render};
use rack::interop::{GROUPS, Group, Outcome};
use rack::router::Brand;
use rack::wait::interrupted;
use rack::{signals, speaker};

/// Most of a group is waiting for others; more than this many only wait for
/// each other.
const SIDE_BY_SIDE: usize = 4;

fn main() -> ExitCode {
    match play() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn play() -> Result<bool> {
    signals::listen()?;
    speaker::program()?;
    let wanted: Vec<_> = std::env::args().skip(1).collect();
    let groups: Vec<_> = wanted_or_all(&wanted, GROUPS, |group| group.name);
    let brands: Vec<_> = wanted_or_all(&wanted, &Brand::ALL, |brand| brand.name());
    let known = |name: &String| {
        brands.iter().any(|brand| brand.name() == name) || groups.iter().any(|one| one.name == name)
    };
    ensure!(
        wanted.iter().all(known),
        "the routers are {:?}, the groups {:?}",
        Brand::ALL.map(Brand::name),
        GROUPS.iter().map(|group| group.name).collect::<Vec<_>>()
    );
    let work: Vec<(Brand, &Group)> =
        groups.iter().flat_map(|group| brands.iter().map(move |brand| (*brand, group))).collect();
    let began = Instant::now();
    let entries = side_by_side(&work);
    println!("{}", render(&brands, &entries));
    let count = |wanted: fn(&Outcome) -> bool| {
        entries.iter().filter(|entry| wanted(&entry.outcome)).count()
    };
    let failed = count(|outcome| matches!(outcome, Outcome::Fails(_)));
    println!(
        "{} ok, {failed} failed, {} not applicable, in {:.0?}",
        count(|outcome| matches!(outcome, Outcome::Works)),
        count(|outcome| matches!(outcome, Outcome::Cannot(_))),
        began.elapsed()
    );
    Ok(failed == 0 && !interrupted())
}

/// Those that were named; all, when none of them was.
fn wanted_or_all<T: Copy>(wanted: &[String], all: &[T], name: fn(&T) -> &'static str) -> Vec<T> {
    let named: Vec<T> =
        all.iter().filter(|one| wanted.iter().any(|word| word == name(one))).copied().collect();
    if named.is_empty() { all.to_vec() } else { named }
}

fn side_by_side(work: &[(Brand, &Group)]) -> Vec<Entry> {
    let (next, entries) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || {
        while let Some((brand, group)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            if interrupted() {
                return;
            }
            let outcomes = group.play(*brand);
            eprintln!(
                "{:>3}/{} {} with {}",
                done(&next, work),
                work.len(),
                group.name,
                brand.name()
            );
            let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
            entries.extend(outcomes.into_iter().map(|(cell, outcome)| Entry {
                brand: *brand,
                cell,
                outcome,
            }));
        }
    };
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(worker);
        }
    });
    entries.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn done(next: &AtomicUsize, work: &[(Brand, &Group)]) -> usize {
    next.load(Ordering::Relaxed).min(work.len())
}
