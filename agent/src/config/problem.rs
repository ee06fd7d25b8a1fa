//! What is wrong with a configuration. Decides how a problem reads; leaves finding them to the
//! others. All problems are collected, each with the path where it stands, so that an operator
//! mends a file once and not once per mistake.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where: `spec.bgp.peers[0].holdTime`. Empty for the document as a whole.
    pub path: String,
    /// What stands there, where something does.
    pub value: Option<String>,
    /// What is wrong with it, and what to write instead.
    pub message: String,
}

/// A configuration that cannot be used; at least one problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// In the order of the document.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        if let Some(value) = &self.value {
            write!(f, "{value:?}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

/// Collects problems at a place in the document.
#[derive(Debug)]
pub(super) struct At<'a> {
    path: String,
    found: &'a mut Vec<Problem>,
}

impl<'a> At<'a> {
    pub(super) fn new(path: &str, found: &'a mut Vec<Problem>) -> Self {
        Self { path: path.to_owned(), found }
    }

    /// A key further in.
    pub(super) fn key(&mut self, key: &str) -> At<'_> {
        let path =
            if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        At { path, found: self.found }
    }

    /// An element of the list that stands here.
    pub(super) fn index(&mut self, index: usize) -> At<'_> {
        At { path: format!("{}[{index}]", self.path), found: self.found }
    }

    /// The value here is wrong.
    pub(super) fn wrong(&mut self, value: impl ToString, message: impl ToString) {
        let value = Some(value.to_string());
        self.found.push(Problem { path: self.path.clone(), value, message: message.to_string() });
    }

    /// Something is missing here, or does not go together.
    pub(super) fn amiss(&mut self, message: impl ToString) {
        let message = message.to_string();
        self.found.push(Problem { path: self.path.clone(), value: None, message });
    }

    /// The value, or a problem and nothing.
    pub(super) fn take<T, E: ToString>(
        &mut self,
        value: impl ToString,
        read: Result<T, E>,
    ) -> Option<T> {
        read.map_err(|error| self.wrong(value, error.to_string())).ok()
    }

    /// As much of a list as it may have; more is a problem, and not looked at.
    pub(super) fn at_most<'l, T>(&mut self, most: usize, list: Option<&'l [T]>) -> &'l [T] {
        let list = list.unwrap_or_default();
        if list.len() > most {
            self.amiss(format!("it has {} entries; write at most {most}", list.len()));
        }
        list.get(..most).unwrap_or(list)
    }

    /// A number within bounds, or a problem and nothing.
    pub(super) fn number<T>(&mut self, value: i64, least: T, most: T) -> Option<T>
    where
        T: TryFrom<i64> + Copy + PartialOrd + fmt::Display,
    {
        match T::try_from(value) {
            Ok(number) if number >= least && number <= most => Some(number),
            _ => {
                self.wrong(value, format!("out of range; write a number from {least} to {most}"));
                None
            }
        }
    }
}
