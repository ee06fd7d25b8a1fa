//! The Secrets that a NodeConfig names, as far as they were seen. Decides why a password is not to be
//! had, in words; never shows one.

use std::collections::BTreeMap;
use std::sync::Arc;

use flock_bgp::Secret;

/// One Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSeen {
    /// It exists, with these keys.
    There(BTreeMap<String, Secret>),
    /// It does not exist.
    Missing,
    /// The API server does not say, in these words.
    Untold(String),
}

/// The Secrets of the agent's namespace, by name; only those that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// `None`: the source has no Secrets at all.
    namespace: Option<Arc<str>>,
    seen: Arc<BTreeMap<String, SecretSeen>>,
}

impl Secrets {
    /// Those of a namespace, none of them seen.
    pub fn of(namespace: &str) -> Self {
        Self { namespace: Some(namespace.into()), seen: Arc::default() }
    }

    /// All that were seen, by name.
    pub fn seen(&self) -> &BTreeMap<String, SecretSeen> {
        &self.seen
    }

    /// One Secret as it is now; `None`: nobody asks for it any more.
    pub fn set(&mut self, name: &str, seen: Option<SecretSeen>) {
        if self.seen.get(name) == seen.as_ref() {
            return;
        }
        let all = Arc::make_mut(&mut self.seen);
        match seen {
            Some(seen) => all.insert(name.to_owned(), seen),
            None => all.remove(name),
        };
    }

    /// The value of a key, or why there is none, with what to do about it.
    pub fn value(&self, name: &str, key: &str) -> Result<&Secret, String> {
        let Some(namespace) = &self.namespace else {
            return Err(format!(
                "the Secret {name} (key {key}) needs Kubernetes; write file: in standalone mode"
            ));
        };
        let shown = format!("the Secret {namespace}/{name}");
        match self.seen.get(name) {
            None => Err(format!("{shown} is not known yet: the API server has not told")),
            Some(SecretSeen::Untold(why)) => Err(format!("{shown} is not known yet: {why}")),
            Some(SecretSeen::Missing) => {
                Err(format!("{shown} does not exist; create it, with the key {key}"))
            }
            Some(SecretSeen::There(keys)) => keys
                .get(key)
                .ok_or_else(|| format!("{shown} has no key {key}; put the password there")),
        }
    }
}
