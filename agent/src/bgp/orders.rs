//! What an operator wants of one session: hear or say everything again, or begin anew. Decides
//! whether it can be done; doing it is the speaker's.

use flock_bgp::{PeerStatus, State};

use super::Bgp;
use super::view::{gone, state};
use crate::cli::bgp::{Direction, PeersArgs, RefreshArgs, Refreshed, ResetArgs, WasReset};

impl Bgp {
    /// `bgp refresh`.
    pub async fn refresh(&self, args: RefreshArgs) -> Result<Refreshed, String> {
        let peer = self.known(args.peer.as_str()).await?;
        let name = peer.name.to_string();
        let can_refresh = peer.negotiated.as_ref().is_some_and(|negotiated| negotiated.refresh);
        let up = peer.state == State::Established;
        let refreshed = refresh(&name, up.then_some(can_refresh), args.direction)?;
        let live = self.live().ok_or(NO_SPEAKER)?;
        if refreshed.asked {
            live.handle.refresh(peer.key).await.map_err(gone)?;
        }
        if refreshed.told {
            live.handle.retell(peer.key).await.map_err(gone)?;
        }
        let (asked, told) = (refreshed.asked, refreshed.told);
        tracing::info!(peer = name, asked, told, "refreshed, as the operator wants");
        let advertised = peer.families.iter().map(|family| family.advertised).sum();
        Ok(Refreshed { advertised, ..refreshed })
    }

    /// `bgp reset`.
    pub async fn reset(&self, args: ResetArgs) -> Result<WasReset, String> {
        let peer = self.known(args.peer.as_str()).await?;
        let name = peer.name.to_string();
        if peer.state == State::Idle && peer.next_attempt.is_none() {
            let why = peer.last_error.map_or_else(|| "it is down".into(), |e| e.reason.to_string());
            return Err(format!("{name} is not to have a session now: {why}"));
        }
        let message = match args.message {
            Some(words) => String::from(words),
            None => format!("flock: reset by the operator of {}", self.node),
        };
        let live = self.live().ok_or(NO_SPEAKER)?;
        let since = live.handle.now().0.saturating_sub(peer.since.0).as_secs();
        tracing::warn!(peer = name, words = message, "session reset, as the operator wants");
        live.handle.reset(peer.key, message.as_str().into()).await.map_err(gone)?;
        let was = state(peer.state);
        let uptime_seconds = if peer.state == State::Established { since } else { 0 };
        Ok(WasReset { peer: name, was, uptime_seconds, message })
    }

    /// A peer that the speaker has, or why it has not.
    async fn known(&self, name: &str) -> Result<PeerStatus, String> {
        let live = self.live().ok_or(NO_SPEAKER)?;
        let wanted = name.to_owned();
        let find = move |speaker: &flock_bgp::Speaker| {
            speaker.peer_by_name(&wanted).and_then(|key| speaker.peer(key))
        };
        if let Some(peer) = live.handle.query(find).await.map_err(gone)? {
            return Ok(peer);
        }
        let rows = self.peers(&PeersArgs::default()).await?.peers;
        if let Some(untold) = rows.iter().find(|row| row.name == name) {
            let why = untold.last_error.as_deref().unwrap_or("it is not followed yet");
            return Err(format!("{name} is not to have a session now: {why}"));
        }
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        Err(match names.is_empty() {
            true => format!("no peer is called {name:?}: no peers are configured"),
            false => format!("no peer is called {name:?}; there are: {}", names.join(", ")),
        })
    }
}

const NO_SPEAKER: &str = "this node does not speak BGP: spec.bgp is not set";

/// What can be refreshed of a session; `session` says whether its peer can be asked (RFC 2918),
/// where there is one.
fn refresh(name: &str, session: Option<bool>, direction: Direction) -> Result<Refreshed, String> {
    let Some(can_refresh) = session else {
        return Err(format!(
            "{name} has no session, so there is nothing to refresh; see `flock-agent bgp show peers {name}`"
        ));
    };
    let cannot = "it does not speak route refresh (RFC 2918)";
    let wants = |one: Direction| direction == Direction::Both || direction == one;
    if direction == Direction::In && !can_refresh {
        return Err(format!(
            "{name} cannot be asked for everything again: {cannot}; `flock-agent bgp reset {name}` begins anew"
        ));
    }
    let asked = wants(Direction::In) && can_refresh;
    let refused = (wants(Direction::In) && !can_refresh).then(|| cannot.to_owned());
    let told = wants(Direction::Out);
    Ok(Refreshed { peer: name.to_owned(), asked, told, advertised: 0, refused })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_refreshed() {
        use Direction::{Both, In, Out};
        let table = [
            (Some(true), Both, Ok((true, true, false))),
            (Some(true), In, Ok((true, false, false))),
            (Some(true), Out, Ok((false, true, false))),
            (Some(false), Both, Ok((false, true, true))),
            (Some(false), Out, Ok((false, true, false))),
            (Some(false), In, Err("`flock-agent bgp reset tor-a` begins anew")),
            (None, Both, Err("tor-a has no session")),
            (None, Out, Err("tor-a has no session")),
        ];
        for (session, direction, wanted) in table {
            let done = refresh("tor-a", session, direction);
            match wanted {
                Ok(wanted) => {
                    let done = done.unwrap();
                    assert_eq!((done.asked, done.told, done.refused.is_some()), wanted);
                }
                Err(words) => assert!(done.unwrap_err().contains(words), "{session:?}"),
            }
        }
    }
}
