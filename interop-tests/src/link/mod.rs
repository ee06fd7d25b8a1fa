//! Cables: a veth pair whose ends are born in two namespaces, and [`Link`], which
//! makes such a cable fail in the ways that cables and switches do.

mod faults;

use anyhow::Result;

pub use self::faults::{Link, Plug, Side};

use crate::netns::Netns;

/// One end of a cable.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// Where it is plugged in.
    pub netns: &'a Netns,
    /// What the interface is called there.
    pub ifname: &'a str,
    /// Addresses with their prefix length, of either family.
    pub addresses: &'a [&'a str],
}

/// Connects two namespaces; both ends are up and addressed, without waiting for
/// duplicate address detection.
pub fn connect(one: End<'_>, other: End<'_>) -> Result<()> {
    one.netns.ip(&format!(
        "link add {} type veth peer name {} netns {}",
        one.ifname,
        other.ifname,
        other.netns.name()
    ))?;
    for end in [one, other] {
        end.netns.ip(&format!("link set {} up", end.ifname))?;
        for address in end.addresses {
            let no_dad = if address.contains(':') { "nodad" } else { "" };
            end.netns.ip(&format!("address add {address} dev {} {no_dad}", end.ifname))?;
        }
    }
    Ok(())
}
