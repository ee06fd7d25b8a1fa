//! Every command that a document has at a place of the rack is run, and says what the document says.
//! A test for each document, and one that none is forgotten.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use rack::docs::session::steps;
use rack::docs::{documents, play, root};

macro_rules! played {
    ($($test:ident: $path:literal),+ $(,)?) => {
        const PLAYED: &[&str] = &[$($path),+];

        $(
            #[test]
            fn $test() {
                let count = play::play(&root().join($path)).unwrap_or_else(|error| panic!("{error:#}"));
                assert!(count > 0, "no command is run");
            }
        )+
    };
}

played! {
    readme: "README.md",
    tour: "docs/tour.md",
    annotations: "docs/annotations.md",
    network_policy: "docs/network-policy.md",
    operations: "docs/operations.md",
    standalone: "docs/standalone.md",
    logs: "docs/logs.md",
    json: "docs/json.md",
}

#[test]
fn no_document_is_forgotten() {
    for (path, text) in documents().unwrap() {
        let runs = steps(&text).unwrap().iter().any(|step| step.place.is_some());
        let played = PLAYED.contains(&path.to_str().unwrap());
        assert_eq!(runs, played, "{}: give it a test above, or take it away", path.display());
    }
}
