//! Images from scratch, made here and now as the archive that `ctr` imports: files, what the dynamic
//! ones among them are linked with, and the command. No registry is asked for anything.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use crate::binaries::{run, tool};

/// An image to be made.
#[derive(Debug)]
pub struct Recipe<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Programs, each with its path inside.
    pub programs: &'a [(&'a Path, &'a str)],
    /// The command, as words.
    pub entrypoint: &'a [&'a str],
}

/// Builds the archive in a directory and returns its path.
pub fn archive(dir: &Path, recipe: &Recipe<'_>) -> Result<PathBuf> {
    let file = |name: &str| dir.join(name);
    let root = file("root");
    fs::create_dir_all(&root)?;
    for (program, inside) in recipe.programs {
        put(program, &root, Path::new(inside))?;
        for library in libraries(program)? {
            put(&library, &root, &library)?;
        }
    }
    pack(&root, &file("layer.tar"), &["."])?;
    let sum = run(Command::new(tool("sha256sum")?).arg(file("layer.tar")))?;
    let digest = sum.split_whitespace().next().context("sha256sum said nothing")?;
    let config = json!({
        "architecture": match ARCH { "x86_64" => "amd64", "aarch64" => "arm64", other => other },
        "os": "linux",
        "config": { "Entrypoint": recipe.entrypoint },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{digest}")] },
    });
    fs::write(file("config.json"), config.to_string())?;
    let manifest =
        json!([{ "Config": "config.json", "RepoTags": [recipe.name], "Layers": ["layer.tar"] }]);
    fs::write(file("manifest.json"), manifest.to_string())?;
    pack(dir, &file("image.tar"), &["manifest.json", "config.json", "layer.tar"])?;
    Ok(file("image.tar"))
}

/// Copies a file to its path below a root; what a link leads to, under the name of the link.
fn put(from: &Path, root: &Path, inside: &Path) -> Result<()> {
    let target = root.join(inside.strip_prefix("/").unwrap_or(inside));
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(from, &target).with_context(|| format!("copying {} into an image", from.display()))?;
    Ok(())
}

/// What a program is linked with, and who links it. A static one has nothing, and `ldd` says so by
/// failing.
pub(crate) fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new(tool("ldd")?).arg(program).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(linked(&said))
}

/// The files that `ldd` names: each line is `NAME => PATH (ADDRESS)` or `PATH (ADDRESS)`, and what has
/// no path is the kernel's.
fn linked(said: &str) -> Vec<PathBuf> {
    let words = |line: &str| -> Option<PathBuf> {
        line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from)
    };
    said.lines().filter_map(words).collect()
}

fn pack(dir: &Path, archive: &Path, members: &[&str]) -> Result<()> {
    let mut tar = Command::new(tool("tar")?);
    tar.current_dir(dir).args(["--owner=0", "--group=0", "-cf"]).arg(archive).args(members);
    run(&mut tar).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_found_whatever_the_form_of_the_line() {
        let said = "\tlinux-vdso.so.1 (0x00007ffd)\n\
            \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tstatically linked\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(linked(said), expected.map(PathBuf::from));
    }
}
