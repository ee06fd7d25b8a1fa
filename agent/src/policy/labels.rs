//! Labels and selectors. Decides how they are kept (ten thousand pods have labels, so each set is one
//! piece of text) and what matches; where they come from is others'.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The labels of a pod or a namespace, sorted by key, as one text: key, NUL, value, NUL, and so on.
/// Neither a key nor a value can hold a NUL (the API server refuses it; [`Labels::new`] leaves out
/// what has one).
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Labels(Box<str>);

impl Labels {
    /// From a map.
    pub fn new(labels: &BTreeMap<String, String>) -> Self {
        let mut text = String::new();
        for (key, value) in labels {
            if !key.contains('\0') && !value.contains('\0') {
                text.extend([key, "\0", value, "\0"]);
            }
        }
        Self(text.into())
    }

    /// Keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.0.split_terminator('\0');
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<BTreeMap<String, String>> for Labels {
    fn from(labels: BTreeMap<String, String>) -> Self {
        Self::new(&labels)
    }
}

impl From<Labels> for BTreeMap<String, String> {
    fn from(labels: Labels) -> Self {
        labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A label selector: all of its requirements. None: everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    /// In the order in which they were written, `matchLabels` first.
    pub requirements: Vec<Requirement>,
}

/// One requirement of a selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Requirement {
    /// The label is there, with one of these values.
    In(Box<str>, Vec<Box<str>>),
    /// The label is not there, or has none of these values.
    NotIn(Box<str>, Vec<Box<str>>),
    /// It is there.
    Exists(Box<str>),
    /// It is not.
    DoesNotExist(Box<str>),
}

impl Requirement {
    fn matches(&self, labels: &Labels) -> bool {
        let holds = |values: &[Box<str>], value: &str| values.iter().any(|known| **known == *value);
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| holds(values, value)),
            Self::NotIn(key, values) => !labels.get(key).is_some_and(|value| holds(values, value)),
            Self::Exists(key) => labels.get(key).is_some(),
            Self::DoesNotExist(key) => labels.get(key).is_none(),
        }
    }
}

impl Selector {
    /// Whether it selects what has these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }
}

/// As `kubectl get --selector` writes it.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::In(key, values) => match values.as_slice() {
                [value] => write!(f, "{key}={value}"),
                _ => write!(f, "{key} in ({})", values.join(",")),
            },
            Self::NotIn(key, values) => match values.as_slice() {
                [value] => write!(f, "{key}!={value}"),
                _ => write!(f, "{key} notin ({})", values.join(",")),
            },
            Self::Exists(key) => f.write_str(key),
            Self::DoesNotExist(key) => write!(f, "!{key}"),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, requirement) in self.requirements.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Labels::new(&pairs.collect())
    }

    #[test]
    fn what_selectors_match() {
        let (a, ab) = (vec!["a".into()], vec!["a".into(), "b".into()]);
        let cases = [
            (Requirement::In("k".into(), ab.clone()), [false, true, true, false, false]),
            (Requirement::In("k".into(), a.clone()), [false, true, false, false, false]),
            (Requirement::NotIn("k".into(), ab), [true, false, false, true, true]),
            (Requirement::NotIn("k".into(), a), [true, false, true, true, true]),
            (Requirement::NotIn("k".into(), vec!["".into()]), [true, true, true, true, false]),
            (Requirement::Exists("k".into()), [false, true, true, true, true]),
            (Requirement::DoesNotExist("k".into()), [true, false, false, false, false]),
        ];
        let pods = [
            labels(&[]),
            labels(&[("k", "a"), ("x", "y")]),
            labels(&[("a", "k"), ("k", "b")]),
            labels(&[("k", "c")]),
            labels(&[("k", ""), ("kk", "a")]),
        ];
        for (requirement, expected) in cases {
            let selector = Selector { requirements: vec![requirement.clone()] };
            let matched: Vec<bool> = pods.iter().map(|pod| selector.matches(pod)).collect();
            assert_eq!(matched, expected, "{requirement:?}");
            assert!(pods.iter().all(|pod| Selector::default().matches(pod)));
            let both = vec![requirement, Requirement::In("x".into(), vec!["y".into()])];
            let both = Selector { requirements: both };
            let second = both.matches(&pods[1]);
            assert_eq!(second, expected[1], "all requirements have to hold");
            assert!(!both.matches(&pods[2]));
        }
    }
}
