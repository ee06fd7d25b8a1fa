//! `bgp refresh` and `bgp reset`: what is asked of one session, and whether it is meant.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;

use super::answer::{PeerList, PeerRow, PeerState, Refreshed, WasReset};
use super::question::{Direction, PeerName, PeersArgs, RefreshArgs, ResetArgs, Words};
use crate::cli::ADMIN_SOCKET;
use crate::cli::ask::ask;
use crate::cli::elapsed::clock;
use crate::cli::exit::{Ended, NotAsked};
use crate::cli::output;
use crate::server::admin::op;

pub(super) const REFRESH_HELP: &str = "\
A soft reset: the session stays, and no route is withdrawn. The peer is asked for everything again \
(RFC 2918), which is judged by the rules as they are now, and is told everything again.

Exit status: 0 done, 1 no such peer, no session, or the peer cannot be asked, 2 no agent

Examples:
  flock-agent bgp refresh tor-a
  flock-agent bgp refresh tor-a --in";

pub(super) const RESET_HELP: &str = "\
A hard reset: the session ends with Cease / Administrative Reset (6/4) and the message (RFC 9003), \
and begins anew. The peer drops this node's routes until they are told again; a session that does \
not come up is tried again at once. Where nobody can be asked to confirm, --yes is needed.

Exit status: 0 done, 1 no such peer or not confirmed, 2 no agent, or nobody to confirm it

Examples:
  flock-agent bgp reset tor-a
  flock-agent bgp reset tor-a --yes --message 'new line card, ticket 4711'";

/// `bgp refresh`.
#[derive(Debug, Clone, Args)]
pub struct Refresh {
    /// The peer, as configured
    peer: PeerName,

    /// Only ask it for everything again
    #[arg(long = "in", conflicts_with = "out")]
    inward: bool,

    /// Only tell it everything again
    #[arg(long)]
    out: bool,

    /// The running agent's socket
    #[arg(long, env = "FLOCK_ADMIN_SOCKET", hide_env_values = true, value_name = "PATH", default_value = ADMIN_SOCKET)]
    pub(super) admin_socket: PathBuf,
}

/// `bgp reset`.
#[derive(Debug, Clone, Args)]
pub struct Reset {
    /// The peer, as configured
    peer: PeerName,

    /// Do not ask whether it is meant
    #[arg(short, long)]
    yes: bool,

    /// What the peer is told, 255 bytes at most
    #[arg(short, long, value_name = "TEXT")]
    message: Option<Words>,

    /// The running agent's socket
    #[arg(long, env = "FLOCK_ADMIN_SOCKET", hide_env_values = true, value_name = "PATH", default_value = ADMIN_SOCKET)]
    pub(super) admin_socket: PathBuf,
}

/// Refreshes, and says what that came to.
pub(super) fn refresh(wanted: &Refresh) -> anyhow::Result<Ended> {
    output::print(&refreshed(wanted)?)?;
    Ok(Ended::Done)
}

pub(super) fn refreshed(wanted: &Refresh) -> anyhow::Result<String> {
    let direction = match (wanted.inward, wanted.out) {
        (true, _) => Direction::In,
        (_, true) => Direction::Out,
        _ => Direction::Both,
    };
    let args = RefreshArgs { peer: wanted.peer.clone(), direction };
    let done: Refreshed = ask(&wanted.admin_socket, op::BGP_REFRESH, &args)?;
    let mut said = Vec::new();
    if done.asked {
        said.push(format!("{} is asked for everything again.\n", done.peer));
    }
    if done.told {
        let routes = routes(done.advertised);
        said.push(format!("{} is told everything again: {routes}.\n", done.peer));
    }
    if let Some(why) = done.refused {
        said.push(format!("{} cannot be asked for everything again: {why}.\n", done.peer));
    }
    Ok(said.concat())
}

/// Resets, once it is sure that it is meant, and says what that came to.
pub(super) fn reset(wanted: &Reset) -> anyhow::Result<Ended> {
    let is_person = io::stdin().is_terminal() && io::stderr().is_terminal();
    let confirm = |question: &str| confirmed(&wanted.peer, question, is_person);
    match was_reset(wanted, confirm)? {
        Some(said) => output::print(&said).map(|()| Ended::Done),
        None => output::print("Nothing was reset.\n").map(|()| Ended::Wrong),
    }
}

fn confirmed(peer: &PeerName, question: &str, is_person: bool) -> anyhow::Result<bool> {
    if !is_person {
        let nobody = "nobody can be asked whether the session";
        return Err(NotAsked(format!("{nobody} with {peer} is to end; say --yes")).into());
    }
    // Not among what is printed.
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// What was done; `None`: it was not meant.
pub(super) fn was_reset(
    wanted: &Reset,
    confirm: impl FnOnce(&str) -> anyhow::Result<bool>,
) -> anyhow::Result<Option<String>> {
    let (socket, peer) = (&wanted.admin_socket, &wanted.peer);
    if !wanted.yes {
        let args = PeersArgs { name: Some(peer.clone()) };
        let list: PeerList = ask(socket, op::BGP_PEERS, &args)?;
        // One that is not there is the agent's to name.
        if let Some(row) = list.peers.first()
            && !confirm(&question(row))?
        {
            return Ok(None);
        }
    }
    let args = ResetArgs { peer: peer.clone(), message: wanted.message.clone() };
    let done: WasReset = ask(socket, op::BGP_RESET, &args)?;
    Ok(Some(match done.was {
        PeerState::Established => {
            let WasReset { peer, message, .. } = &done;
            format!("The session with {peer} ended and begins anew; it was told {message:?}.\n")
        }
        state => format!("{} had no session ({state}); it is tried again now.\n", done.peer),
    }))
}

fn question(row: &PeerRow) -> String {
    let lost = match row.state {
        PeerState::Established => {
            format!("Established for {}, {}", clock(row.uptime_seconds), routes(row.advertised))
        }
        state => state.to_string(),
    };
    format!("Reset the session with {} ({lost})?", row.name)
}

fn routes(count: u32) -> String {
    match count {
        1 => "1 route told".into(),
        count => format!("{count} routes told"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::bgp::{Bgp, BgpCommand, sample};
    use crate::cli::desk::{self, Desk};
    use crate::cli::{Cli, Command, exit};
    use crate::server::admin;

    type Asked = Arc<Mutex<Vec<(String, Value)>>>;

    /// An agent that has the sample's peers, and what it was asked to do.
    fn agent() -> (Desk, Asked) {
        let asked = Asked::default();
        let heard = asked.clone();
        let desk = desk::open(move |op, args| {
            if op != "bgp.peers" {
                heard.lock().unwrap().push((op.to_owned(), args.clone()));
            }
            match op {
                "bgp.peers" => desk::ok(PeerList { peers: sample::peers()[..1].to_vec() }),
                "bgp.refresh" => {
                    let RefreshArgs { peer, direction } = admin::args(args)?;
                    desk::ok(Refreshed {
                        peer: peer.to_string(),
                        asked: direction == Direction::In,
                        told: direction != Direction::In,
                        advertised: 3,
                        refused: (direction == Direction::Both).then(|| "it is old".into()),
                    })
                }
                "bgp.reset" => {
                    let ResetArgs { peer, message } = admin::args(args)?;
                    desk::ok(WasReset {
                        peer: peer.to_string(),
                        was: PeerState::Established,
                        uptime_seconds: 7,
                        message: message.map(String::from).unwrap_or_else(|| "so".into()),
                    })
                }
                other => Err(format!("unknown op {other:?}")),
            }
        });
        (desk, asked)
    }

    fn parsed(words: &[&str]) -> Result<BgpCommand, String> {
        let line = ["flock-agent", "bgp"].iter().chain(words);
        match Cli::try_parse_from(line).map_err(|error| error.to_string())?.command {
            Command::Bgp(Bgp { command }) => Ok(command),
            other => panic!("{other:?}"),
        }
    }

    fn to_refresh(desk: &Desk, words: &[&str]) -> Refresh {
        match parsed(&[&["refresh"], words].concat()).unwrap() {
            BgpCommand::Refresh(wanted) => Refresh { admin_socket: desk.socket.clone(), ..wanted },
            other => panic!("{other:?}"),
        }
    }

    fn to_reset(desk: &Desk, words: &[&str]) -> Reset {
        match parsed(&[&["reset"], words].concat()).unwrap() {
            BgpCommand::Reset(wanted) => Reset { admin_socket: desk.socket.clone(), ..wanted },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_refresh_says_what_it_came_to() {
        let (desk, asked) = agent();
        let said = |words: &[&str]| refreshed(&to_refresh(&desk, words)).unwrap();
        assert_eq!(said(&["tor-a", "--in"]), "tor-a is asked for everything again.\n");
        assert_eq!(said(&["tor-a", "--out"]), "tor-a is told everything again: 3 routes told.\n");
        assert_eq!(
            said(&["tor-a"]),
            "tor-a is told everything again: 3 routes told.\n\
             tor-a cannot be asked for everything again: it is old.\n"
        );
        let asked: Vec<Value> =
            asked.lock().unwrap().iter().map(|(_, args)| args.clone()).collect();
        let of = |direction: &str| json!({ "peer": "tor-a", "direction": direction });
        assert_eq!(asked, [of("in"), of("out"), of("both")]);
        assert!(parsed(&["refresh", "tor-a", "--in", "--out"]).is_err());
        assert!(parsed(&["refresh"]).is_err());
    }

    #[test]
    fn a_reset_is_confirmed_unless_it_was_said_so() {
        let (desk, asked) = agent();
        let never = |question: &str| -> anyhow::Result<bool> { panic!("{question}") };
        let done = was_reset(&to_reset(&desk, &["tor-a", "--yes"]), never).unwrap().unwrap();
        assert_eq!(done, "The session with tor-a ended and begins anew; it was told \"so\".\n");
        let mut questions = Vec::new();
        for answer in [false, true] {
            let wanted = to_reset(&desk, &["tor-a", "-m", "new line card"]);
            let confirm = |question: &str| {
                questions.push(question.to_owned());
                Ok(answer)
            };
            let done = was_reset(&wanted, confirm).unwrap();
            assert_eq!(done.is_some(), answer);
        }
        let question = "Reset the session with tor-a (Established for 02:17:33, 3 routes told)?";
        assert_eq!(questions, [question; 2]);
        let asked: Vec<Value> =
            asked.lock().unwrap().iter().map(|(_, args)| args.clone()).collect();
        assert_eq!(
            asked,
            [json!({ "peer": "tor-a" }), json!({ "peer": "tor-a", "message": "new line card" })]
        );
        let wanted = to_reset(&desk, &["tor-a"]);
        let alone = |question: &str| confirmed(&wanted.peer, question, false);
        let refused = was_reset(&wanted, alone).unwrap_err();
        assert!(refused.to_string().contains("say --yes"), "{refused}");
        assert_eq!(exit::code(&Err(refused)), 2);
    }

    #[test]
    fn a_yes_is_said_and_not_guessed() {
        for (answer, meant) in [
            ("y\n", true),
            ("YES\n", true),
            (" yes ", true),
            ("", false),
            ("\n", false),
            ("no", false),
        ] {
            assert_eq!(is_yes(answer), meant, "{answer:?}");
        }
        let [_, down] = sample::peers();
        assert_eq!(question(&down), "Reset the session with tor-b (Active)?");
        assert_eq!(routes(1), "1 route told");
    }

    #[test]
    fn a_message_fits_the_protocol_and_the_peers_terminal() {
        let long = "x".repeat(255);
        assert!(parsed(&["reset", "a", "-m", &long]).is_ok());
        let table = [
            ("x".repeat(256), "1 to 255 bytes"),
            (String::new(), "1 to 255 bytes"),
            ("bell\u{7}".into(), "no control characters"),
        ];
        for (message, words) in table {
            let refused = parsed(&["reset", "a", "-m", &message]).unwrap_err();
            assert!(refused.contains(words), "{refused}");
            let sent = json!({ "peer": "a", "message": message });
            assert!(admin::args::<ResetArgs>(&sent).unwrap_err().contains(words));
        }
    }
}
