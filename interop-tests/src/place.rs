//! A place of the rack to be in as its operator is: a network namespace with a host name, processes
//! and files of its own, where commands work as documents write them.
//!
//! `/run`, `/tmp`, `/opt` and `/etc/cni` are empty, and what is written below `/etc`, `/var` and
//! `/usr/local` lies over the machine's own and is gone with the place: `/etc/flock` or
//! `pkill flock-agent` are this place's alone. flock's binaries are in `PATH`, and directories and sockets of the rack can be put
//! where one expects them.
//!
//! The first process of a place waits for the end of its standard input, which we hold. So a place
//! ends with us, whatever becomes of us, and with it everything that runs there.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::binaries::{self, tool};
use crate::netns::Netns;

/// What the first process of a place does: `$1` is the name, then pairs of what is put where. It is
/// staged below `/mnt` first, because it may come from what is about to be covered.
const FURNISH: &str = r#"
set -eu
hostname "$1"
shift
mount -t tmpfs -o mode=755 place /mnt
number=0
targets=()
while [ $# -gt 0 ]; do
    stage=/mnt/staged/$number
    if [ -d "$1" ]; then mkdir -p "$stage"; else mkdir -p /mnt/staged; touch "$stage"; fi
    mount --bind "$1" "$stage"
    targets+=("$2")
    number=$((number + 1))
    shift 2
done
for dir in etc var usr/local; do
    mkdir -p "/mnt/$dir/upper" "/mnt/$dir/work"
    mount -t overlay -o "lowerdir=/$dir,upperdir=/mnt/$dir/upper,workdir=/mnt/$dir/work" place "/$dir"
done
mkdir -p /etc/cni
for dir in run opt etc/cni; do mount -t tmpfs -o mode=755 place "/$dir"; done
mount -t tmpfs -o mode=1777 place /tmp
mkdir -p /run/netns
number=0
for target in "${targets[@]}"; do
    stage=/mnt/staged/$number
    if [ -d "$stage" ]; then mkdir -p "$target"; else mkdir -p "${target%/*}"; touch "$target"; fi
    mount --bind "$stage" "$target"
    number=$((number + 1))
done
echo furnished
read -r _ || true
"#;

/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A place. Dropping it ends everything in it.
#[derive(Debug)]
pub struct Place {
    name: String,
    /// `unshare`, which waits for the first process.
    keeper: Child,
    /// The first process, as it is seen from here.
    first: String,
}

/// What a command said, and how it ended.
#[derive(Debug, Clone)]
pub struct Said {
    /// Both streams, as on a terminal.
    pub text: String,
    /// How it ended.
    pub status: ExitStatus,
}

impl Place {
    /// Furnishes a place in a namespace. `put` has what is to be found under which name there.
    pub fn new(name: &str, netns: &Netns, put: &[(PathBuf, String)]) -> Result<Self> {
        let mut command = netns.command(tool("unshare")?)?;
        command
            .args(["--mount", "--uts", "--pid", "--fork", "--mount-proc"])
            .args(["bash", "-c", FURNISH, "place", name]);
        for (program, target) in [
            (binaries::flock_agent()?, "/usr/local/bin/flock-agent"),
            (binaries::flock()?, "/usr/local/bin/flock"),
        ] {
            command.arg(program).arg(target);
        }
        for (what, target) in put {
            command.arg(what).arg(target);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = command.spawn().with_context(|| format!("making the place {name}"))?;
        let first = furnished(&mut keeper).with_context(|| format!("furnishing {name}"))?;
        Ok(Self { name: name.to_owned(), keeper, first })
    }

    /// Its name, which is its host name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The command that leads into it, for people.
    pub fn way_in(&self) -> String {
        format!("nsenter --all --target {}", self.first)
    }

    /// A script, to be run there by bash.
    pub fn script(&self, script: &str) -> Result<Command> {
        let mut command = Command::new(tool("nsenter")?);
        command
            .args(["--all", "--target", &self.first, "bash", "-c"])
            .arg(format!("cd /tmp\n{script}"))
            .env_clear()
            .envs([("PATH", PATH), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("USER", "root")])
            .stdin(Stdio::null());
        Ok(command)
    }

    /// Runs a script to its end, for `limit` at most. What it leaves running goes on, and writes on
    /// into `output`.
    pub fn run(&self, script: &str, output: &Path, limit: Duration) -> Result<Said> {
        let file = File::create(output)?;
        let mut command = self.script(script)?;
        let mut child = command.stdout(file.try_clone()?).stderr(file).spawn()?;
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() >= deadline {
                child.kill()?;
                child.wait()?;
                let said = fs::read_to_string(output).unwrap_or_default();
                bail!("no end within {limit:?} at {}: {script}\n{said}", self.name);
            }
            thread::sleep(Duration::from_millis(5));
        };
        let text = String::from_utf8_lossy(&fs::read(output)?).into_owned();
        Ok(Said { text, status })
    }
}

/// Awaits that a place is ready, and returns its first process.
fn furnished(keeper: &mut Child) -> Result<String> {
    let output = keeper.stdout.take().context("no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    if line.trim() != "furnished" {
        let mut said = String::new();
        if let Some(mut errors) = keeper.stderr.take() {
            errors.read_to_string(&mut said)?;
        }
        bail!("{} {}", line.trim(), said.trim());
    }
    let pid = keeper.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let first = children.trim();
    ensure!(!first.is_empty() && !first.contains(' '), "not one first process: {children:?}");
    Ok(first.to_owned())
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ended = self.keeper.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{PATIENCE, until};

    #[test]
    fn a_place_has_files_and_processes_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("note"), "put there\n").unwrap();
        let netns = Netns::new("place").unwrap();
        let place =
            Place::new("node-9", &netns, &[(dir.path().into(), "/etc/flock".into())]).unwrap();
        let output = dir.path().join("output");
        let run = |script: &str| place.run(script, &output, PATIENCE).unwrap();
        assert_eq!(run("hostname; cat /etc/flock/note").text, "node-9\nput there\n");
        let name = dir.path().file_name().unwrap().to_str().unwrap();
        run(&format!("touch /etc/{name} /opt/{name} /var/{name} /run/{name}; ip netns add {name}"));
        for parent in ["/etc", "/opt", "/var", "/run", "/run/netns"] {
            assert!(!Path::new(parent).join(name).exists(), "{parent}");
            assert!(run(&format!("ls {parent}/{name}")).status.success(), "{parent}");
        }
        run("sleep 1000 & sleep 2000 >/dev/null &");
        // A child is a shell until it has become what it is to be.
        until("both to sleep", PATIENCE, || {
            let seen = run("pgrep sleep").text;
            ensure!(seen.lines().count() == 2, "{seen}");
            Ok(())
        })
        .unwrap();
        run("pkill sleep");
        // Who was told to go is seen until it has gone; nobody else's sleep ever is.
        until("no sleep to be seen", PATIENCE, || {
            let seen = run("pgrep sleep").text;
            ensure!(seen.is_empty(), "{seen}");
            Ok(())
        })
        .unwrap();
        assert!(run("flock-agent --version").text.starts_with("flock-agent "));
        assert_eq!(run("exit 3").status.code(), Some(3));
        let first = place.first.clone();
        run("sleep 1000 &");
        drop(place);
        assert!(!Path::new("/proc").join(first).exists());
    }

    #[test]
    fn a_place_that_cannot_be_furnished_says_why() {
        let netns = Netns::new("place").unwrap();
        let put = [(PathBuf::from("/no/such/thing"), "/etc/flock".into())];
        let told = format!("{:#}", Place::new("node-9", &netns, &put).unwrap_err());
        assert!(told.contains("/no/such/thing"), "{told}");
    }
}
