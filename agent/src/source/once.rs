//! A map from outside in which no key stands twice. YAML's reader refuses that itself; JSON's would take
//! the last one, and an annotation that somebody wrote would be lost without a word.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Texts by their key, as annotations and labels are.
#[derive(Debug, Default)]
pub(super) struct Once(pub(super) BTreeMap<String, Option<String>>);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Once;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Once, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((key, value)) = entries.next_entry::<String, Option<String>>()? {
            if map.contains_key(&key) {
                return Err(Error::custom(format!("the key {key} stands twice")));
            }
            map.insert(key, value);
        }
        Ok(Once(map))
    }
}
