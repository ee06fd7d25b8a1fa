//! A cable that fails: taken down, unplugged, silent, deaf on one side, slow.
//!
//! | fault | what it stands for | who notices | undone by |
//! |---|---|---|---|
//! | [`Link::cut`] | `ip link set down` on one side | both sides at once | [`Link::mend`] |
//! | [`Link::unplug`] | a port that is shut at the other side | both sides, by carrier | [`Link::mend`] |
//! | [`Link::silence`] | a switch in between that died | nobody, until a timer says so | [`Link::pass`] |
//! | [`Link::one_way`] | one broken fibre of a pair | the deaf side, by a timer | [`Link::pass`] |
//! | [`Link::slow`] | a link that is too small | nobody | [`Link::full_speed`] |
//!
//! A [`Link`] only names the two ends, so that a test can hold it while it does
//! other things to the nodes. The faults are in the kernel, not in the handle, and
//! go with the namespaces.

use std::fmt;
use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::End;
use crate::binaries::{checked, run, tool};
use crate::facts;
use crate::netns::Netns;
use crate::wait::{PATIENCE, until};

/// What a slow link keeps in its queue rather than dropping it: seconds' worth at
/// the rates that are worth testing, so that it delays.
const QUEUE_BYTES: u64 = 1 << 20;

/// The least that may leave at once: a few packets of the usual size. The kernel
/// cuts larger ones (segmentation offload) to fit.
const LEAST_BURST: u64 = 4096;

/// One of the two ends of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that was named first: the node's, where the other is a ToR's.
    Near,
    /// The one that was named second.
    Far,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Near, Self::Far];

    /// The one at the other end.
    pub fn other(self) -> Self {
        match self {
            Self::Near => Self::Far,
            Self::Far => Self::Near,
        }
    }
}

/// An end of a cable, wherever it is plugged in.
#[derive(Debug)]
pub struct Plug {
    netns: Netns,
    ifname: String,
    addresses: Vec<String>,
}

impl Plug {
    fn new(end: End<'_>) -> Result<Self> {
        Ok(Self {
            netns: Netns::of_someone_else(&end.netns.path())?,
            ifname: end.ifname.to_owned(),
            addresses: end.addresses.iter().map(|address| (*address).to_owned()).collect(),
        })
    }

    /// The namespace that it is in.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// What the interface is called there.
    pub fn ifname(&self) -> &str {
        &self.ifname
    }

    /// Its address of a family, if it was given one.
    pub fn address(&self, ipv6: bool) -> Option<IpAddr> {
        let plain = self.addresses.iter().filter_map(|address| address.split('/').next());
        plain
            .filter_map(|text| text.parse().ok())
            .find(|address: &IpAddr| address.is_ipv6() == ipv6)
    }

    /// Up again, with the addresses that it lost: the kernel drops those of IPv6
    /// when an interface goes down.
    fn raise(&self) -> Result<()> {
        self.netns.ip(&format!("link set {} up", self.ifname))?;
        let there = facts::interface(&self.netns, &self.ifname)?.addresses;
        let there: Vec<_> =
            there.iter().map(|(address, bits)| format!("{address}/{bits}")).collect();
        for address in self.addresses.iter().filter(|address| !there.contains(address)) {
            self.netns.ip(&format!("address add {address} dev {} nodad", self.ifname))?;
        }
        Ok(())
    }

    /// Awaits that the namespace has been told of a carrier or of its loss; the
    /// kernel takes up to a second.
    fn await_carrier(&self, wanted: bool) -> Result<()> {
        let what = format!("{self} to {} carrier", if wanted { "have" } else { "lose" });
        until(&what, PATIENCE, || {
            let shown = self.netns.ip(&format!("-j link show dev {}", self.ifname))?;
            let has = shown.contains("\"operstate\":\"UP\"");
            ensure!(has == wanted, "ip shows {}", shown.trim());
            Ok(())
        })
    }

    /// The table that makes it deaf, by a name that nobody else has here.
    fn table(&self) -> String {
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        format!("rack_{}", self.ifname.chars().map(word).collect::<String>())
    }

    /// Drops all that arrives, also ARP and neighbour discovery, before anything
    /// in the namespace but a packet capture sees it.
    fn deafen(&self) -> Result<()> {
        let (table, ifname) = (self.table(), &self.ifname);
        self.nft(&format!(
            "add table netdev {table}\ndelete table netdev {table}\n\
             table netdev {table} {{\n chain arriving {{\n\
             type filter hook ingress device \"{ifname}\" priority 0; policy drop;\n }}\n}}\n"
        ))
    }

    fn hear(&self) -> Result<()> {
        // Added first, because to delete what is not there is an error.
        let table = self.table();
        self.nft(&format!("add table netdev {table}\ndelete table netdev {table}\n"))
    }

    /// Gives nft a script, which it carries out as a whole or not at all.
    fn nft(&self, script: &str) -> Result<()> {
        let mut command = self.netns.command(tool("nft")?)?;
        command.args(["-f", "-"]).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().context("nft has no standard input")?;
        stdin.write_all(script.as_bytes())?;
        drop(stdin);
        checked(&format!("nft at {self}: {script}"), child.wait_with_output()?).map(drop)
    }

    fn tc(&self, arguments: &str) -> Result<String> {
        let mut command = Command::new(tool("tc")?);
        run(command.args(["-n", self.netns.name()]).args(arguments.split_whitespace()))
    }
}

impl fmt::Display for Plug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.ifname, self.netns.name())
    }
}

/// A handle on a cable. It owns nothing and undoes nothing when dropped.
#[derive(Debug)]
pub struct Link {
    near: Plug,
    far: Plug,
}

impl Link {
    /// A handle on the cable that has these ends.
    pub fn between(near: End<'_>, far: End<'_>) -> Result<Self> {
        Ok(Self { near: Plug::new(near)?, far: Plug::new(far)? })
    }

    /// One of its ends.
    pub fn plug(&self, side: Side) -> &Plug {
        match side {
            Side::Near => &self.near,
            Side::Far => &self.far,
        }
    }

    /// Takes the interface of one side down, and awaits that the other has lost
    /// its carrier. Routes over the interface go, and so do its IPv6 addresses;
    /// [`Link::mend`] brings the addresses back, but no route that a test added.
    pub fn cut(&self, side: Side) -> Result<()> {
        let plug = self.plug(side);
        plug.netns.ip(&format!("link set {} down", plug.ifname))?;
        self.plug(side.other()).await_carrier(false)
    }

    /// Takes the carrier from one side, whose interface stays up and keeps its
    /// addresses: the port at the other side is shut.
    pub fn unplug(&self, side: Side) -> Result<()> {
        self.cut(side.other())
    }

    /// Undoes [`Link::cut`] and [`Link::unplug`], on both sides, and awaits that
    /// both have a carrier.
    pub fn mend(&self) -> Result<()> {
        Side::BOTH.iter().try_for_each(|side| self.plug(*side).raise())?;
        Side::BOTH.iter().try_for_each(|side| self.plug(*side).await_carrier(true))
    }

    /// Drops everything in both directions while both interfaces stay up.
    pub fn silence(&self) -> Result<()> {
        Side::BOTH.iter().try_for_each(|side| self.plug(*side).deafen())
    }

    /// Drops everything that is sent to one side, which goes on to be heard; both
    /// interfaces stay up.
    pub fn one_way(&self, deaf: Side) -> Result<()> {
        self.plug(deaf).deafen()?;
        self.plug(deaf.other()).hear()
    }

    /// Undoes [`Link::silence`] and [`Link::one_way`].
    pub fn pass(&self) -> Result<()> {
        Side::BOTH.iter().try_for_each(|side| self.plug(*side).hear())
    }

    /// Lets through so many bits a second in each direction; what is more waits.
    pub fn slow(&self, bits_per_second: u64) -> Result<()> {
        // What a hundredth of a second may carry leaves at once.
        let burst = (bits_per_second / 800).max(LEAST_BURST);
        Side::BOTH.iter().map(|side| self.plug(*side)).try_for_each(|plug| {
            let ifname = &plug.ifname;
            let tbf = format!("tbf rate {bits_per_second}bit burst {burst} limit {QUEUE_BYTES}");
            plug.tc(&format!("qdisc replace dev {ifname} root {tbf}")).map(drop)
        })
    }

    /// Undoes [`Link::slow`].
    pub fn full_speed(&self) -> Result<()> {
        Side::BOTH.iter().map(|side| self.plug(*side)).try_for_each(|plug| {
            let shown = plug.tc(&format!("qdisc show dev {} root", plug.ifname))?;
            if shown.contains("tbf") {
                plug.tc(&format!("qdisc delete dev {} root", plug.ifname))?;
            }
            Ok(())
        })
    }

    /// Undoes every fault.
    pub fn restore(&self) -> Result<()> {
        self.mend()?;
        self.pass()?;
        self.full_speed()
    }
}
