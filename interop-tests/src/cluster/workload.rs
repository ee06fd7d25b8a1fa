//! The program that runs in the pods of scenarios, as an image: see `src/bin/workload.rs` for what it
//! does.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::binaries;
use crate::image::{self, Recipe};

/// What the image is called.
pub const IMAGE: &str = "rack.test/workload:1";

/// The port that it serves at.
pub const PORT: u16 = 8080;

/// Builds the archive in a directory and returns its path.
pub fn archive(dir: &Path) -> Result<PathBuf> {
    let program = binaries::build_dir()?.join("workload");
    ensure!(
        program.is_file(),
        "{} is not built: `cargo build -p flock-interop-tests --bins` builds it",
        program.display()
    );
    let programs = [(&*program, "/workload")];
    image::archive(dir, &Recipe { name: IMAGE, programs: &programs, entrypoint: &["/workload"] })
}
