//! How the static plugin is linked. Decides nothing for a dynamic build.
//!
//! A static-pie binary carries 60 KB of relocations and applies them to itself
//! at every start, and this one is started for every CNI call. The price is
//! the image's address randomisation, in a process that mostly lives milliseconds. With musl rustc brings
//! what starts a program itself, and has to be told (`-C relocation-model=static`, in the Makefile).

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let gnu = env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|environment| environment == "gnu");
    if gnu && features.split(',').any(|feature| feature == "crt-static") {
        // After rustc's own -static-pie, which the last of its kind undoes.
        println!("cargo::rustc-link-arg-bins=-static");
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
