//! The image of a pod's sandbox, made here and now: a static program that waits
//! for its end, in an image from scratch, as the archive that `ctr` imports.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use crate::binaries::{run, tool};

/// What the image is called.
pub const IMAGE: &str = "rack.test/pause:1";

const SOURCE: &str = "#include <signal.h>\n#include <unistd.h>\n\
    static void stop(int signal) { (void)signal; _exit(0); }\n\
    int main(void) { signal(SIGTERM, stop); signal(SIGINT, stop); for (;;) pause(); }\n";

/// Builds the archive in a directory and returns its path.
pub fn archive(dir: &Path) -> Result<PathBuf> {
    fs::create_dir_all(dir)?;
    let file = |name: &str| dir.join(name);
    fs::write(file("pause.c"), SOURCE)?;
    run(Command::new(tool("cc")?)
        .current_dir(dir)
        .args(["-static", "-Os", "-o", "pause", "pause.c"]))
    .context("building a static pause; `make test` installs gcc and libc6-dev")?;
    pack(dir, "layer.tar", &["pause"])?;
    let sum = run(Command::new(tool("sha256sum")?).arg(file("layer.tar")))?;
    let digest = sum.split_whitespace().next().context("sha256sum said nothing")?;
    let config = json!({
        "architecture": match ARCH { "x86_64" => "amd64", "aarch64" => "arm64", other => other },
        "os": "linux",
        "config": { "Entrypoint": ["/pause"] },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{digest}")] },
    });
    fs::write(file("config.json"), config.to_string())?;
    let manifest =
        json!([{ "Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"] }]);
    fs::write(file("manifest.json"), manifest.to_string())?;
    pack(dir, "image.tar", &["manifest.json", "config.json", "layer.tar"])
}

fn pack(dir: &Path, archive: &str, members: &[&str]) -> Result<PathBuf> {
    let mut tar = Command::new(tool("tar")?);
    tar.current_dir(dir).args(["--owner=0", "--group=0", "-cf", archive]).args(members);
    run(&mut tar)?;
    Ok(dir.join(archive))
}
