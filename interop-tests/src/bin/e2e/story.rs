//! What is told when a scenario fails: what Kubernetes knows, what flock said, what the nodes said.

use std::fmt::Write;

use crate::stage::Stage;

/// What is asked of Kubernetes.
const QUESTIONS: &[&str] = &[
    "get nodes -o wide",
    "get pods --all-namespaces -o wide",
    "get nodeconfigs -o yaml",
    "get events --all-namespaces --sort-by=.lastTimestamp",
    "describe pods",
    "-n flock-system describe pods",
    "-n flock-system logs -l app.kubernetes.io/name=flock --tail=100 --prefix",
];

/// The whole story.
pub(crate) fn tell(stage: &Stage) -> String {
    let mut told = String::new();
    if let Ok(kubectl) = stage.kubectl() {
        for question in QUESTIONS {
            let words: Vec<_> = question.split(' ').chain(["--request-timeout=10s"]).collect();
            let answer = kubectl.run(&words).unwrap_or_else(|error| format!("{error:#}"));
            let _into_memory = writeln!(told, "$ kubectl {question}\n{}", answer.trim_end());
        }
    }
    if let Some(cluster) = stage.standing() {
        told.push_str(&cluster.logs());
    }
    told
}
