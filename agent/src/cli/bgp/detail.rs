//! `bgp show peers NAME`: one peer in full. A line that has nothing to say is left out.

use super::answer::{FamilyRow, PeerRow, PeerState};
use super::peers::{in_state, last_error, tone};
use crate::cli::elapsed::{clock, rough};
use crate::cli::output::{Look, Table, Tone, labelled};

pub(super) fn render(peer: &PeerRow, look: Look) -> String {
    let mut lines = Vec::new();
    let mut line = |label: &'static str, value: Option<String>, tone: Tone| {
        lines.extend(value.map(|value| (label, value, tone)));
    };
    line("Peer", Some(peer.name.clone()), Tone::Plain);
    line("Address", Some(peer.address.clone()), Tone::Plain);
    line("Local address", peer.local_address.clone(), Tone::Plain);
    line("AS", Some(autonomous_systems(peer)), Tone::Plain);
    line("Router ID", peer.router_id.clone(), Tone::Plain);
    line("State", Some(state(peer)), tone(peer.state));
    line("Timers", timers(peer), Tone::Plain);
    let restarting = peer.restarting.then(|| "yes, its routes are kept meanwhile".to_owned());
    line("Restarting", restarting, Tone::Warning);
    line("Last error", last_error(peer), Tone::Plain);
    line("Sessions ended", Some(peer.flaps.to_string()), Tone::Plain);
    line("Messages", Some(messages(peer)), Tone::Plain);
    let pending = peer.pending.as_ref().map(|what| format!("{what} (with the next session)"));
    line("Pending", pending, Tone::Warning);
    for missing in &peer.not_announced {
        let what = format!("{}: {}", missing.family, missing.reason);
        line("Not announced", Some(what), Tone::Warning);
    }
    let mut text = labelled(&lines, look);
    if !peer.family_details.is_empty() {
        text.push('\n');
        text.push_str(&families(&peer.family_details, look));
    }
    text
}

fn autonomous_systems(peer: &PeerRow) -> String {
    let local = peer.local_asn;
    match peer.asn {
        Some(asn) if asn == local => format!("{asn} (internal)"),
        Some(asn) => format!("{asn} (external), ours is {local}"),
        None => format!("any but ours, {local}"),
    }
}

fn state(peer: &PeerRow) -> String {
    let so_far = format!("{} for {}", peer.state, clock(in_state(peer)));
    match peer.next_attempt_seconds {
        Some(next) => format!("{so_far}, next attempt in {}", rough(next)),
        None => so_far,
    }
}

fn timers(peer: &PeerRow) -> Option<String> {
    let hold = peer.hold_time_seconds.map(|hold| format!("hold {hold}s"));
    let keepalive = peer.keepalive_seconds.map(|every| format!("keepalive {every}s"));
    let agreed: Vec<String> = hold.into_iter().chain(keepalive).collect();
    match agreed.is_empty() {
        false => Some(agreed.join(", ")),
        true if peer.state == PeerState::Established => Some("none, silence is fine".into()),
        true => None,
    }
}

fn messages(peer: &PeerRow) -> String {
    format!("{} received, {} sent", peer.messages_received, peer.messages_sent)
}

fn families(rows: &[FamilyRow], look: Look) -> String {
    let headings = vec!["FAMILY", "IN USE", "RCVD", "ACC", "ADV", "END-OF-RIB", "STALE"];
    let mut table = Table::new(headings).numbers(&["RCVD", "ACC", "ADV"]);
    for row in rows {
        let plain = |text: String| (text, Tone::Plain);
        let yes_or_no = |is: bool, yes: Tone, no: Tone| {
            if is { ("yes".to_owned(), yes) } else { ("no".to_owned(), no) }
        };
        table.row(vec![
            plain(row.family.clone()),
            yes_or_no(row.negotiated, Tone::Good, Tone::Warning),
            plain(row.received.to_string()),
            plain(row.accepted.to_string()),
            plain(row.advertised.to_string()),
            plain(end_of_rib(row).into()),
            yes_or_no(row.stale, Tone::Warning, Tone::Plain),
        ]);
    }
    table.draw(look)
}

fn end_of_rib(row: &FamilyRow) -> &'static str {
    match (row.end_of_rib_sent, row.end_of_rib_received) {
        (true, true) => "sent, received",
        (true, false) => "sent",
        (false, true) => "received",
        (false, false) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bgp::sample;

    #[test]
    fn a_peer_in_full() {
        let [up, _] = sample::peers();
        assert_eq!(
            render(&up, sample::NARROW),
            "\
Peer:            tor-a
Address:         2001:db8:ffff::1
Local address:   2001:db8:ffff::2
AS:              65000 (external), ours is 65001
Router ID:       10.0.0.1
State:           Established for 02:17:33
Timers:          hold 30s, keepalive 10s
Last error:      received Cease / Administrative Reset (6/4) (2h ago)
Sessions ended:  1
Messages:        830 received, 831 sent
Pending:         holdTime (with the next session)
Not announced:   ipv4-unicast: no IPv4 address for a next hop

FAMILY        IN USE  RCVD  ACC  ADV  END-OF-RIB      STALE
ipv6-unicast  yes       12   11    3  sent, received  no
ipv4-unicast  no         0    0    0  -               no
"
        );
    }

    #[test]
    fn a_peer_without_a_session() {
        let [_, down] = sample::peers();
        assert_eq!(
            render(&down, sample::NARROW),
            "\
Peer:            tor-b
Address:         192.0.2.2
AS:              4200000001 (external), ours is 65001
State:           Active for 00:00:05, next attempt in 3s
Last error:      cannot connect: Connection refused (5s ago)
Sessions ended:  0
Messages:        0 received, 0 sent
"
        );
    }

    #[test]
    fn every_kind_of_as_and_timer_has_words() {
        let [mut peer, _] = sample::peers();
        (peer.asn, peer.restarting) = (None, true);
        (peer.hold_time_seconds, peer.keepalive_seconds) = (None, None);
        let text = render(&peer, sample::NARROW);
        assert!(text.contains("AS:              any but ours, 65001\n"), "{text}");
        assert!(text.contains("Timers:          none, silence is fine\n"), "{text}");
        assert!(text.contains("Restarting:      yes, its routes are kept meanwhile\n"), "{text}");
        peer.asn = Some(65001);
        assert!(render(&peer, sample::NARROW).contains("AS:              65001 (internal)\n"));
    }
}
