//! What is looked at when something changes: whom it concerns, however many others there are.

use std::fmt::Write;

use super::cases::{Node, local};
use crate::policy::engine::Effort;

/// A node with a server and a client, and so many policies, pods here and pods elsewhere beside them. Half
/// of the policies select the server, too.
fn crowd(many: usize) -> (Node, String) {
    let mut node = Node::default();
    node.attach("server", Some(local("server", "server", &["10.0.0.1"])));
    node.attach("client", Some(local("client", "client", &["10.0.0.2", "fd00::2"])));
    let mut others = String::new();
    for n in 0..many {
        let (high, low) = (n / 200, n % 200);
        let whom = if n % 2 == 0 { "server".to_owned() } else { format!("other-{n}") };
        write!(
            others,
            "---
metadata: {{name: other-{n}}}
spec:
  podSelector: {{matchLabels: {{app: {whom}}}}}
  ingress:
    - from: [{{podSelector: {{matchLabels: {{app: peer-{n}}}}}}}, {{ipBlock: {{cidr: 172.16.{low}.0/24}}}}]
      ports: [{{port: {}, endPort: {}}}, {{port: 53, protocol: UDP}}]
",
            2 * n + 1000,
            2 * n + 1001,
        )
        .unwrap();
        let here =
            local(&format!("here-{n}"), &format!("other-{n}"), &[&format!("10.1.{high}.{low}")]);
        node.attach(&format!("here-{n}"), Some(here));
        node.peer(
            &format!("peer-{n}"),
            Some(&format!("peer-{n}")),
            &[&format!("10.2.{high}.{low}")],
        );
    }
    (node, others)
}

/// What is looked at when the rules of a policy that selects the server are these, and then those.
fn efforts(many: usize, rules: [&str; 2]) -> [Effort; 2] {
    let (mut node, others) = crowd(many);
    let [first, second] = rules.map(|rules| {
        let spec = format!("{{podSelector: {{matchLabels: {{app: server}}}}, ingress: [{rules}]}}");
        format!("metadata: {{name: gate}}\nspec: {spec}\n{others}")
    });
    node.policies(&first);
    [&second, &first].map(|text| {
        node.engine.take_effort();
        assert!(!node.policies(text).is_empty());
        node.engine.take_effort()
    })
}

#[test]
fn a_policy_that_changes_is_a_look_at_whom_it_concerns() {
    let clients = "{from: [{podSelector: {matchLabels: {app: client}}}]}";
    for many in [1, 10, 300] {
        let [open, closed] = efforts(many, ["", clients]);
        // The server; the client's kind and both of its addresses; what the one allows to the other.
        let one = Effort { links: 1, kinds: 1, addresses: 2, pairs: 1 };
        assert_eq!(open, one, "opened, of {many}");
        assert_eq!(closed, one, "closed, of {many}");
        // Peers stay who they are.
        let to_port = "{from: [{podSelector: {matchLabels: {app: client}}}], ports: [{port: 7}]}";
        let ports = efforts(many, [clients, to_port]);
        let same = Effort { kinds: 0, addresses: 0, ..one };
        assert_eq!(ports, [same; 2], "other ports, of {many}");
        // What is cut anew is not what others are held against.
        let range = "{from: [{podSelector: {matchLabels: {app: client}}}], ports: [{port: 7000, endPort: 7005}]}";
        let ranges = efforts(many, [clients, range]);
        assert_eq!(ranges, [same; 2], "a range of ports, of {many}");
        // A block that has one pod of all.
        let block = "{from: [{ipBlock: {cidr: fd00::/64}}]}";
        let [open, closed] = efforts(many, ["", block]);
        let within = Effort { kinds: 0, addresses: 1, ..one };
        assert_eq!([open, closed], [within; 2], "a block, of {many}");
    }
}

#[test]
fn whom_a_policy_selects_or_selected_is_looked_at() {
    for many in [1, 10, 300] {
        let (mut node, others) = crowd(many);
        let selecting = |app: &str| {
            let spec = format!("{{podSelector: {{matchLabels: {{app: {app}}}}}}}");
            format!("metadata: {{name: closed}}\nspec: {spec}\n{others}")
        };
        node.policies(&selecting("client"));
        node.engine.take_effort();
        let change = node.policies(&selecting("nobody"));
        assert!(!change.removed.is_empty(), "the client is free");
        assert_eq!(node.engine.take_effort().links, 1);
        assert!(node.policies(&selecting("nothing")).is_empty());
        assert_eq!(node.engine.take_effort(), Effort::default());
        node.policies(&selecting("client"));
        assert_eq!(node.engine.take_effort().links, 1);
        node.policies(&format!(
            "metadata: {{name: closed}}\nspec: {{podSelector: {{}}}}\n{others}"
        ));
        assert_eq!(node.engine.take_effort().links, many + 2, "everybody of the namespace");
    }
}

#[test]
fn without_a_policy_it_is_not_kept_who_has_which_address() {
    let (mut node, others) = crowd(3);
    assert!(node.engine.addresses.is_empty());
    for _ in 0..2 {
        node.policies(&others);
        // Two of the client, and one of everybody else's.
        assert_eq!(node.engine.addresses.len(), 2 + 1 + 3 + 3);
        node.no_policies();
        assert!(node.engine.addresses.is_empty() && node.engine.elements().is_empty());
    }
}
