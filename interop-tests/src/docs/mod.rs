//! The documents cannot rot: their commands are run in a real rack and what comes out is compared.
//!
//! | room | what it decides |
//! |---|---|
//! | [`markdown`] | what of a document is a fence, prose, a link, an anchor |
//! | [`session`] | which commands a `console` block has, and where they are typed |
//! | [`mask`] | what may differ between two runs, and nothing else |
//! | [`scene`] | the rack in which a document is played |
//! | [`play`] | running, comparing, writing |
//!
//! `tests/docs_run.rs` plays documents, `tests/docs.rs` checks what can be checked without a rack, and
//! `agent/tests/docs/` what the agent has to understand: commands, NodeConfigs, the references.

pub mod markdown;
pub mod mask;
pub mod play;
pub mod scene;
pub mod session;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// All Markdown of the repository: paths from its root, sorted, with their content.
pub fn documents() -> Result<Vec<(PathBuf, String)>> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(".md") {
                let text = fs::read_to_string(&path)?;
                found.push((path.strip_prefix(&root)?.to_owned(), text));
            }
        }
    }
    found.sort();
    Ok(found)
}
