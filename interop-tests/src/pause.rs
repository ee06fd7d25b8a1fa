//! The image of a pod's sandbox, made here and now: a static program that waits
//! for its end, in an image from scratch, as the archive that `ctr` imports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::binaries::{run, tool};
use crate::image::{self, Recipe};

/// What the image is called.
pub const IMAGE: &str = "rack.test/pause:1";

const SOURCE: &str = "#include <signal.h>\n#include <unistd.h>\n\
    static void stop(int signal) { (void)signal; _exit(0); }\n\
    int main(void) { signal(SIGTERM, stop); signal(SIGINT, stop); for (;;) pause(); }\n";

/// Builds the archive in a directory and returns its path.
pub fn archive(dir: &Path) -> Result<PathBuf> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join("pause.c"), SOURCE)?;
    run(Command::new(tool("cc")?)
        .current_dir(dir)
        .args(["-static", "-Os", "-o", "pause", "pause.c"]))
    .context("building a static pause; `make test` installs gcc and libc6-dev")?;
    let programs = [(&*dir.join("pause"), "/pause")];
    image::archive(dir, &Recipe { name: IMAGE, programs: &programs, entrypoint: &["/pause"] })
}
