//! A machine of the cluster: a network namespace with a host name, processes and files of its own,
//! which can be booted again from the same disk.
//!
//! What Kubernetes and flock keep across a boot (`/etc`, `/opt`, and of `/var` what a node needs) is in
//! a directory that outlives the machine; `/run` and `/tmp` begin empty. `/sys` is that of the network
//! namespace, with the cgroups of the real machine. The first process waits for the end of its standard
//! input, which we hold, so a machine ends with us, and with it everything that runs there.
//!
//! It differs from [`crate::place`] in that it has a disk, and mounts as container runtimes need them:
//! shared, so that what kubelet mounts is seen in containers that were started before.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::binaries::{run, tool};
use crate::netns::Netns;
use crate::process::Daemon;
use crate::wait::{PATIENCE, until};

/// What the first process does: `$1` is the name, `$2` the disk, `$3` where Kubernetes' programs are.
/// What comes from elsewhere is staged below `/mnt`, because its place may be about to be covered.
const BOOT: &str = r#"
set -eu
hostname "$1"
mount -t tmpfs -o mode=755 machine /mnt
mkdir /mnt/disk /mnt/assets /mnt/cgroup /mnt/tunables
mount --bind "$2" /mnt/disk
mount --bind "$3" /mnt/assets
mount --rbind /sys/fs/cgroup /mnt/cgroup
mount -t sysfs machine /sys
mount --rbind /mnt/cgroup /sys/fs/cgroup
for dir in etc var; do
    mkdir -p "/mnt/disk/$dir/upper" "/mnt/disk/$dir/work"
    mount -t overlay -o "lowerdir=/$dir,upperdir=/mnt/disk/$dir/upper,workdir=/mnt/disk/$dir/work" machine "/$dir"
done
for dir in opt etc/cni etc/containerd etc/kubernetes var/log var/lib/containerd var/lib/kubelet var/lib/cni var/lib/flock; do
    mkdir -p "/mnt/disk/own/$dir" "/$dir"
    mount --bind "/mnt/disk/own/$dir" "/$dir"
done
mount -t tmpfs -o mode=755 machine /run
mount -t tmpfs -o mode=1777 machine /tmp
mkdir -p /run/netns /run/lock
# kubelet sets these for the whole kernel unless they are so already; here it believes that they are.
while read -r tunable value; do
    [ -e "/proc/sys/$tunable" ] || continue
    echo "$value" > "/mnt/tunables/${tunable##*/}"
    mount --bind "/mnt/tunables/${tunable##*/}" "/proc/sys/$tunable"
done <<TUNABLES
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
TUNABLES
# Every boot has its own id, by which kubelet knows that it was one.
cat /proc/sys/kernel/random/uuid > /mnt/tunables/boot_id
mount --bind /mnt/tunables/boot_id /proc/sys/kernel/random/boot_id
mount --make-rshared /
echo booted
read -r _ || true
"#;

/// Where programs are looked for inside.
const PATH: &str = "/mnt/assets:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A machine that runs. Dropping it ends everything in it; the disk stays.
#[derive(Debug)]
pub struct Machine {
    name: String,
    /// `unshare`, which waits for the first process.
    keeper: Child,
    /// The first process, as it is seen from here.
    first: i32,
}

impl Machine {
    /// Boots a machine in a namespace from a disk.
    pub fn boot(name: &str, netns: &Netns, disk: &Path, assets: &Path) -> Result<Self> {
        let mut command = Command::new(tool("unshare")?);
        command
            .args(["--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc"])
            .args(["bash", "-c", BOOT, "machine", name])
            .args([disk, assets])
            .env_clear()
            .env("PATH", PATH)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut keeper = netns
            .within(|| Ok(command.spawn()?))
            .with_context(|| format!("making the machine {name}"))?;
        let first = booted(&mut keeper).with_context(|| format!("booting {name}"))?;
        Ok(Self { name: name.to_owned(), keeper, first })
    }

    /// Its host name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where one of its files is, seen from outside; sockets too.
    pub fn file(&self, inside: &str) -> PathBuf {
        let inside = Path::new(inside);
        let relative = inside.strip_prefix("/").unwrap_or(inside);
        Path::new("/proc").join(self.first.to_string()).join("root").join(relative)
    }

    /// The command that leads into it, for people.
    pub fn way_in(&self) -> String {
        format!("nsenter --all --target {} env PATH={PATH} bash", self.first)
    }

    /// A command that will run inside.
    pub fn command(&self, words: &[&str]) -> Result<Command> {
        let mut command = Command::new(tool("nsenter")?);
        command
            .args(["--all", "--target", &self.first.to_string(), "--"])
            .args(words)
            .env_clear()
            .envs([("PATH", PATH), ("HOME", "/root"), ("LANG", "C.UTF-8")])
            .stdin(Stdio::null());
        Ok(command)
    }

    /// Runs a program inside to its end and returns its standard output.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        run(&mut self.command(words)?).with_context(|| format!("on {}", self.name))
    }

    /// Starts a daemon inside.
    pub(super) fn start(&self, what: &str, words: &[&str], log: &Path) -> Result<Resident> {
        let what = format!("{what} of {}", self.name);
        let keeper = Daemon::start(&what, &mut self.command(words)?, log)?;
        let mut resident = Resident { keeper, pid: Pid::INIT };
        resident.pid = until(&format!("{what} to have a process"), PATIENCE, || {
            resident.keeper.ensure_alive()?;
            only_child(resident.keeper.pid()).map_err(|error| error.context("no child"))
        })?;
        Ok(resident)
    }
}

/// A daemon inside a machine. `nsenter` is our child and waits for it.
#[derive(Debug)]
pub(super) struct Resident {
    keeper: Daemon,
    pid: Pid,
}

impl Resident {
    /// Fails, with the end of its log, when it has exited.
    pub(super) fn ensure_alive(&mut self) -> Result<()> {
        self.keeper.ensure_alive()
    }

    /// The last lines of its log.
    pub(super) fn log_tail(&self) -> String {
        self.keeper.log_tail()
    }

    /// Ends it with no chance to tidy up.
    pub(super) fn kill(mut self) -> Result<()> {
        kill_process(self.pid, Signal::KILL)?;
        self.keeper.await_exit().map(drop)
    }
}

/// Awaits that a machine is up, and returns its first process.
fn booted(keeper: &mut Child) -> Result<i32> {
    let output = keeper.stdout.take().context("no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    if line.trim() != "booted" {
        let mut said = String::new();
        if let Some(mut errors) = keeper.stderr.take() {
            errors.read_to_string(&mut said)?;
        }
        bail!("{} {}", line.trim(), said.trim());
    }
    Ok(only_child(keeper.id())?.as_raw_nonzero().get())
}

fn only_child(pid: u32) -> Result<Pid> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let mut all = children.split_whitespace();
    let first = all.next().with_context(|| format!("process {pid} has no child"))?;
    ensure!(all.next().is_none(), "process {pid} has the children {children}");
    Pid::from_raw(first.parse()?).with_context(|| format!("process {pid} has the child {first}"))
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ended = self.keeper.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(netns: &Netns, disk: &Path) -> Machine {
        Machine::boot("node-9", netns, disk, Path::new("/usr/bin")).unwrap()
    }

    #[test]
    fn the_disk_outlives_the_machine_and_nothing_else_does() {
        let disk = tempfile::tempdir().unwrap();
        let netns = Netns::new("machine").unwrap();
        let machine = boot(&netns, disk.path());
        let kept = ["/etc/note", "/etc/cni/note", "/var/lib/flock/note", "/opt/note"];
        for file in kept.iter().chain(&["/run/note", "/tmp/note"]) {
            machine.run(&["touch", file]).unwrap();
            assert!(machine.file(file).exists(), "{file} is seen from outside");
        }
        let boot_id = machine.run(&["cat", "/proc/sys/kernel/random/boot_id"]).unwrap();
        assert_eq!(machine.run(&["hostname"]).unwrap(), "node-9\n");
        drop(machine);
        let machine = boot(&netns, disk.path());
        for file in kept {
            assert!(machine.file(file).exists(), "{file}");
            assert!(!Path::new(file).exists(), "{file} is the machine's alone");
        }
        assert!(!machine.file("/run/note").exists() && !machine.file("/tmp/note").exists());
        let now = machine.run(&["cat", "/proc/sys/kernel/random/boot_id"]).unwrap();
        assert_ne!(boot_id, now, "a boot like the one before");
    }

    #[test]
    fn a_daemon_is_killed_by_its_id_or_ends_with_its_machine() {
        let disk = tempfile::tempdir().unwrap();
        let log = disk.path().join("log");
        let netns = Netns::new("machine").unwrap();
        let machine = boot(&netns, disk.path());
        let one = machine.start("one", &["sleep", "1000"], &log).unwrap();
        let other = machine.start("another", &["sleep", "2000"], &log).unwrap();
        let alive = |pid: Pid| Path::new("/proc").join(pid.as_raw_nonzero().to_string()).exists();
        let (first, second) = (one.pid, other.pid);
        one.kill().unwrap();
        assert!(!alive(first) && alive(second));
        drop(machine);
        assert!(!alive(second), "it outlived its machine");
    }
}
