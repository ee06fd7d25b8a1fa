//! `policy explain`: the verdict, and what each side's policies say. The sentences are the agent's;
//! decides only how they stand on a page.

use clap::Args;

use super::answer::{ExplainedSide, PolicyExplanation};
use super::question::{PolicyExplainArgs, Spoken, Who};
use crate::cli::Show;
use crate::cli::exit::{Ended, NotAsked};
use crate::cli::output::{Look, fold};
use crate::cli::view::View;
use crate::server::admin::op;

pub(super) const HELP: &str = "\
X and Y are pods (NAMESPACE/NAME) anywhere in the cluster, or addresses. It is what the policies say;
the node of a pod holds the pod to it. Replies of what is allowed are always allowed.

Exit status: 0 explained, whether it is allowed or not; 1 there is no such pod.

Examples:
  flock-agent policy explain --from shop/web-0 --to shop/db-0 --port 5432
  flock-agent policy explain --from 203.0.113.7 --to shop/web-0 --port 80
  flock-agent policy explain --from a --to b --port 53 --protocol udp
  flock-agent policy explain --from a --to b --protocol icmp
  flock-agent policy explain --from a --to b --port 80 -o json | jq .allowed";

/// `policy explain`.
#[derive(Debug, Clone, Args)]
pub struct PolicyExplain {
    #[command(flatten)]
    pub(super) show: Show,

    /// Who talks: a pod, or an address
    #[arg(long, value_name = "X")]
    from: Who,

    /// To whom: a pod, or an address
    #[arg(long, value_name = "Y")]
    to: Who,

    /// To which port; none for icmp
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// What is spoken
    #[arg(long, value_name = "PROTOCOL", default_value = "tcp", ignore_case = true)]
    protocol: Spoken,
}

/// Asks and prints, once or again and again.
pub(super) fn run(wanted: &PolicyExplain) -> anyhow::Result<Ended> {
    match (wanted.protocol, wanted.port) {
        (Spoken::Icmp, Some(_)) => {
            return Err(NotAsked("icmp has no ports; leave --port out".to_owned()).into());
        }
        (Spoken::Tcp | Spoken::Udp | Spoken::Sctp, None) => {
            let words = "which port? add --port, or --protocol icmp for what has none";
            return Err(NotAsked(words.to_owned()).into());
        }
        _ => {}
    }
    let view =
        View::new(op::POLICY_EXPLAIN, |answer: &PolicyExplanation, look| Ok(render(answer, look)));
    let args = PolicyExplainArgs {
        from: wanted.from.clone(),
        to: wanted.to.clone(),
        protocol: wanted.protocol,
        port: wanted.port,
    };
    view.asking(&args)?.show(&wanted.show)
}

fn render(answer: &PolicyExplanation, look: Look) -> String {
    let mut text = fold(&format!("{}\n", answer.verdict), look.width, 2);
    for (heading, side) in
        [("Egress of the sender", &answer.egress), ("Ingress of the receiver", &answer.ingress)]
    {
        text.push_str(&format!("\n{heading}\n"));
        for line in lines(side) {
            text.push_str(&fold(&format!("  {line}\n"), look.width, 4));
        }
    }
    text
}

fn lines(side: &ExplainedSide) -> Vec<String> {
    let mut lines = vec![side.reason.clone()];
    lines.extend(
        side.allowed_by.iter().map(|by| format!("{} rule {}: {}", by.policy, by.rule, by.reason)),
    );
    lines
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::policy::answer::{AllowedBy, ExplainedEnd};
    use crate::cli::policy::{Policy, PolicyCommand};
    use crate::cli::{Cli, Command};

    fn parsed(words: &[&str]) -> Result<PolicyExplain, String> {
        let line = ["flock-agent", "policy", "explain"].iter().chain(words);
        match Cli::try_parse_from(line).map_err(|error| error.to_string())?.command {
            Command::Policy(Policy { command: PolicyCommand::Explain(explain) }) => Ok(explain),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_refused_before_anybody_is_asked() {
        for (words, why) in [
            (&["--from", "a", "--to", "b"][..], "which port?"),
            (&["--from", "a", "--to", "b", "--port", "1", "--protocol", "ICMP"], "has no ports"),
        ] {
            let refused = run(&parsed(words).unwrap()).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        for (words, why) in [
            (&["--from", "a"][..], "--to"),
            (&["--from", "a b", "--to", "b"], "neither an address nor a pod"),
            (&["--from", "a", "--to", "b", "--port", "0"], "0 is not in 1..=65535"),
            (&["--from", "a", "--to", "b", "--protocol", "gre"], "possible values"),
        ] {
            let refused = parsed(words).unwrap_err();
            assert!(refused.contains(why), "{words:?}: {refused}");
        }
    }

    #[test]
    fn the_page_reads_well() {
        let end = |pod: &str| ExplainedEnd {
            pod: Some(pod.into()),
            addresses: vec!["10.0.0.1".into()],
            here: true,
        };
        let open = ExplainedSide {
            isolated: false,
            allowed: true,
            policies: vec![],
            allowed_by: vec![],
            reason: "No policy isolates it.".into(),
        };
        let by = AllowedBy { policy: "shop/db".into(), rule: 1, reason: "pods app=web".into() };
        let answer = PolicyExplanation {
            from: end("shop/web-0"),
            to: end("shop/db-0"),
            protocol: "TCP".into(),
            port: Some(5432),
            allowed: true,
            verdict: "shop/web-0 may talk to shop/db-0 on TCP 5432.".into(),
            egress: open.clone(),
            ingress: ExplainedSide {
                isolated: true,
                policies: vec!["shop/db".into()],
                allowed_by: vec![by],
                reason: "Isolated by shop/db, and allowed.".into(),
                ..open
            },
        };
        assert_eq!(
            render(&answer, Look::PIPE),
            "shop/web-0 may talk to shop/db-0 on TCP 5432.\n\nEgress of the sender\n  \
             No policy isolates it.\n\nIngress of the receiver\n  \
             Isolated by shop/db, and allowed.\n  shop/db rule 1: pods app=web\n"
        );
    }
}
