//! Real routers behind one small interface: BIRD 2, FRR, GoBGP, OpenBGPD, ExaBGP.
//!
//! A [`Router`] is started from a [`Config`] in a namespace that the caller has
//! cabled, and then asked what it sees: the state of a session, its BGP table,
//! its kernel's routes, its log. It decides nothing about BGP; each driver turns
//! the words of [`Config`] into its router's own, and what the router prints
//! back into [`Path`].
//!
//! By default each router lives in a container of its own ([`Housing::Container`]:
//! podman and runc, an overlay of the machine's root, about 0.2 s to start). A
//! benchmark that wants nothing between the router and the machine takes
//! [`Housing::Process`]: the same command line, in the same namespace, with no
//! container. Both are reached in the same way, because the router's directory,
//! with its sockets, has the same path inside and outside.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use rack::netns::Netns;
//! # use rack::router::{Brand, Config, Housing, Peer, Route, Router};
//! # fn main() -> anyhow::Result<()> {
//! let netns = Arc::new(Netns::new("tor")?); // cable it with rack::link::connect
//! let mut config = Config::new(65000, "10.0.0.2".parse()?, "2001:db8::2".parse()?);
//! config.peers.push(Peer::new("10.0.0.1".parse()?, "10.0.0.2".parse()?, 65001));
//! config.routes.push(Route::new("10.9.0.0/24").with_communities(&["65000:1", "65000:1:2"]));
//! let router = Router::start(Brand::Bird, netns, config, Housing::Process)?;
//! router.await_established("10.0.0.1".parse()?)?;
//! println!("{:?}", router.paths("10.1.0.0/24")?);
//! # Ok(())
//! # }
//! ```

mod bird;
mod config;
mod driver;
mod exabgp;
mod frr;
mod gobgp;
mod openbgpd;
mod part;
mod table;

use std::fs::{self, Permissions};
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path as FsPath;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

pub use self::config::{Config, Family, Peer, Role, Route};
use self::driver::{Driver, Site};
use self::part::Part;
pub(crate) use self::part::{await_left as await_podman_left, podman};
pub use self::table::Path;
use crate::names;
use crate::netns::Netns;
use crate::story::Telling;
use crate::wait::{PATIENCE, until};

/// Which router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Brand {
    /// BIRD 2.
    Bird,
    /// FRR: bgpd and zebra.
    Frr,
    /// GoBGP.
    Gobgp,
    /// OpenBGPD, the portable one.
    Openbgpd,
    /// ExaBGP.
    Exabgp,
}

impl Brand {
    /// All of them, in the order of the matrix.
    pub const ALL: [Self; 5] = [Self::Bird, Self::Frr, Self::Gobgp, Self::Openbgpd, Self::Exabgp];

    /// Its name in tables, directories and test names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bird => "bird",
            Self::Frr => "frr",
            Self::Gobgp => "gobgp",
            Self::Openbgpd => "openbgpd",
            Self::Exabgp => "exabgp",
        }
    }

    /// Whether it puts learned routes into the kernel. The portable OpenBGPD has
    /// no such code for Linux, GoBGP leaves it to zebra, ExaBGP to nobody.
    pub fn has_kernel_routes(self) -> bool {
        matches!(self, Self::Bird | Self::Frr)
    }

    fn driver(self) -> &'static dyn Driver {
        match self {
            Self::Bird => &bird::Bird,
            Self::Frr => &frr::Frr,
            Self::Gobgp => &gobgp::Gobgp,
            Self::Openbgpd => &openbgpd::Openbgpd,
            Self::Exabgp => &exabgp::Exabgp,
        }
    }
}

/// What a router runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Housing {
    /// A podman container that joins the namespace.
    Container,
    /// A plain process in the namespace.
    Process,
}

/// A router that was started, gone with all its files when dropped.
#[derive(Debug)]
pub struct Router {
    // Dropped before the directory and the namespace that they live in.
    parts: Vec<Part>,
    brand: Brand,
    housing: Housing,
    site: Site,
}

impl Router {
    /// Starts a router and awaits that it answers.
    pub fn start(
        brand: Brand,
        netns: Arc<Netns>,
        config: Config,
        housing: Housing,
    ) -> Result<Self> {
        let prefix = format!("{}-", names::unique(brand.name()));
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir()?;
        // Some routers leave root behind and still have to get at their files.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        let site = Site { netns, dir, config };
        brand.driver().configure(&site)?;
        let mut router = Self { parts: Vec::new(), brand, housing, site };
        for program in brand.driver().programs(&router.site, false) {
            let part = Part::start(&program, &router.site.netns, router.site.dir.path(), housing)?;
            router.parts.push(part);
            router.await_started(program.name)?;
        }
        router.await_ready()?;
        Ok(router)
    }

    /// Which one it is.
    pub fn brand(&self) -> Brand {
        self.brand
    }

    /// What it was last told.
    pub fn config(&self) -> &Config {
        &self.site.config
    }

    /// Its namespace.
    pub fn netns(&self) -> &Netns {
        &self.site.netns
    }

    /// Where its files and sockets are.
    pub fn home(&self) -> &FsPath {
        self.site.dir.path()
    }

    /// The process id of the program that speaks BGP.
    pub fn pid(&self) -> Result<i32> {
        self.parts.last().context("nothing was started")?.pid()
    }

    fn await_started(&mut self, program: &str) -> Result<()> {
        let Self { parts, brand, site, .. } = self;
        let started = until(&format!("{program} to serve"), PATIENCE, || {
            parts.iter_mut().try_for_each(Part::ensure_alive)?;
            brand.driver().started(site, program)
        });
        started.telling(|| self.log())
    }

    fn await_ready(&mut self) -> Result<()> {
        let Self { parts, brand, site, .. } = self;
        let answered = until(&format!("{} to answer", brand.name()), PATIENCE, || {
            parts.iter_mut().try_for_each(Part::ensure_alive)?;
            brand.driver().ready(site)
        });
        answered.telling(|| self.log())?;
        self.brand.driver().populate(&self.site)
    }

    /// The state of a session: `Idle`, `Active`, ..., `Established`.
    pub fn state(&self, peer: IpAddr) -> Result<String> {
        self.brand.driver().state(&self.site, peer)
    }

    /// Awaits that a session is Established.
    pub fn await_established(&self, peer: IpAddr) -> Result<()> {
        self.await_state(peer, |state| state == "Established")
    }

    /// Awaits that a session is in a state that pleases.
    pub fn await_state(&self, peer: IpAddr, pleases: impl Fn(&str) -> bool) -> Result<()> {
        until(&format!("a state of {peer} at {}", self.brand.name()), PATIENCE, || {
            let state = self.state(peer)?;
            ensure!(pleases(&state), "it is {state}");
            Ok(())
        })
        .telling(|| self.log_tail())
    }

    /// What it learned for exactly this prefix.
    pub fn paths(&self, prefix: &str) -> Result<Vec<Path>> {
        self.brand.driver().paths(&self.site, prefix)
    }

    /// Awaits a path of a prefix that pleases, and returns it.
    pub fn await_path(&self, prefix: &str, pleases: impl Fn(&Path) -> bool) -> Result<Path> {
        until(&format!("{prefix} at {}", self.brand.name()), PATIENCE, || {
            let paths = self.paths(prefix)?;
            let found = paths.iter().find(|path| pleases(path)).cloned();
            found.with_context(|| format!("it has {paths:?}"))
        })
        .telling(|| self.log_tail())
    }

    /// Awaits that it has no path of a prefix.
    pub fn await_no_path(&self, prefix: &str) -> Result<()> {
        until(&format!("no {prefix} at {}", self.brand.name()), PATIENCE, || {
            let paths = self.paths(prefix)?;
            ensure!(paths.is_empty(), "it has {paths:?}");
            Ok(())
        })
        .telling(|| self.log_tail())
    }

    /// The gateways of the route that its kernel has for exactly this prefix;
    /// none when there is no such route.
    pub fn kernel_next_hops(&self, prefix: &str) -> Result<Option<Vec<IpAddr>>> {
        let family = if Family::of(prefix) == Family::Ipv4 { "-4" } else { "-6" };
        let shown = self.site.netns.ip(&format!("-j {family} route show {prefix}"))?;
        if shown.trim().is_empty() {
            return Ok(None);
        }
        let routes = table::parsed("ip", &shown)?;
        let routes = routes.as_array().map_or(&[][..], Vec::as_slice);
        let route = routes.iter().find(|route| table::text(route, "dst") == Some(prefix));
        Ok(route.map(table::gateways))
    }

    /// Awaits that its kernel has a route over these gateways, or none.
    pub fn await_kernel(&self, prefix: &str, wanted: Option<&[IpAddr]>) -> Result<()> {
        until(&format!("{prefix} in the kernel of {}", self.brand.name()), PATIENCE, || {
            let there = self.kernel_next_hops(prefix)?;
            ensure!(there.as_deref() == wanted, "it has {there:?}, not {wanted:?}");
            Ok(())
        })
        .telling(|| self.log_tail())
    }

    /// Everything that it said so far.
    pub fn log(&self) -> String {
        let driver = self.brand.driver();
        let programs = driver.programs(&self.site, false);
        let logs = programs.iter().map(|one| part::log(self.site.dir.path(), one.name));
        let records = driver.records().iter().map(|name| self.site.file(name));
        let texts = logs.chain(records).map(|file| fs::read(file).unwrap_or_default());
        texts.map(|text| part::as_written(&String::from_utf8_lossy(&text))).collect()
    }

    /// The end of what it said.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(40)..).unwrap_or_default();
        format!("--- the end of the log of {}\n{}\n---", self.brand.name(), tail.join("\n"))
    }

    /// Awaits that its log contains a text.
    pub fn await_log(&self, text: &str) -> Result<()> {
        until(&format!("{text:?} in the log of {}", self.brand.name()), PATIENCE, || {
            ensure!(self.log().contains(text), "it does not say so");
            Ok(())
        })
        .telling(|| self.log_tail())
    }

    /// Originates routes from now on, replacing those with the same prefix.
    pub fn announce(&mut self, routes: &[Route]) -> Result<()> {
        self.site.config.upsert(routes);
        self.brand.driver().announce(&self.site, routes)
    }

    /// Originates a route no more.
    pub fn withdraw(&mut self, prefix: &str) -> Result<()> {
        let route = self.site.config.remove(prefix);
        let route = route.with_context(|| format!("{prefix} was not originated"))?;
        self.brand.driver().withdraw(&self.site, &route)
    }

    /// Asks a peer to send its routes again.
    pub fn refresh(&self, peer: IpAddr) -> Result<()> {
        self.brand.driver().refresh(&self.site, peer)
    }

    /// Ends a session, which it may open again.
    pub fn clear(&self, peer: IpAddr) -> Result<()> {
        self.brand.driver().clear(&self.site, peer)
    }

    /// Shuts a session down with a text for the other side (RFC 9003).
    pub fn shutdown(&self, peer: IpAddr, text: &str) -> Result<()> {
        self.brand.driver().shutdown(&self.site, peer, text)
    }

    /// Another password for a session, which begins anew; or none.
    pub fn set_password(&mut self, peer: IpAddr, password: Option<&str>) -> Result<()> {
        let found = self.site.config.peers.iter_mut().find(|one| one.address == peer);
        found.with_context(|| format!("{peer} is no peer"))?.password = password.map(str::to_owned);
        self.brand.driver().set_password(&self.site, peer)
    }

    /// Stops it where it stands (SIGSTOP): its sockets stay open and say nothing.
    pub fn freeze(&self) -> Result<()> {
        self.speaker()?.signal_all(Signal::STOP)
    }

    /// Lets it go on.
    pub fn thaw(&self) -> Result<()> {
        self.speaker()?.signal_all(Signal::CONT)
    }

    /// Ends the program that speaks BGP in order (SIGTERM).
    pub fn stop(&mut self) -> Result<()> {
        self.parts.last_mut().context("nothing was started")?.terminate()
    }

    /// Ends the program that speaks BGP without a word (SIGKILL).
    pub fn kill(&mut self) -> Result<()> {
        self.parts.last_mut().context("nothing was started")?.kill()
    }

    /// Starts the program that speaks BGP again, as after a crash, and awaits
    /// that it answers.
    pub fn start_again(&mut self) -> Result<()> {
        let programs = self.brand.driver().programs(&self.site, true);
        let program = programs.last().context("a router without programs")?;
        if self.parts.last().is_some_and(|part| part.pid().is_ok()) {
            bail!("{} runs", self.brand.name());
        }
        self.parts.pop();
        let home = self.site.dir.path();
        // What was killed leaves its sockets behind, and not everybody copes.
        for entry in fs::read_dir(home)? {
            let entry = entry?;
            if entry.file_type()?.is_socket() {
                fs::remove_file(entry.path())?;
            }
        }
        self.parts.push(Part::start(program, &self.site.netns, home, self.housing)?);
        self.await_ready()
    }

    fn speaker(&self) -> Result<&Part> {
        self.parts.last().context("nothing was started")
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.parts.clear();
        if let (Housing::Container, Err(error)) =
            (self.housing, part::await_left(self.site.dir.path()))
        {
            eprintln!("the directory of {} may stay: {error:#}", self.brand.name());
        }
    }
}
