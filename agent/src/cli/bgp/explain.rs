//! `bgp explain`: the verdict, and the sentences under a heading each. They are the agent's; decides
//! only how they stand on a page.

use clap::Args;

use super::explanation::{ExplainArgs, Explanation};
use super::question::{Destination, PeerName};
use crate::cli::Show;
use crate::cli::exit::Ended;
use crate::cli::output::{Look, fold};
use crate::cli::view::View;
use crate::server::admin::op;

pub(super) const HELP: &str = "\
Tells which pod and annotation, or which network of the NodeConfig, originates a prefix; whether its
route is in the kernel; which peers were told, when and with which attributes; what stopped it from
being told; and for a learned prefix which path won, and at which step. For an address that has no
route of its own, the narrowest prefix that holds it is explained.

Exit status: 0 explained, whether it is announced or not; 1 nothing is known of it.

Examples:
  flock-agent bgp explain 10.244.1.0/24
  flock-agent bgp explain 192.0.2.53 --peer tor-a
  flock-agent bgp explain 0.0.0.0/0
  flock-agent bgp explain 192.0.2.53 --watch
  flock-agent bgp explain 192.0.2.53 -o json | jq -r '.peers[].reason'";

/// What changes by itself: texts say how long ago something was.
const CLOCKS: &[&str] =
    &["verdict", "text", "reason", "pacedSeconds", "retrySeconds", "lingersSeconds"];

/// How far a sentence stands from its heading, and its second line from the first.
const INDENT: usize = 2;

/// `bgp explain`.
#[derive(Debug, Clone, Args)]
pub struct Explain {
    #[command(flatten)]
    pub(super) show: Show,

    /// The prefix, or an address
    #[arg(value_name = "PREFIX|ADDRESS")]
    destination: Destination,

    /// Only as far as this peer is concerned
    #[arg(long, value_name = "NAME")]
    peer: Option<PeerName>,
}

/// Asks and prints, once or again and again.
pub(super) fn run(wanted: &Explain) -> anyhow::Result<Ended> {
    let view = view(wanted)?;
    if wanted.show.watch {
        return view.show(&wanted.show);
    }
    let answer = view.once(&wanted.show)?;
    Ok(if answer.known { Ended::Done } else { Ended::Wrong })
}

pub(super) fn view(wanted: &Explain) -> anyhow::Result<View<'_, Explanation>> {
    let view = View::new(op::BGP_EXPLAIN, |answer, look| Ok(render(answer, look)));
    let args = ExplainArgs { destination: wanted.destination, peer: wanted.peer.clone() };
    view.with_clocks(CLOCKS).asking(&args)
}

/// The verdict, and each heading with its sentences.
fn render(answer: &Explanation, look: Look) -> String {
    let mut text = fold(&format!("{}\n", answer.verdict), look.width, INDENT);
    let mut under = None;
    for sentence in &answer.sentences {
        if under.replace(sentence.about) != Some(sentence.about) {
            text.push_str(&format!("\n{}\n", sentence.about.heading()));
        }
        let line = format!("{}{}\n", " ".repeat(INDENT), sentence.text);
        text.push_str(&fold(&line, look.width, 2 * INDENT));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::bgp::{About, Bgp, BgpCommand, Sentence};
    use crate::cli::output::Form;
    use crate::cli::{Cli, Command, desk};
    use crate::server::admin;

    fn sample() -> Explanation {
        let says = |about, text: &str| Sentence { about, text: text.into() };
        Explanation {
            question: "192.0.2.53".into(),
            prefix: "192.0.2.53/32".into(),
            peer: None,
            known: true,
            announced: false,
            verdict: "192.0.2.53/32 is not announced: pod shop/dns-0 is not Ready.".into(),
            sentences: vec![
                says(About::Origin, "Pod shop/dns-0 has it by its annotation."),
                says(About::Origin, "It was withdrawn at 12:00:00 UTC (3s ago)."),
                says(About::Peers, "tor-a and tor-b were told that it is gone."),
            ],
            origin: None,
            kernel: None,
            peers: vec![],
            paths: vec![],
            decision: None,
            covering: None,
        }
    }

    fn parsed(words: &[&str]) -> Result<Explain, String> {
        let line = ["flock-agent", "bgp", "explain"].iter().chain(words);
        match Cli::try_parse_from(line).map_err(|error| error.to_string())?.command {
            Command::Bgp(Bgp { command: BgpCommand::Explain(explain) }) => Ok(explain),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sentences_stand_under_their_headings_and_fold() {
        let expected = "\
192.0.2.53/32 is not announced: pod shop/dns-0 is not Ready.

Origin
  Pod shop/dns-0 has it by its annotation.
  It was withdrawn at 12:00:00 UTC (3s ago).

Peers
  tor-a and tor-b were told that it is gone.
";
        assert_eq!(render(&sample(), Look::PIPE), expected);
        let narrow = render(&sample(), Look { width: Some(40), ..Look::PIPE });
        assert!(
            narrow.starts_with("192.0.2.53/32 is not announced: pod\n  shop/dns-0 is not Ready.\n")
        );
        assert!(narrow.contains("  It was withdrawn at 12:00:00 UTC (3s\n    ago).\n"), "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    }

    #[test]
    fn what_is_asked_and_what_is_refused_before() {
        let agent = desk::open(|op, given| {
            assert_eq!(op, "bgp.explain");
            let asked: ExplainArgs = admin::args(given)?;
            let mut answer = sample();
            answer.peer = asked.peer.map(String::from);
            answer.known = asked.destination.to_string() != "203.0.113.0/24";
            desk::ok(answer)
        });
        let ended = |words: &[&str]| {
            let mut wanted = parsed(words).unwrap();
            (wanted.show.admin_socket, wanted.show.output) = (agent.socket.clone(), Form::Json);
            run(&wanted).unwrap()
        };
        assert_eq!(ended(&["192.0.2.53", "--peer", "tor-a"]), Ended::Done);
        assert_eq!(ended(&["203.0.113.0/24"]), Ended::Wrong, "nothing is known");
        for (words, why) in [
            (&[][..], "PREFIX|ADDRESS"),
            (&["10.0.0.1/8"], "write the network 10.0.0.0/8, or the address 10.0.0.1"),
            (&["tor-a"], "neither a prefix nor an address"),
            (&["10.0.0.0/8", "--peer", " "], "the name of a peer has 1 to 255 bytes"),
        ] {
            let refused = parsed(words).unwrap_err();
            assert!(refused.contains(why), "{words:?}: {refused}");
        }
        let bad = |given: Value| admin::args::<ExplainArgs>(&given).unwrap_err();
        assert!(bad(json!({})).contains("missing field `destination`"));
        assert!(bad(json!({ "destination": "x" })).contains("args.destination: \"x\": neither"));
        assert!(bad(json!({ "destination": "::1", "a": 1 })).contains("unknown field `a`"));
    }

    /// Scripts read these.
    #[test]
    fn the_keys_are_the_contract() {
        use crate::cli::bgp::{
            Covering, ExplainedAttributes, ExplainedKernel, ExplainedOrigin, ExplainedPath,
            ExplainedPeer, ExplainedPod, PeerState,
        };
        let attributes = ExplainedAttributes {
            next_hop: Some("10.0.0.1".into()),
            as_path: vec![65_001],
            communities: vec!["65001:100".into()],
            large_communities: vec!["65001:1:2".into()],
            med: Some(5),
            local_pref: None,
        };
        let answer = Explanation {
            sentences: sample().sentences.into_iter().take(1).collect(),
            origin: Some(ExplainedOrigin {
                originated: true,
                since: Some("2026-07-29T12:00:00Z".into()),
                field: None,
                pods: vec![ExplainedPod {
                    name: "shop/dns-0".into(),
                    annotation: Some("flock.fritzlab.net/anycast".into()),
                    state: "attached".into(),
                    ready: Some(true),
                    terminating: false,
                    serves: true,
                    host_interface: "flock1".into(),
                }],
                withdrawn_at: None,
                withdrawn_because: None,
                paced_seconds: None,
            }),
            kernel: Some(ExplainedKernel {
                route: Some("192.0.2.53/32 via 10.244.1.5 dev flock1".into()),
                expected: None,
                refused: None,
                retry_seconds: None,
                lingers_seconds: Some(5),
            }),
            peers: vec![ExplainedPeer {
                name: "tor-a".into(),
                state: PeerState::Established,
                told: true,
                told_at: Some("2026-07-29T12:00:01Z".into()),
                told_not_before: Some("2026-07-29T12:00:01Z".into()),
                told_exactly: true,
                attributes: Some(attributes),
                pending: false,
                reason: None,
            }],
            paths: vec![ExplainedPath {
                peer: None,
                attributes: None,
                best: true,
                equal: true,
                stale: false,
                refused: None,
                lost: None,
            }],
            decision: Some("only path".into()),
            covering: Some(Covering {
                prefix: "0.0.0.0/0".into(),
                announced: false,
                verdict: "so".into(),
            }),
            ..sample()
        };
        let expected = json!({
            "question": "192.0.2.53",
            "prefix": "192.0.2.53/32",
            "peer": null,
            "known": true,
            "announced": false,
            "verdict": "192.0.2.53/32 is not announced: pod shop/dns-0 is not Ready.",
            "sentences": [{ "about": "origin", "text": "Pod shop/dns-0 has it by its annotation." }],
            "origin": {
                "originated": true,
                "since": "2026-07-29T12:00:00Z",
                "field": null,
                "pods": [{
                    "name": "shop/dns-0",
                    "annotation": "flock.fritzlab.net/anycast",
                    "state": "attached",
                    "ready": true,
                    "terminating": false,
                    "serves": true,
                    "hostInterface": "flock1",
                }],
                "withdrawnAt": null,
                "withdrawnBecause": null,
                "pacedSeconds": null,
            },
            "kernel": {
                "route": "192.0.2.53/32 via 10.244.1.5 dev flock1",
                "expected": null,
                "refused": null,
                "retrySeconds": null,
                "lingersSeconds": 5,
            },
            "peers": [{
                "name": "tor-a",
                "state": "Established",
                "told": true,
                "toldAt": "2026-07-29T12:00:01Z",
                "toldNotBefore": "2026-07-29T12:00:01Z",
                "toldExactly": true,
                "attributes": {
                    "nextHop": "10.0.0.1",
                    "asPath": [65001],
                    "communities": ["65001:100"],
                    "largeCommunities": ["65001:1:2"],
                    "med": 5,
                    "localPref": null,
                },
                "pending": false,
                "reason": null,
            }],
            "paths": [{
                "peer": null,
                "attributes": null,
                "best": true,
                "equal": true,
                "stale": false,
                "refused": null,
                "lost": null,
            }],
            "decision": "only path",
            "covering": { "prefix": "0.0.0.0/0", "announced": false, "verdict": "so" },
        });
        assert_eq!(serde_json::to_value(&answer).unwrap(), expected);
        assert_eq!(serde_json::from_value::<Explanation>(expected).unwrap(), answer);
    }
}
