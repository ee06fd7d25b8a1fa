//! The configuration file, and the same words in commands: JSON in, the core's own types out.
//! Decides what can be said and what is meant where nothing is; unknown keys are refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use flock_bgp::{
    AddressRule, Community, Export, Family, GracefulRestart, Import, LargeCommunity, NextHops,
    Origination, PeerAsn, PeerConfig, Role, Secret, Transport, Ttl,
};
use ipnet::IpNet;
use serde::Deserialize;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) asn: u32,
    pub(crate) router_id: Ipv4Addr,
    #[serde(default)]
    pub(crate) listen: Vec<SocketAddr>,
    #[serde(default)]
    pub(crate) transit: bool,
    #[serde(default = "yes")]
    pub(crate) report: bool,
    #[serde(default)]
    pub(crate) restarting: bool,
    #[serde(default = "yes")]
    pub(crate) forwarding: bool,
    #[serde(default, rename = "hold_end_of_rib", alias = "holdEndOfRib")]
    pub(crate) hold_end_of_rib: bool,
    pub(crate) connected: Option<Vec<IpNet>>,
    #[serde(default)]
    pub(crate) own: Vec<IpNet>,
    #[serde(default)]
    pub(crate) communities: Vec<String>,
    #[serde(default = "one")]
    pub(crate) threads: usize,
    #[serde(default)]
    pub(crate) peers: Vec<Peer>,
    #[serde(default)]
    pub(crate) originate: Vec<Route>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Peer {
    name: String,
    address: IpAddr,
    asn: Asn,
    #[serde(default = "bgp")]
    port: u16,
    local_address: Option<IpAddr>,
    families: Option<Vec<String>>,
    #[serde(default = "thirty")]
    hold_time: u64,
    keepalive: Option<f64>,
    #[serde(default = "five")]
    connect_retry: f64,
    password: Option<String>,
    #[serde(default)]
    ttl_security: bool,
    multihop: Option<u8>,
    #[serde(default)]
    passive: bool,
    #[serde(default = "Restart::usual")]
    graceful_restart: Option<Restart>,
    import: Option<Accept>,
    #[serde(default)]
    export: Tell,
    role: Option<String>,
    #[serde(default)]
    next_hop: Ways,
    #[serde(default)]
    add_path_receive: bool,
    #[serde(default = "yes")]
    extended_messages: bool,
    shutdown: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Asn {
    Number(u32),
    Word(String),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Restart {
    #[serde(default = "two_minutes")]
    time: u64,
    #[serde(default)]
    notification: bool,
    #[serde(default = "six_minutes")]
    stale_time: u64,
}

impl Restart {
    #[allow(clippy::unnecessary_wraps, reason = "serde asks for the field's own type")]
    fn usual() -> Option<Self> {
        Some(Self { time: two_minutes(), notification: false, stale_time: six_minutes() })
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Accept {
    accept: Vec<String>,
    #[serde(default = "thousand")]
    max_prefixes: u32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Tell {
    communities: Vec<String>,
    local_pref: Option<u32>,
    med: Option<u32>,
    prepend: u8,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Ways {
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Route {
    prefix: IpNet,
    #[serde(default)]
    communities: Vec<String>,
    med: Option<u32>,
    local_pref: Option<u32>,
}

fn yes() -> bool {
    true
}
fn one() -> usize {
    1
}
fn bgp() -> u16 {
    179
}
fn thirty() -> u64 {
    30
}
fn five() -> f64 {
    5.0
}
fn two_minutes() -> u64 {
    120
}
fn six_minutes() -> u64 {
    360
}
fn thousand() -> u32 {
    1000
}

/// Reads a configuration; what is wrong is named with the path to it.
pub(crate) fn parse(text: &str) -> Result<Config> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let config: Config = serde_path_to_error::deserialize(&mut reader)?;
    reader.end()?;
    ensure!(config.asn != 0, "asn: 0 is nobody's (RFC 7607)");
    ensure!(!config.router_id.is_unspecified(), "routerId: must not be 0.0.0.0 (RFC 6286)");
    ensure!(config.threads > 0, "threads: at least 1");
    let placed = config.own.is_empty() || config.connected.is_some();
    ensure!(placed, "own: say which networks are connected, too, even if none is");
    Ok(config)
}

/// Peers as the core wants them, each name and address once.
pub(crate) fn peers(peers: &[Peer], asn: u32) -> Result<Vec<PeerConfig>> {
    let mut known = Vec::with_capacity(peers.len());
    for peer in peers {
        let config = peer.config(asn).with_context(|| format!("peer {:?}", peer.name))?;
        let twin = known.iter().find(|other: &&PeerConfig| {
            other.name == config.name || other.address == config.address
        });
        if let Some(twin) = twin {
            let (name, address) = (&config.name, config.address);
            bail!(
                "peer {name:?} at {address}: {:?} has its name or its address already",
                twin.name
            );
        }
        known.push(config);
    }
    Ok(known)
}

/// Originations as the core wants them, with `everywhere` on each.
pub(crate) fn originations(
    routes: &[Route],
    everywhere: &[String],
) -> Result<Vec<(IpNet, Origination)>> {
    routes.iter().map(|route| route.origination(everywhere)).collect()
}

impl Peer {
    fn config(&self, asn: u32) -> Result<PeerConfig> {
        let whose = match &self.asn {
            Asn::Number(0) => bail!("asn: 0 is nobody's (RFC 7607)"),
            Asn::Number(number) => PeerAsn::Number(*number),
            Asn::Word(word) if word == "external" => PeerAsn::External,
            Asn::Word(word) if word == "internal" => PeerAsn::Internal,
            Asn::Word(word) => bail!("asn: {word:?} is neither a number, external nor internal"),
        };
        let address = self.address.to_canonical();
        let is_group = address.is_multicast() || address.is_unspecified();
        ensure!(!is_group, "address: {address} is nobody's own");
        if let IpAddr::V6(address) = address {
            let why = "is of a link, and no link can be named yet";
            ensure!(!address.is_unicast_link_local(), "address: {address} {why}");
        }
        ensure!(self.port != 0, "port: 0 cannot be dialled");
        ensure!(!self.name.is_empty(), "name: empty");
        let internal = whose == PeerAsn::Internal || whose == PeerAsn::Number(asn);
        ensure!(
            self.local_address.is_none_or(|local| local.is_ipv4() == self.address.is_ipv4()),
            "localAddress: not of the family of the address"
        );
        let (communities, large_communities) = communities(&self.export.communities)?;
        Ok(PeerConfig {
            name: self.name.as_str().into(),
            address,
            scope: None,
            asn: whose,
            port: self.port,
            local_address: self.local_address,
            transport: Transport { md5: self.secret()?, ttl: self.ttl(internal)? },
            passive: self.passive,
            shutdown: self.shutdown.as_deref().map(Into::into),
            withheld: None,
            families: self.families()?,
            hold_time: match self.hold_time {
                0 => None,
                1 | 2 => bail!("holdTime: 0 or at least 3 seconds (RFC 4271 §4.2)"),
                seconds @ 3..=65535 => Some(Duration::from_secs(seconds)),
                _ => bail!("holdTime: at most 65535 seconds"),
            },
            keepalive: self.keepalive.map(|time| seconds("keepalive", time)).transpose()?,
            connect_retry: seconds("connectRetry", self.connect_retry)?,
            graceful_restart: self.restart()?,
            extended_messages: self.extended_messages,
            add_path_receive: self.add_path_receive,
            role: self.role.as_deref().map(role).transpose()?,
            import: self.import.as_ref().map(import).transpose()?,
            export: Export {
                communities,
                large_communities,
                local_pref: self.export.local_pref,
                med: self.export.med,
                prepend: self.export.prepend,
            },
            next_hops: NextHops { ipv4: self.next_hop.ipv4, ipv6: self.next_hop.ipv6 },
        })
    }

    fn secret(&self) -> Result<Option<Secret>> {
        let Some(password) = &self.password else { return Ok(None) };
        ensure!((1..=80).contains(&password.len()), "password: 1 to 80 bytes");
        Ok(Some(Secret(Arc::from(password.as_bytes()))))
    }

    fn ttl(&self, internal: bool) -> Result<Ttl> {
        Ok(match (self.ttl_security, self.multihop) {
            (true, Some(_)) => bail!("ttlSecurity and multihop exclude each other"),
            (true, None) => Ttl::Security,
            (false, Some(0)) => bail!("multihop: at least 1, or null"),
            (false, Some(hops)) => Ttl::Hops(hops),
            (false, None) if internal => Ttl::Hops(64),
            (false, None) => Ttl::Hops(1),
        })
    }

    fn families(&self) -> Result<Vec<Family>> {
        let Some(names) = &self.families else { return Ok(Family::ALL.to_vec()) };
        let mut families = Vec::new();
        for name in names {
            let family = Family::ALL.into_iter().find(|family| family.name() == name);
            let family = family.with_context(|| format!("families: {name:?} is none"))?;
            ensure!(!families.contains(&family), "families: {name} twice");
            families.push(family);
        }
        ensure!(!families.is_empty(), "families: at least one");
        Ok(families)
    }

    fn restart(&self) -> Result<Option<GracefulRestart>> {
        let Some(restart) = &self.graceful_restart else { return Ok(None) };
        ensure!(restart.time <= 4095, "gracefulRestart.time: at most 4095 seconds (RFC 4724 §3)");
        Ok(Some(GracefulRestart {
            time: Duration::from_secs(restart.time),
            notification: restart.notification,
            stale_time: Duration::from_secs(restart.stale_time),
        }))
    }
}

impl Route {
    fn origination(&self, everywhere: &[String]) -> Result<(IpNet, Origination)> {
        let all: Vec<_> = everywhere.iter().chain(&self.communities).cloned().collect();
        let (communities, large_communities) =
            communities(&all).with_context(|| format!("prefix {}", self.prefix))?;
        let origination = Origination {
            communities,
            large_communities,
            med: self.med,
            local_pref: self.local_pref,
        };
        Ok((self.prefix.trunc(), origination))
    }
}

fn seconds(name: &str, number: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(number)
        .ok()
        .filter(|time| !time.is_zero() && *time <= Duration::from_secs(65_535))
        .with_context(|| format!("{name}: {number} is not a time of up to 65535 seconds"))
}

fn role(name: &str) -> Result<Role> {
    Ok(match name {
        "provider" => Role::Provider,
        "rs" => Role::RouteServer,
        "rs-client" => Role::RouteServerClient,
        "customer" => Role::Customer,
        "peer" => Role::Peer,
        _ => bail!("role: {name:?} is not provider, rs, rs-client, customer or peer"),
    })
}

fn import(accept: &Accept) -> Result<Import> {
    let accept_rules = accept.accept.iter().map(|rule| rule_of(rule)).collect::<Result<_>>()?;
    Ok(Import { accept: accept_rules, max_prefixes: accept.max_prefixes })
}

/// `net [ge G] [le L]`.
fn rule_of(text: &str) -> Result<AddressRule> {
    let wrong = || format!("accept: {text:?} is not PREFIX [ge N] [le N]");
    let mut words = text.split_whitespace();
    let net: IpNet = words.next().with_context(wrong)?.parse().with_context(wrong)?;
    let (mut least, mut most) = (None, None);
    while let Some(word) = words.next() {
        let number: u8 = words.next().with_context(wrong)?.parse().with_context(wrong)?;
        let slot = match word {
            "ge" => &mut least,
            "le" => &mut most,
            _ => bail!(wrong()),
        };
        ensure!(slot.replace(number).is_none(), wrong());
    }
    let longest = if least.is_some() { net.max_prefix_len() } else { net.prefix_len() };
    let (min, max) = (least.unwrap_or(net.prefix_len()), most.unwrap_or(longest));
    ensure!(net.prefix_len() <= min && min <= max && max <= net.max_prefix_len(), wrong());
    Ok(AddressRule { net: net.trunc(), min, max })
}

/// `A:B` is a community (RFC 1997), `A:B:C` a large one (RFC 8092).
fn communities(texts: &[String]) -> Result<(Vec<Community>, Vec<LargeCommunity>)> {
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for text in texts {
        let wrong = || format!("communities: {text:?} is neither A:B nor A:B:C");
        let numbers: Vec<u32> =
            text.split(':').map(|part| part.parse().with_context(wrong)).collect::<Result<_>>()?;
        match *numbers.as_slice() {
            [a, b] if a <= 0xFFFF && b <= 0xFFFF => small.push(Community(a << 16 | b)),
            [a, b, c] => large.push(LargeCommunity(a, b, c)),
            _ => bail!(wrong()),
        }
    }
    Ok((small, large))
}

#[cfg(test)]
mod tests;
