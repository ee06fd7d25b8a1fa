//! How a drain is asked for and how far it is, in types that both ends of the admin socket share.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cli::bgp::PeerState;
use crate::cli::output::{Look, Table, Tone, labelled};

/// A peer that has not moved its traffic away by then does not follow RFC 8326.
const LONGEST_WAIT: u64 = 3600;

/// The arguments of `drain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DrainArgs {
    /// Between GRACEFUL_SHUTDOWN and withdrawal.
    pub wait_seconds: Wait,
}

/// How long peers get to move traffic away, in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Wait(u64);

impl Wait {
    /// As a length of time; zero withdraws at once.
    pub fn duration(self) -> Duration {
        Duration::from_secs(self.0)
    }
}

impl TryFrom<u64> for Wait {
    type Error = String;

    fn try_from(seconds: u64) -> Result<Self, String> {
        if seconds > LONGEST_WAIT {
            return Err(format!(
                "{seconds} s is too long; write at most {LONGEST_WAIT}s, for example 30s"
            ));
        }
        Ok(Self(seconds))
    }
}

impl From<Wait> for u64 {
    fn from(wait: Wait) -> Self {
        wait.0
    }
}

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let length = match text.parse() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => humantime::parse_duration(text)
                .map_err(|_| "not a duration; write for example 30s or 2m")?,
        };
        if length.subsec_nanos() != 0 {
            return Err("write whole seconds, for example 30s".into());
        }
        length.as_secs().try_into()
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0)
    }
}

/// The answer of `drain`, `drain.undo` and `drain.status`: how it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainStatus {
    /// How far it is.
    pub state: DrainState,
    /// When it came into this state, RFC 3339; `null`: in service.
    pub since: Option<String>,
    /// Until routes are withdrawn; `null`: nothing is waited for.
    pub seconds_left: Option<u64>,
    /// Sorted by peer.
    pub sessions: Vec<DrainSession>,
}

/// How far a drain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DrainState {
    /// The node is in service.
    None,
    /// Peers were told to look for other ways, or sessions are still ending.
    Draining,
    /// Everything is withdrawn and every session ended; none comes up until it is undone.
    Drained,
}

impl fmt::Display for DrainState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "in service",
            Self::Draining => "draining",
            Self::Drained => "drained",
        })
    }
}

/// A peer's session meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainSession {
    /// Its name.
    pub peer: String,
    /// Where its machine is.
    pub state: PeerState,
}

/// `drain --status`.
pub(super) fn render(status: &DrainStatus, look: Look) -> String {
    let tone = if status.state == DrainState::None { Tone::Good } else { Tone::Warning };
    let mut lines = vec![("State", status.state.to_string(), tone)];
    lines.extend(status.since.clone().map(|since| ("Since", since, Tone::Plain)));
    let left = status.seconds_left.map(|left| format!("routes are withdrawn in {left}s"));
    lines.extend(left.map(|left| ("Then", left, Tone::Plain)));
    let mut text = labelled(&lines, look);
    if !status.sessions.is_empty() {
        let mut table = Table::new(vec!["PEER", "SESSION"]);
        for session in &status.sessions {
            let cells = [session.peer.clone(), session.state.to_string()];
            table.row(cells.map(|cell| (cell, Tone::Plain)).into());
        }
        text.push('\n');
        text.push_str(&table.draw(look));
    }
    text
}
