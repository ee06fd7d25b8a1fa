//! What each kind of router has to know how to do, and where it does it.

use std::fs::{self, Permissions};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use tempfile::TempDir;

use super::part::Program;
use super::{Config, Path, Route};
use crate::netns::Netns;

/// Where a router runs and what it was last told.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) netns: Arc<Netns>,
    pub(super) dir: TempDir,
    pub(super) config: Config,
}

impl Site {
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    pub(super) fn write(&self, name: &str, text: &str, mode: u32) -> Result<()> {
        let file = self.file(name);
        fs::write(&file, text)?;
        fs::set_permissions(&file, Permissions::from_mode(mode))?;
        Ok(())
    }
}

/// How one kind of router is configured, started and asked.
pub(super) trait Driver: Sync {
    /// Writes its configuration files.
    fn configure(&self, site: &Site) -> Result<()>;
    /// Its programs in the order of their start; the last one speaks BGP. `again`
    /// is true when it is started after a restart of the speaker.
    fn programs(&self, site: &Site, again: bool) -> Vec<Program>;
    /// Succeeds once a program of this name can serve those that come after it.
    fn started(&self, _site: &Site, _program: &str) -> Result<()> {
        Ok(())
    }
    /// Files besides the logs of its programs in which it tells what happened.
    fn records(&self) -> &'static [&'static str] {
        &[]
    }
    /// Succeeds once it answers.
    fn ready(&self, site: &Site) -> Result<()>;
    /// Tells it, once it answers, what could not be told in its files.
    fn populate(&self, _site: &Site) -> Result<()> {
        Ok(())
    }
    /// The state of a session in the words of RFC 4271.
    fn state(&self, site: &Site, peer: IpAddr) -> Result<String>;
    /// What it learned for a prefix.
    fn paths(&self, site: &Site, prefix: &str) -> Result<Vec<Path>>;
    /// Originates routes; `site.config` names them already.
    fn announce(&self, site: &Site, routes: &[Route]) -> Result<()>;
    /// Withdraws a route; `site.config` names it no more.
    fn withdraw(&self, site: &Site, route: &Route) -> Result<()>;
    /// Sends ROUTE-REFRESH to a peer.
    fn refresh(&self, site: &Site, peer: IpAddr) -> Result<()>;
    /// Ends a session with Cease, to be opened again.
    fn clear(&self, site: &Site, peer: IpAddr) -> Result<()>;
    /// Ends a session with Cease / Administrative Shutdown and this text.
    fn shutdown(&self, site: &Site, peer: IpAddr, text: &str) -> Result<()>;
    /// Takes up another password for a peer; `site.config` has it already.
    fn set_password(&self, _site: &Site, peer: IpAddr) -> Result<()> {
        bail!("nobody needed another password for {peer} of this router yet")
    }
}
