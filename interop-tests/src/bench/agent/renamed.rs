//! The floor behind a rename: a plain thread that is woken by inotify, reads the
//! file and writes its bytes, which are an UPDATE, to an established session. What
//! it takes is what being told by a file costs anybody, before a word of it is
//! understood.

use std::fs;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use tempfile::TempDir;

use crate::bench::bgp::Family;
use crate::bench::bgp::change::{NODE_HOST, TOR_HOST, asn};
use crate::bench::bgp::kernel::Change;
use crate::bench::bgp::message::{announce, plain_attributes, prefix, withdraw};
use crate::bench::bgp::session::{Identity, Session};
use crate::link::{End, connect};
use crate::netns::Netns;

/// A file of this name ends the thread.
const END: &str = "end";

/// The node of the thread.
#[derive(Debug)]
pub struct Renamed {
    /// Its number on the rack.
    pub number: u8,
    dir: TempDir,
    netns: Netns,
}

impl Renamed {
    /// A node with a cable to the router's namespace.
    pub fn plug(tor: &Netns, number: u8) -> Result<Self> {
        let netns = Netns::new("node")?;
        let [far, near] = [TOR_HOST, NODE_HOST].map(|host| Family::V4.with_length(number, host));
        connect(
            End { netns: tor, ifname: &format!("node{number}"), addresses: &[&far] },
            End { netns: &netns, ifname: "uplink", addresses: &[&near] },
        )?;
        let dir = tempfile::Builder::new().prefix("renamed-").tempdir()?;
        for part in ["aside", "watched"] {
            fs::create_dir(dir.path().join(part))?;
        }
        Ok(Self { number, dir, netns })
    }

    /// Establishes the session and begins to watch.
    pub fn start(&self) -> Result<()> {
        let id = Ipv4Addr::new(192, 0, 2, self.number);
        let identity = Identity { asn: asn(self.number), id, family: Family::V4, hold: 0 };
        let tor = Family::V4.address(self.number, TOR_HOST).parse()?;
        let mut session = Session::dial(&self.netns, tor, &identity)?;
        let watched = self.dir.path().join("watched");
        let fd = inotify::init(CreateFlags::CLOEXEC)?;
        inotify::add_watch(&fd, &watched, WatchFlags::MOVED_TO)?;
        thread::spawn(move || -> Result<()> {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(&fd, &mut buffer);
            loop {
                let event = reader.next()?;
                let name = event.file_name().and_then(|name| name.to_str().ok());
                let name = name.context("news of a file without a name")?;
                if name == END {
                    return Ok(());
                }
                session.write(&fs::read(watched.join(name))?)?;
            }
        });
        Ok(())
    }

    /// Makes a change ready: what is to be renamed to what.
    pub fn prepare(&self, change: Change, address: Ipv4Addr) -> Result<(PathBuf, PathBuf)> {
        let nlri = prefix(IpAddr::V4(address), 32);
        let bytes = match change {
            Change::Installed => {
                let next_hop: IpAddr = Family::V4.address(self.number, NODE_HOST).parse()?;
                announce(&plain_attributes(&[asn(self.number)])?, next_hop, &nlri)?
            }
            Change::Removed => withdraw(&nlri)?,
        };
        let [aside, place] =
            ["aside", "watched"].map(|part| self.dir.path().join(part).join("update"));
        fs::write(&aside, bytes)?;
        Ok((aside, place))
    }
}

impl Drop for Renamed {
    fn drop(&mut self) {
        let [aside, watched] =
            ["aside", "watched"].map(|part| self.dir.path().join(part).join(END));
        let _nobody_watches = fs::write(&aside, "").and_then(|()| fs::rename(&aside, &watched));
    }
}
