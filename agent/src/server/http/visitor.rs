//! Whose browser may look: decided by the `Host` that it asks for and by where its question comes
//! from. Pure; what is shown is decided elsewhere.
//!
//! The page has no password, and a browser on the node or behind a tunnel reaches it for whichever
//! site is open beside it. Such a site cannot read our answers, unless it has its own name lead to
//! our address (DNS rebinding): then the browser takes us for that site and sends its name as `Host`.
//! An address cannot be rebound, and neither can `localhost`; other names are refused, but for the
//! node's own where the page is served to a network.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use hyper::header::{HOST, HeaderMap};
use hyper::{Request, Uri, Version};

/// Names under which the page may be asked for, beside addresses and `localhost`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnNames(Vec<String>);

impl OwnNames {
    /// At a loopback address none: no name leads there but `localhost`. Elsewhere the node's and the
    /// machine's.
    pub fn at(address: SocketAddr, node: &str) -> Self {
        if address.ip().to_canonical().is_loopback() {
            return Self::default();
        }
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self([node, &machine].map(str::to_ascii_lowercase).into())
    }
}

/// Why a visitor is sent away, in words for the one who wonders.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Stranger {
    #[error(
        "the page is not served under the name {0:?}, because any name may be made to lead here; ask for it by the address, or as localhost"
    )]
    Name(String),
    #[error("a request has one Host; this one has none or several, or one that is no text")]
    NoName,
    #[error("only the page itself may ask this, not another site that is open in the same browser")]
    Elsewhere,
}

/// Whether the page may be shown to who asks like this.
pub(super) fn may_look<B>(request: &Request<B>, names: &OwnNames) -> Result<(), Stranger> {
    match host(request.uri(), request.headers(), request.version())? {
        Some(host) if !is_ours(host, names) => {
            Err(Stranger::Name(host.chars().take(100).collect()))
        }
        _ => Ok(()),
    }
}

/// Whether a question of the page may be answered. Browsers say where a question comes from, and
/// nobody else has to.
pub(super) fn may_ask<B>(request: &Request<B>, names: &OwnNames) -> Result<(), Stranger> {
    may_look(request, names)?;
    match request.headers().get("sec-fetch-site").map(|site| site.as_bytes()) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(Stranger::Elsewhere),
    }
}

/// What was asked for: in the request's target where it is whole, else by `Host`, which HTTP/1.0 may
/// leave out.
fn host<'a>(
    target: &'a Uri,
    headers: &'a HeaderMap,
    version: Version,
) -> Result<Option<&'a str>, Stranger> {
    let mut given = headers.get_all(HOST).iter();
    let named = match (given.next(), given.next()) {
        (Some(one), None) => Some(one.to_str().map_err(|_| Stranger::NoName)?),
        (None, _) if version == Version::HTTP_10 => None,
        _ => return Err(Stranger::NoName),
    };
    Ok(target.authority().map(|authority| authority.as_str()).or(named))
}

fn is_ours(host: &str, names: &OwnNames) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else { return false };
            return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || is_port(port));
        }
        None => match host.find(':') {
            Some(at) => host.split_at(at),
            None => (host, ""),
        },
    };
    let name = name.to_ascii_lowercase();
    let is_known =
        name == "localhost" || name.parse::<Ipv4Addr>().is_ok() || names.0.contains(&name);
    is_known && (port.is_empty() || is_port(port))
}

/// A colon and a number.
fn is_port(text: &str) -> bool {
    let digits = text.strip_prefix(':').unwrap_or_default();
    digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(hosts: &[&str], site: Option<&str>, version: Version) -> Request<()> {
        let mut request = Request::get("/").version(version);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        if let Some(site) = site {
            request = request.header("sec-fetch-site", site);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn an_address_or_localhost_and_no_other_name() {
        let own = OwnNames::at("192.0.2.1:9179".parse().unwrap(), "Node-A");
        let table = [
            ("127.0.0.1", true),
            ("127.0.0.1:9179", true),
            ("192.0.2.7:80", true),
            ("[::1]", true),
            ("[::1]:9179", true),
            ("[2001:db8::7]:9179", true),
            ("localhost", true),
            ("LocalHost:1", true),
            ("node-a:9179", true),
            ("NODE-A", true),
            ("node-b", false),
            ("node-a.example.org", false),
            ("localhost.example.org", false),
            ("x.localhost", false),
            ("localhost.", false),
            ("127.0.0.1.example.org", false),
            ("127.0.0.1:", false),
            ("127.0.0.1:x", false),
            ("127.0.0.1:99999", false),
            ("127.1", false),
            ("2130706433", false),
            ("0x7f000001", false),
            ("::1", false),
            ("[::1", false),
            ("[::1]x", false),
            ("[::1%eth0]", false),
            ("[127.0.0.1]", false),
            ("user@127.0.0.1", false),
            ("", false),
        ];
        for (host, wanted) in table {
            let asked = request(&[host], None, Version::HTTP_11);
            assert_eq!(may_look(&asked, &own).is_ok(), wanted, "{host:?}");
        }
        let by_name = request(&["node-a"], None, Version::HTTP_11);
        let near = OwnNames::at("127.0.0.1:9179".parse().unwrap(), "Node-A");
        assert!(may_look(&by_name, &near).is_err(), "it leads to another address");
    }

    #[test]
    fn one_host_unless_the_protocol_knows_none() {
        let none = OwnNames::default();
        let look = |hosts: &[&str], version| may_look(&request(hosts, None, version), &none);
        assert_eq!(look(&[], Version::HTTP_10), Ok(()));
        assert_eq!(look(&[], Version::HTTP_11), Err(Stranger::NoName));
        assert_eq!(look(&["[::1]", "evil.example"], Version::HTTP_11), Err(Stranger::NoName));
        assert!(look(&["evil.example"], Version::HTTP_10).is_err());
        let whole =
            Request::get("http://evil.example/").header(HOST, "localhost").body(()).unwrap();
        assert_eq!(may_look(&whole, &none), Err(Stranger::Name("evil.example".into())));
    }

    #[test]
    fn another_site_may_lead_to_the_page_and_ask_nothing() {
        let none = OwnNames::default();
        for (site, may) in [
            (None, true),
            (Some("same-origin"), true),
            (Some("none"), true),
            (Some("cross-site"), false),
            (Some("same-site"), false),
            (Some(""), false),
        ] {
            let asked = request(&["localhost"], site, Version::HTTP_11);
            assert_eq!(may_ask(&asked, &none).is_ok(), may, "{site:?}");
            assert!(may_look(&asked, &none).is_ok(), "{site:?}: a link is followed");
        }
    }
}
