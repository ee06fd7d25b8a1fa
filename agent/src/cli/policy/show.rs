//! `policy show`: a row for each pod; of one pod, its rules in words.

use clap::Args;

use super::answer::{PolicyPod, PolicyReport, PolicySide, PolicyState};
use super::question::{PodName, PolicyShowArgs};
use crate::cli::Show;
use crate::cli::exit::Ended;
use crate::cli::output::{Look, Table, Tone, fold};
use crate::cli::view::View;
use crate::server::admin::op;

pub(super) const HELP: &str = "\
INGRESS is what a pod may be sent, EGRESS what it may send: open, or how many policies isolate it.
DROPPED counts packets of either direction since the rules were last made anew. Of one pod also
what its policies allow, rule by rule.

Examples:
  flock-agent policy show
  flock-agent policy show shop/web-0
  flock-agent policy show -o json | jq '.pods[].ingress.policies'";

/// What changes by itself.
const CLOCKS: &[&str] = &["droppedPackets", "droppedBytes"];

/// `policy show`.
#[derive(Debug, Clone, Args)]
pub struct PolicyShow {
    #[command(flatten)]
    pub(super) show: Show,

    /// Only this pod, and what is allowed to it
    #[arg(value_name = "[NAMESPACE/]POD")]
    pod: Option<PodName>,
}

/// Asks and prints, once or again and again.
pub(super) fn run(wanted: &PolicyShow) -> anyhow::Result<Ended> {
    let one = wanted.pod.is_some();
    let view = View::new(op::POLICY_SHOW, move |report: &PolicyReport, look| {
        Ok(if one { detail(report, look) } else { table(report, look) })
    });
    let view = view.with_clocks(CLOCKS).asking(&PolicyShowArgs { pod: wanted.pod.clone() })?;
    let view = view.refusing(|report| match &wanted.pod {
        Some(pod) if report.pods.is_empty() => {
            anyhow::bail!("pod {} is not on this node; see flock-agent pods", pod.0)
        }
        _ => Ok(()),
    });
    view.show(&wanted.show)
}

fn standing(report: &PolicyReport) -> String {
    let count = report.policies.len();
    let policies = if count == 1 { "policy" } else { "policies" };
    let state = match report.state {
        PolicyState::None => "There is no policy: every pod is open.".to_owned(),
        PolicyState::InForce => format!("{count} {policies} in force."),
        PolicyState::Waiting => format!("{count} {policies} known, not all in force yet."),
        PolicyState::Failing => format!("{count} {policies} known, and not in force."),
    };
    match &report.reason {
        Some(reason) => format!("{state} {reason}\n"),
        None => format!("{state}\n"),
    }
}

fn table(report: &PolicyReport, look: Look) -> String {
    let mut text = fold(&standing(report), look.width, 2);
    if report.pods.is_empty() {
        return text + "No pods on this node.\n";
    }
    let mut headings = vec!["NAMESPACE", "NAME", "INGRESS", "EGRESS", "DROPPED"];
    if look.wide {
        headings.extend(["INTERFACE", "POLICIES"]);
    }
    let mut table = Table::new(headings);
    for pod in &report.pods {
        let plain = |text: String| (text, Tone::Plain);
        let dropped = pod.ingress.dropped_packets.saturating_add(pod.egress.dropped_packets);
        let mut row = vec![
            plain(pod.namespace.clone()),
            plain(pod.name.clone()),
            plain(isolated(&pod.ingress)),
            plain(isolated(&pod.egress)),
            (dropped.to_string(), if dropped > 0 { Tone::Warning } else { Tone::Plain }),
        ];
        if look.wide {
            let mut names: Vec<&String> =
                pod.ingress.policies.iter().chain(&pod.egress.policies).collect();
            names.sort_unstable();
            names.dedup();
            let names = names.into_iter().map(String::as_str).collect::<Vec<_>>().join(",");
            row.extend([plain(pod.host_interface.clone()), plain(names)]);
        }
        table.row(row);
    }
    text.push('\n');
    text + &table.draw(look)
}

fn isolated(side: &PolicySide) -> String {
    match (side.isolated, side.policies.len()) {
        (false, _) => "open".to_owned(),
        (true, 1) => "1 policy".to_owned(),
        (true, count) => format!("{count} policies"),
    }
}

fn detail(report: &PolicyReport, look: Look) -> String {
    let mut text = String::new();
    if report.state != PolicyState::InForce {
        text.push_str(&fold(&standing(report), look.width, 2));
    }
    for pod in &report.pods {
        text.push_str(&format!("{} on {}\n", called(pod), pod.host_interface));
        for (heading, from, side) in
            [("Ingress", "from", &pod.ingress), ("Egress", "to", &pod.egress)]
        {
            text.push_str(&format!("\n{heading}\n"));
            for line in lines(side, from) {
                text.push_str(&fold(&format!("  {line}\n"), look.width, 4));
            }
        }
    }
    text
}

fn called(pod: &PolicyPod) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

fn lines(side: &PolicySide, from: &str) -> Vec<String> {
    if !side.isolated {
        return vec!["No policy isolates it: everything is allowed.".to_owned()];
    }
    let mut lines = vec![format!("Isolated by {}.", side.policies.join(", "))];
    if side.rules.is_empty() {
        lines.push("Nothing is allowed.".to_owned());
    }
    lines.extend(side.rules.iter().map(|rule| {
        format!("{} rule {}: {from} {}: {}", rule.policy, rule.rule, rule.peers, rule.ports)
    }));
    let (packets, bytes) = (side.dropped_packets, side.dropped_bytes);
    lines.push(format!("Dropped: {packets} packets, {bytes} bytes."));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::policy::answer::{PolicyRow, PolicyRule};

    fn report() -> PolicyReport {
        let ingress = PolicySide {
            isolated: true,
            policies: vec!["shop/web".into()],
            rules: vec![PolicyRule {
                policy: "shop/web".into(),
                rule: 0,
                peers: "pods app=lb".into(),
                ports: "TCP 80".into(),
            }],
            dropped_packets: 3,
            dropped_bytes: 180,
        };
        PolicyReport {
            state: PolicyState::InForce,
            reason: None,
            policies: vec![PolicyRow {
                namespace: "shop".into(),
                name: "web".into(),
                types: vec!["Ingress".into()],
                pods: 1,
            }],
            pods: vec![PolicyPod {
                namespace: "shop".into(),
                name: "web-0".into(),
                host_interface: "flock01234567".into(),
                ingress,
                egress: PolicySide::default(),
            }],
        }
    }

    #[test]
    fn the_table_and_the_detail_read_well() {
        assert_eq!(
            table(&report(), Look::PIPE),
            "1 policy in force.\n\n\
             NAMESPACE  NAME   INGRESS   EGRESS  DROPPED\n\
             shop       web-0  1 policy  open    3\n"
        );
        let wide = Look { wide: true, ..Look::PIPE };
        assert!(table(&report(), wide).contains("flock01234567  shop/web\n"));
        assert_eq!(
            detail(&report(), Look::PIPE),
            "shop/web-0 on flock01234567\n\nIngress\n  Isolated by shop/web.\n  \
             shop/web rule 0: from pods app=lb: TCP 80\n  Dropped: 3 packets, 180 bytes.\n\n\
             Egress\n  No policy isolates it: everything is allowed.\n"
        );
        let empty =
            PolicyReport { state: PolicyState::None, policies: vec![], pods: vec![], ..report() };
        let words = "There is no policy: every pod is open.\nNo pods on this node.\n";
        assert_eq!(table(&empty, Look::PIPE), words);
    }
}
