//! `bgp show`: the node in a few lines, and its peers.

use super::answer::Summary;
use super::peers;
use crate::cli::output::{Look, Tone, labelled};

/// Instead of a table.
pub(super) const NO_BGP: &str = "This node does not speak BGP: spec.bgp is not set.\n";
/// Instead of a table.
pub(super) const NO_PEERS: &str = "No peers are configured.\n";

pub(super) fn render(summary: &Summary, look: Look) -> String {
    let Some(asn) = summary.asn else { return NO_BGP.into() };
    let node = match &summary.router_id {
        Some(id) => format!("{}, AS {asn}, router ID {id}", summary.node),
        None => format!("{}, AS {asn}", summary.node),
    };
    let listening = match summary.listening.as_slice() {
        [] => "nowhere: only this node dials".into(),
        places => places.join(", "),
    };
    let routes = format!(
        "{} originated, {} learned, {} installed",
        summary.originated, summary.learned, summary.installed
    );
    let mut lines = vec![
        ("Node", node, Tone::Plain),
        ("Listening", listening, Tone::Plain),
        ("Routes", routes, Tone::Plain),
    ];
    if let Some(drain) = &summary.drain {
        lines.push(("Drain", drain.clone(), Tone::Warning));
    }
    let mut text = labelled(&lines, look);
    text.push('\n');
    text.push_str(&match summary.peers.as_slice() {
        [] => NO_PEERS.into(),
        peers => peers::render(peers, look),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bgp::sample;

    #[test]
    fn the_node_stands_above_its_peers() {
        assert_eq!(
            render(&sample::summary(), sample::NARROW),
            "\
Node:       node-a, AS 65001, router ID 10.0.0.11
Listening:  [::]:179
Routes:     3 originated, 12 learned, 11 installed
Drain:      draining, 12 s left

PEER   ADDRESS           AS          STATE        UP/DOWN   RCVD  ACC  ADV
tor-a  2001:db8:ffff::1  65000       Established  02:17:33    12   11    3
tor-b  192.0.2.2         4200000001  Active       00:00:05     -    -    -

tor-a: ipv4-unicast is not announced: no IPv4 address for a next hop
tor-a: waits for the next session: holdTime
tor-b: cannot connect: Connection refused (5s ago, next attempt in 3s)
"
        );
    }

    #[test]
    fn what_there_is_not_is_said() {
        let mut summary = sample::summary();
        (summary.peers, summary.listening, summary.drain) = (vec![], vec![], None);
        summary.router_id = None;
        assert_eq!(
            render(&summary, sample::NARROW),
            "\
Node:       node-a, AS 65001
Listening:  nowhere: only this node dials
Routes:     3 originated, 12 learned, 11 installed

No peers are configured.
"
        );
        summary.asn = None;
        assert_eq!(render(&summary, sample::NARROW), NO_BGP);
    }
}
