//! Captures golden packets: starts each real router, plays its peer by hand, and
//! writes what the router sent to `bgp/wire/tests/golden/<router>/<name>.hex`,
//! one message a file.
//!
//! `capture-golden [DIRECTORY [ROUTER..]]`, as root. What a router does not do
//! (say, IPv4 routes with an IPv6 next hop) is told on standard error and has no
//! file; the files that were there stay.
#![allow(clippy::print_stdout, reason = "it tells what it wrote")]

mod golden;
mod refusals;
mod scenes;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use rack::router::Brand;
use rack::signals;

use crate::golden::Album;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| "bgp/wire/tests/golden".to_owned());
    let wanted: Vec<_> = arguments.collect();
    match capture(PathBuf::from(directory), &wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn capture(directory: PathBuf, wanted: &[String]) -> Result<()> {
    signals::listen()?;
    let brands = Brand::ALL.into_iter();
    for brand in
        brands.filter(|brand| wanted.is_empty() || wanted.iter().any(|w| w == brand.name()))
    {
        let mut album = Album::new(&directory, brand)?;
        for (name, scene) in scenes::ALL {
            if let Err(error) = scene(&mut album) {
                eprintln!("{} / {name}: {error:#}", brand.name());
            }
        }
    }
    Ok(())
}
