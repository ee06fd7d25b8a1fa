//! The CNI plugin `flock`, as a runtime executes it. All of it is in `plugin`.
#![forbid(unsafe_code)]

mod plugin;

use std::process::ExitCode;

fn main() -> ExitCode {
    plugin::run()
}
