//! Where the programs are: flock's own beside the running executable, reference
//! CNI plugins where distributions put them, everything else in `PATH`.
//!
//! A missing program is an error with a cure in it, never a reason to skip.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, anyhow, bail};

/// Directories in which distributions install the reference CNI plugins.
const PLUGIN_DIRS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];

/// The CNI plugin under test.
pub fn flock() -> Result<PathBuf> {
    own("flock")
}

/// The agent under test.
pub fn flock_agent() -> Result<PathBuf> {
    own("flock-agent")
}

/// A reference CNI plugin such as `ptp` or `portmap`.
pub fn reference_plugin(name: &str) -> Result<PathBuf> {
    PLUGIN_DIRS.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.is_file()).ok_or_else(
        || {
            anyhow!(
                "the reference CNI plugin {name} is in none of {PLUGIN_DIRS:?}: \
                 `make test` installs it (package containernetworking-plugins)"
            )
        },
    )
}

/// A program of the system, looked up in `PATH` and the sbin directories.
pub fn tool(name: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| anyhow!("{name} is missing: `make test` installs it"))
}

/// The directory of the build that is running: `target/<profile>`.
pub fn build_dir() -> Result<PathBuf> {
    let running = env::current_exe().context("finding the running executable")?;
    let dir = running.parent().context("the running executable has no directory")?;
    let inside_deps = dir.file_name().is_some_and(|name| name == "deps" || name == "examples");
    let build = if inside_deps { dir.parent().unwrap_or(dir) } else { dir };
    Ok(build.to_path_buf())
}

fn own(name: &str) -> Result<PathBuf> {
    let dir = match env::var_os("FLOCK_BIN_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => build_dir()?,
    };
    let path = dir.join(name);
    if !path.is_file() {
        bail!(
            "{} is not built: `make test` builds it, as does `cargo build --workspace --bins` \
             in the same profile; FLOCK_BIN_DIR may name another directory",
            path.display()
        );
    }
    Ok(path)
}

/// Runs a command to its end and returns its standard output; a failure carries
/// the command line and what it said.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("executing {command:?}"))?;
    checked(&format!("{command:?}"), output)
}

/// Turns the output of a finished command into its standard output or an error.
pub fn checked(what: &str, output: Output) -> Result<String> {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{what}: {}\n{}{}", output.status, stdout, stderr.trim_end());
    }
    Ok(stdout)
}
