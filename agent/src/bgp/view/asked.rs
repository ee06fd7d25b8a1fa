//! What is asked of the table, in the speaker's own words: which prefixes to look for where, and of
//! those found which paths. Pure; looked at once per prefix, so it allocates nothing.

use std::fmt::{self, Write};
use std::net::IpAddr;

use flock_bgp::{Family, PathView, PeerKey, Spot};
use ipnet::IpNet;

use super::Names;
use crate::cli::bgp::{Destination, Needle, RouteRow, RoutesArgs, Which};

/// What is asked.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) which: Which,
    /// Who tells, or is told; `None`: whoever.
    pub(super) peers: Option<Vec<PeerKey>>,
    /// Only this prefix and what is within it.
    within: Option<IpNet>,
    find: Option<Needle>,
    /// Peers whose names have what is looked for.
    found: Vec<PeerKey>,
}

/// Where to look.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// These prefixes, in order; whether there are such routes is to be seen.
    These(Vec<IpNet>),
    /// All of these families, in order.
    All(Vec<Family>),
}

impl Asked {
    pub(super) fn new(args: &RoutesArgs, names: &Names) -> Self {
        let of = |is: &dyn Fn(&str) -> bool| -> Vec<PeerKey> {
            names.iter().filter(|(_, name)| is(name)).map(|(key, _)| *key).collect()
        };
        let within = match args.prefix {
            Some(Destination::Prefix(net)) if args.within => Some(net),
            _ => None,
        };
        Self {
            which: args.which,
            peers: args.peer.as_ref().map(|peer| of(&|name| name == peer.as_str())),
            within,
            found: args.find.as_ref().map(|find| of(&|name| find.is_in(name))).unwrap_or_default(),
            find: args.find.clone(),
        }
    }

    /// The peers whose tables of what they were told are looked at.
    pub(super) fn told(&self, names: &Names) -> Vec<PeerKey> {
        self.peers.clone().unwrap_or_else(|| names.keys().copied().collect())
    }

    /// Whether rows may come of a prefix that somebody tells.
    pub(super) fn admits(&self, spot: &Spot<'_>) -> bool {
        let which = match self.which {
            Which::All | Which::Advertised => true,
            Which::Received => spot.tellers().next().is_some(),
            Which::Originated => spot.is_originated(),
        };
        let among = |peers: &[PeerKey]| spot.tellers().any(|peer| peers.contains(&peer));
        which
            && self.holds(&spot.net)
            && self.peers.as_deref().is_none_or(among)
            // Who owns what we originate is known later.
            && (among(&self.found) || spot.is_originated() || self.has_text(&spot.net))
    }

    /// Whether rows may come of a prefix that peers were told.
    pub(super) fn holds(&self, net: &IpNet) -> bool {
        self.within.is_none_or(|within| within.contains(net))
    }

    /// Whether a path is asked for.
    pub(super) fn admits_path(&self, path: &PathView<'_>) -> bool {
        let which = match self.which {
            Which::All | Which::Advertised => true,
            Which::Received => path.peer.is_some(),
            Which::Originated => path.peer.is_none(),
        };
        let by = |peers: &Vec<PeerKey>| path.peer.is_some_and(|peer| peers.contains(&peer));
        which && self.peers.as_ref().is_none_or(by)
    }

    /// Whether a row, with its owner, has what is looked for.
    pub(super) fn is_found(&self, row: &RouteRow) -> bool {
        self.find.as_ref().is_none_or(|find| {
            let texts = [Some(&row.prefix), row.owner.as_ref(), row.peer.as_ref()];
            texts.into_iter().flatten().any(|text| find.is_in(text))
        })
    }

    fn has_text(&self, net: &IpNet) -> bool {
        let Some(find) = &self.find else { return true };
        let mut text = Text::new();
        write!(text, "{net}").is_ok() && find.is_in(text.as_str())
    }
}

/// Where the routes of a question are.
pub(super) fn place(args: &RoutesArgs) -> Where {
    let family = |address: IpAddr| match address {
        IpAddr::V4(_) => Family::Ipv4,
        IpAddr::V6(_) => Family::Ipv6,
    };
    match args.prefix {
        None => Where::All(Family::ALL.to_vec()),
        Some(Destination::Prefix(net)) if args.within => Where::All(vec![family(net.addr())]),
        Some(Destination::Prefix(net)) => Where::These(vec![net]),
        Some(Destination::Address(address)) => Where::These(holders(address)),
    }
}

/// Every prefix that holds an address, in order: the shorter, the smaller.
fn holders(address: IpAddr) -> Vec<IpNet> {
    let host = IpNet::from(address);
    let of = |length| IpNet::new(address, length).ok().map(|net| net.trunc());
    (0..=host.prefix_len()).filter_map(of).collect()
}

/// Room for the text of a prefix.
struct Text {
    bytes: [u8; 48],
    end: usize,
}

impl Text {
    fn new() -> Self {
        Self { bytes: [0; 48], end: 0 }
    }

    fn as_str(&self) -> &str {
        self.bytes.get(..self.end).and_then(|text| str::from_utf8(text).ok()).unwrap_or_default()
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.end + text.len();
        self.bytes.get_mut(self.end..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.end = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(prefix: &str, within: bool) -> RoutesArgs {
        let prefix = (!prefix.is_empty()).then(|| prefix.parse().unwrap());
        RoutesArgs { prefix, within, ..RoutesArgs::default() }
    }

    #[test]
    fn what_is_named_is_not_looked_for() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        use Family::{Ipv4, Ipv6};
        assert_eq!(place(&args("", false)), Where::All(vec![Ipv4, Ipv6]));
        assert_eq!(place(&args("2001:db8::/32", true)), Where::All(vec![Ipv6]));
        assert_eq!(place(&args("10.0.0.0/8", false)), Where::These(vec![net("10.0.0.0/8")]));
        let Where::These(holders) = place(&args("10.1.2.3", false)) else { panic!() };
        assert_eq!(holders.len(), 33);
        assert!(holders.is_sorted());
        assert_eq!((holders[8], holders[32]), (net("10.0.0.0/8"), net("10.1.2.3/32")));
        let Where::These(holders) = place(&args("2001:db8::1", false)) else { panic!() };
        assert_eq!(holders.len(), 129);
        assert!(holders.is_sorted());
    }

    #[test]
    fn the_longest_prefix_has_room() {
        let longest = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128";
        let mut text = Text::new();
        write!(text, "{}", longest.parse::<IpNet>().unwrap()).unwrap();
        assert_eq!(text.as_str(), longest);
        assert!(write!(text, "{longest}").is_err(), "more is refused, not cut");
    }
}
