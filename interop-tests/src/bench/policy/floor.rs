//! The floor: two hosts and a plain router between them, whose one rule lets in
//! who is in a set. A change is one element, by `nft -f`, as quick as anybody is who
//! has a program executed for it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use tempfile::TempDir;

use super::stream::{Fate, Stream};
use crate::binaries::{run, tool};
use crate::link::{End, connect};
use crate::netns::Netns;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 2);

/// The router and its hosts.
#[derive(Debug)]
pub struct Floor {
    stream: Stream,
    nft: PathBuf,
    dir: TempDir,
    router: Netns,
    _hosts: [Netns; 2],
}

impl Floor {
    /// Everything but its one element.
    pub fn new() -> Result<Self> {
        let router = Netns::new("floor")?;
        router.sysctls(&[("net/ipv4/ip_forward", "1")])?;
        let [client, server] = ["client", "server"].map(Netns::new);
        let [client, server] = [client?, server?];
        for (host, net, address) in [(&client, 1, CLIENT), (&server, 2, SERVER)] {
            let near = format!("10.{net}.0.1");
            connect(
                End {
                    netns: &router,
                    ifname: &format!("host{net}"),
                    addresses: &[&format!("{near}/24")],
                },
                End { netns: host, ifname: "eth0", addresses: &[&format!("{address}/24")] },
            )?;
            host.ip(&format!("route add default via {near}"))?;
        }
        let dir = tempfile::Builder::new().prefix("floor-").tempdir()?;
        let nft = tool("nft")?;
        let stream = Stream::start(&client, IpAddr::V4(CLIENT), &server, IpAddr::V4(SERVER))?;
        let floor = Self { stream, nft, dir, router, _hosts: [client, server] };
        floor.load(&format!(
            "table inet floor {{
                set allowed {{ type ipv4_addr; }}
                chain forward {{
                    type filter hook forward priority 0;
                    ct state established,related accept
                    ip daddr {SERVER} ip saddr @allowed accept
                    ip daddr {SERVER} drop
                }}
            }}"
        ))?;
        Ok(floor)
    }

    /// Milliseconds until probes pass, and until they do not.
    pub fn round(&mut self) -> Result<[f64; 2]> {
        let [allow, deny] = [("add", Fate::Pass), ("delete", Fate::Drop)].map(|(verb, fate)| {
            let element = format!("{verb} element inet floor allowed {{ {CLIENT} }}");
            self.change(&element, fate)
        });
        Ok([allow?, deny?])
    }

    fn change(&mut self, text: &str, fate: Fate) -> Result<f64> {
        let (nft, file, router) = (&self.nft, self.write(text)?, &self.router);
        self.stream.after(fate, || {
            router.within(|| {
                let began = Instant::now();
                run(Command::new(nft).arg("-f").arg(&file))?;
                Ok(began)
            })
        })
    }

    fn load(&self, text: &str) -> Result<()> {
        let file = self.write(text)?;
        self.router.within(|| run(Command::new(&self.nft).arg("-f").arg(&file)).map(drop))
    }

    fn write(&self, text: &str) -> Result<PathBuf> {
        let file = self.dir.path().join("rules");
        fs::write(&file, text)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_pass_while_the_element_is_there() {
        let mut floor = Floor::new().unwrap();
        for _ in 0..2 {
            floor.round().unwrap();
        }
        floor.stream.await_fate(Fate::Drop).unwrap();
    }
}
