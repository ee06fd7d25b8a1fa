//! `bgp show peers`: a line per peer that fits 80 columns for ordinary names, and below it, a line
//! each, what is worth a look: why a session is not there, what is not announced, what waits.

use super::answer::{PeerRow, PeerState};
use crate::cli::elapsed::{clock, rough};
use crate::cli::output::{Look, Table, Tone, fold};

pub(super) fn render(peers: &[PeerRow], look: Look) -> String {
    let mut headings = vec!["PEER", "ADDRESS", "AS", "STATE", "UP/DOWN", "RCVD", "ACC", "ADV"];
    if look.wide {
        headings.extend(["FAMILIES", "LOCAL ADDRESS", "ROUTER ID", "HOLD", "FLAPS", "LAST ERROR"]);
    }
    let mut table = Table::new(headings).numbers(&["RCVD", "ACC", "ADV", "HOLD", "FLAPS"]);
    for peer in peers {
        let mut row = narrow(peer);
        if look.wide {
            row.extend(wide(peer));
        }
        table.row(row);
    }
    let mut text = table.draw(look);
    let notes: Vec<String> = peers.iter().flat_map(|peer| notes(peer, look.wide)).collect();
    if !notes.is_empty() {
        text.push('\n');
        text.extend(notes.iter().map(|note| fold(note, look.width, 2)));
    }
    text
}

fn narrow(peer: &PeerRow) -> Vec<(String, Tone)> {
    let plain = |text: String| (text, Tone::Plain);
    let count = |count: u32| plain(if counts(peer) { count.to_string() } else { String::new() });
    vec![
        plain(peer.name.clone()),
        plain(peer.address.clone()),
        plain(peer.asn.map(|asn| asn.to_string()).unwrap_or_default()),
        (peer.state.to_string(), tone(peer.state)),
        plain(clock(in_state(peer))),
        count(peer.received),
        count(peer.accepted),
        count(peer.advertised),
    ]
}

fn wide(peer: &PeerRow) -> Vec<(String, Tone)> {
    let plain = |text: String| (text, Tone::Plain);
    vec![
        plain(peer.families.join(",")),
        plain(peer.local_address.clone().unwrap_or_default()),
        plain(peer.router_id.clone().unwrap_or_default()),
        plain(peer.hold_time_seconds.map(|hold| format!("{hold}s")).unwrap_or_default()),
        plain(peer.flaps.to_string()),
        plain(last_error(peer).unwrap_or_default()),
    ]
}

/// Without a session there is nothing to count, unless routes are kept over a restart.
fn counts(peer: &PeerRow) -> bool {
    let kept = [peer.received, peer.accepted, peer.advertised];
    peer.state == PeerState::Established || kept.iter().any(|count| *count != 0)
}

/// Seconds in the state that is shown.
pub(super) fn in_state(peer: &PeerRow) -> u64 {
    match peer.state {
        PeerState::Established => peer.uptime_seconds,
        _ => peer.state_seconds,
    }
}

/// How a state is meant.
pub(super) fn tone(state: PeerState) -> Tone {
    match state {
        PeerState::Established => Tone::Good,
        PeerState::Idle => Tone::Bad,
        _ => Tone::Warning,
    }
}

/// With how long ago it was.
pub(super) fn last_error(peer: &PeerRow) -> Option<String> {
    let error = peer.last_error.as_ref()?;
    Some(match peer.last_error_seconds_ago {
        Some(ago) => format!("{error} ({} ago)", rough(ago)),
        None => error.clone(),
    })
}

/// A line for each thing that is worth a look. The error of a session that came back is history,
/// and the wide table has a column for it.
fn notes(peer: &PeerRow, wide: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if peer.state != PeerState::Established && !wide {
        notes.extend(absence(peer));
    }
    if peer.restarting {
        notes.push("restarts; its routes are kept meanwhile".into());
    }
    for missing in &peer.not_announced {
        notes.push(format!("{} is not announced: {}", missing.family, missing.reason));
    }
    if let Some(pending) = &peer.pending {
        notes.push(format!("waits for the next session: {pending}"));
    }
    notes.into_iter().map(|note| format!("{}: {note}\n", peer.name)).collect()
}

/// Why there is no session, and when it is tried again.
fn absence(peer: &PeerRow) -> Option<String> {
    let error = peer.last_error.as_ref()?;
    let ago = peer.last_error_seconds_ago.map(|ago| format!("{} ago", rough(ago)));
    let next = peer.next_attempt_seconds.map(|next| format!("next attempt in {}", rough(next)));
    let when: Vec<String> = ago.into_iter().chain(next).collect();
    Some(if when.is_empty() { error.clone() } else { format!("{error} ({})", when.join(", ")) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bgp::sample;

    #[test]
    fn the_narrow_table_fits_eighty_columns() {
        let text = render(&sample::peers(), sample::NARROW);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn the_wide_table_has_the_error_in_a_column() {
        assert_eq!(
            render(&sample::peers(), sample::WIDE),
            "\
PEER   ADDRESS           AS          STATE        UP/DOWN   RCVD  ACC  ADV  FAMILIES      LOCAL ADDRESS     ROUTER ID  HOLD  FLAPS  LAST ERROR
tor-a  2001:db8:ffff::1  65000       Established  02:17:33    12   11    3  ipv6-unicast  2001:db8:ffff::2  10.0.0.1    30s      1  received Cease / Administrative Reset (6/4) (2h ago)
tor-b  192.0.2.2         4200000001  Active       00:00:05     -    -    -  ipv4-unicast  -                 -             -      0  cannot connect: Connection refused (5s ago)

tor-a: ipv4-unicast is not announced: no IPv4 address for a next hop
tor-a: waits for the next session: holdTime
"
        );
    }

    #[test]
    fn a_peer_that_restarts_keeps_its_counts() {
        let [mut peer, _] = sample::peers();
        peer.state = PeerState::Active;
        (peer.restarting, peer.not_announced, peer.pending) = (true, vec![], None);
        (peer.last_error_seconds_ago, peer.next_attempt_seconds) = (None, None);
        assert_eq!(
            render(&[peer], sample::NARROW),
            "\
PEER   ADDRESS           AS     STATE   UP/DOWN   RCVD  ACC  ADV
tor-a  2001:db8:ffff::1  65000  Active  02:17:34    12   11    3

tor-a: received Cease / Administrative Reset (6/4)
tor-a: restarts; its routes are kept meanwhile
"
        );
    }

    #[test]
    fn states_have_colours_on_a_terminal_only() {
        let mut look = sample::NARROW;
        assert!(!render(&sample::peers(), look).contains('\x1b'));
        look.colour = true;
        let text = render(&sample::peers(), look);
        assert!(text.contains("\x1b[32mEstablished\x1b[0m"), "{text}");
        assert!(text.contains("\x1b[33mActive\x1b[0m"), "{text}");
        assert_eq!(tone(PeerState::Idle), Tone::Bad);
    }
}
