//! kubectl, the real one: an operator's hand in every scenario. It runs where the API server can be
//! reached, and a failure says what it said.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use super::assets;
use crate::binaries::checked;
use crate::netns::Netns;

/// kubectl with a kubeconfig.
#[derive(Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    /// Where it runs; on the machine itself, for a cluster of somebody else.
    netns: Option<Netns>,
}

impl Kubectl {
    /// For a cluster of ours.
    pub(super) fn inside(program: PathBuf, kubeconfig: PathBuf, netns: &Netns) -> Result<Self> {
        let netns = Netns::of_someone_else(&netns.path())?;
        Ok(Self { program, kubeconfig, netns: Some(netns) })
    }

    /// For a cluster that is there already.
    pub fn of_someone_else(kubeconfig: &Path) -> Result<Self> {
        let program = assets::kubectl()?;
        Ok(Self { program, kubeconfig: kubeconfig.to_path_buf(), netns: None })
    }

    /// The kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// How a person calls it.
    pub fn by_hand(&self) -> String {
        let door = self.netns.as_ref();
        let door = door.map(|netns| format!("ip netns exec {} ", netns.name()));
        let (kubeconfig, program) = (self.kubeconfig.display(), self.program.display());
        format!("{}env KUBECONFIG={kubeconfig} {program}", door.unwrap_or_default())
    }

    /// Runs it to its end and returns its standard output.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        self.fed(arguments, "")
    }

    /// The same with `-o json`, parsed.
    pub fn json(&self, arguments: &[&str]) -> Result<Value> {
        let all: Vec<_> = arguments.iter().copied().chain(["-o", "json"]).collect();
        let said = self.run(&all)?;
        serde_json::from_str(&said).with_context(|| format!("kubectl {all:?} said {said:?}"))
    }

    /// Applies manifests: YAML, or JSON, which is YAML too.
    pub fn apply(&self, manifests: &str) -> Result<String> {
        self.fed(&["apply", "-f", "-"], manifests)
    }

    /// Runs it with this on its standard input.
    pub fn fed(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut child = self.spawn(
            self.command(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        )?;
        let mut stdin = child.stdin.take().context("kubectl without standard input")?;
        let _may_not_read_it = stdin.write_all(input.as_bytes());
        drop(stdin);
        checked(&format!("kubectl {}", arguments.join(" ")), child.wait_with_output()?)
    }

    /// Starts it, with a pipe for what it says: for `--watch` and its like. It is the caller's to end.
    pub fn piped(&self, arguments: &[&str]) -> Result<Child> {
        let mut command = self.command(arguments);
        self.spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        command
    }

    fn spawn(&self, command: &mut Command) -> Result<Child> {
        let spawned = match &self.netns {
            Some(netns) => netns.within(|| Ok(command.spawn()?)),
            None => Ok(command.spawn()?),
        };
        spawned.with_context(|| format!("executing {command:?}"))
    }
}
