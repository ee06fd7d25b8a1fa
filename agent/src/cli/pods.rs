//! `flock-agent pods`.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Show;
use super::exit::Ended;
use super::output::{Look, Table, Tone};
use super::view::View;
use crate::server::admin::op;

/// Below the flags.
pub(super) const HELP: &str = "\
A row is an attachment: an interface that flock gave to a container. READY is whether the pod is \
Ready and not terminating, which its anycast addresses follow. With -o wide also its anycast and \
further addresses, its interface on this node and its container.

Examples:
  flock-agent pods
  flock-agent pods --watch
  flock-agent pods -o json | jq -r '.pods[] | select(.ready | not) | .name'";

/// The answer: `-o json` prints exactly this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodList {
    /// Sorted by namespace and name.
    pub pods: Vec<PodRow>,
}

/// One attachment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodRow {
    /// The pod's namespace; empty when the runtime named none.
    pub namespace: String,
    /// The pod's name; empty when the runtime named none.
    pub name: String,
    /// The runtime's container id.
    pub container_id: String,
    /// The interface inside the pod.
    pub ifname: String,
    /// The primary IPv6 address.
    pub ip6: Option<IpAddr>,
    /// The primary IPv4 address.
    pub ip4: Option<IpAddr>,
    /// Anycast addresses, on the pod's `lo`.
    pub anycast: Vec<IpAddr>,
    /// Addresses from the `addresses` annotation.
    pub addresses: Vec<IpAddr>,
    /// `pending` or `committed`.
    pub state: String,
    /// The host's end of the pod's link.
    pub host_interface: String,
    /// Ready, and not terminating.
    pub ready: bool,
}

/// Asks and prints, once or again and again.
pub fn run(show: &Show) -> anyhow::Result<Ended> {
    View::new(op::PODS, |list: &PodList, look| Ok(render(list, look))).show(show)
}

fn render(list: &PodList, look: Look) -> String {
    if list.pods.is_empty() {
        return "No pods on this node.\n".into();
    }
    let mut headings = vec!["NAMESPACE", "NAME", "IPV6", "IPV4", "READY", "STATE"];
    if look.wide {
        headings.extend(["ANYCAST", "ADDRESSES", "INTERFACE", "CONTAINER"]);
    }
    let mut table = Table::new(headings);
    for pod in &list.pods {
        let plain = |text: String| (text, Tone::Plain);
        let ready = if pod.ready { ("yes", Tone::Good) } else { ("no", Tone::Warning) };
        let state = if pod.state == "committed" { Tone::Plain } else { Tone::Warning };
        let mut row = vec![
            plain(pod.namespace.clone()),
            plain(named(pod)),
            plain(pod.ip6.map(|ip| ip.to_string()).unwrap_or_default()),
            plain(pod.ip4.map(|ip| ip.to_string()).unwrap_or_default()),
            (ready.0.into(), ready.1),
            (pod.state.clone(), state),
        ];
        if look.wide {
            row.extend([
                plain(joined(&pod.anycast)),
                plain(joined(&pod.addresses)),
                plain(pod.host_interface.clone()),
                plain(pod.container_id.clone()),
            ]);
        }
        table.row(row);
    }
    table.draw(look)
}

/// The pod's name, or the start of its container's id where the runtime gave none.
fn named(pod: &PodRow) -> String {
    if pod.name.is_empty() { pod.container_id.chars().take(12).collect() } else { pod.name.clone() }
}

fn joined(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> PodList {
        PodList {
            pods: vec![PodRow {
                namespace: "shop".into(),
                name: "web-0".into(),
                container_id: "c1".into(),
                ifname: "eth0".into(),
                ip6: Some("2001:db8::7".parse().unwrap()),
                ip4: None,
                anycast: vec!["192.0.2.1".parse().unwrap()],
                addresses: vec![],
                state: "committed".into(),
                host_interface: "flock01234567".into(),
                ready: true,
            }],
        }
    }

    #[test]
    fn the_json_keys_are_the_contract() {
        let json = serde_json::to_value(list()).unwrap();
        let keys: Vec<_> = json["pods"][0].as_object().unwrap().keys().cloned().collect();
        assert_eq!(
            keys,
            [
                "addresses",
                "anycast",
                "containerId",
                "hostInterface",
                "ifname",
                "ip4",
                "ip6",
                "name",
                "namespace",
                "ready",
                "state"
            ]
        );
    }

    #[test]
    fn the_table_reads_well() {
        assert_eq!(
            render(&list(), Look::PIPE),
            "NAMESPACE  NAME   IPV6         IPV4  READY  STATE\n\
             shop       web-0  2001:db8::7  -     yes    committed\n"
        );
        let wide = Look { wide: true, ..Look::PIPE };
        assert!(render(&list(), wide).contains("192.0.2.1  -          flock01234567  c1"));
        assert_eq!(render(&PodList { pods: vec![] }, Look::PIPE), "No pods on this node.\n");
    }
}
