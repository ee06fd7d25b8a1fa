//! The older text form, read as a stranger would read it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use rack::node::Node;
use rack::wait::{PATIENCE, until};

/// Where the agents of these tests listen: each has a namespace of its own.
pub(crate) const PORT: &str = "127.0.0.1:9179";

/// One scrape.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    /// By name.
    pub(crate) kinds: BTreeMap<String, String>,
    /// By name, then by labels as they are written.
    pub(crate) samples: BTreeMap<String, BTreeMap<String, f64>>,
    pub(crate) text: String,
}

/// Reads one of the node's pages with curl, and what it said besides.
pub(crate) fn curl(node: &Node, path: &str, more: &[&str]) -> Result<String> {
    let url = format!("http://{PORT}{path}");
    let arguments = [&["-sS", "--max-time", "20", &url], more].concat();
    node.netns().exec("curl", &arguments)
}

impl Page {
    pub(crate) fn of(node: &Node) -> Result<Self> {
        Self::read(&curl(node, "/metrics", &["--fail"])?)
    }

    /// The first scrape that pleases.
    pub(crate) fn awaited(node: &Node, what: &str, pleases: impl Fn(&Self) -> Result<()>) -> Self {
        let found = until(what, PATIENCE, || {
            let page = Self::of(node)?;
            pleases(&page)?;
            Ok(page)
        });
        found.unwrap_or_else(|error| panic!("{error:#}\n{}", node.log().unwrap_or_default()))
    }

    pub(crate) fn read(text: &str) -> Result<Self> {
        let mut page = Self { text: text.to_owned(), ..Self::default() };
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').context("a type without a kind")?;
                let twice = page.kinds.insert(name.to_owned(), kind.to_owned());
                ensure!(twice.is_none(), "{name} is described twice");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').context("a sample without a value")?;
                let (name, labels) = series.split_once('{').unwrap_or((series, ""));
                let labels = labels.trim_end_matches('}').to_owned();
                let rows = page.samples.entry(name.to_owned()).or_default();
                let twice = rows.insert(labels, value.parse()?);
                ensure!(twice.is_none(), "{series} is there twice");
            }
        }
        Ok(page)
    }

    /// The sum of the samples that have all of these labels, such as `peer="tor-a"`.
    pub(crate) fn sum(&self, name: &str, wanted: &[&str]) -> Result<f64> {
        let rows = self.samples.get(name).with_context(|| format!("there is no {name}"))?;
        let has = |labels: &str| wanted.iter().all(|label| split(labels).contains(*label));
        let found: Vec<f64> =
            rows.iter().filter(|(labels, _)| has(labels)).map(|(_, value)| *value).collect();
        ensure!(!found.is_empty(), "{name} has no {wanted:?}: {rows:?}");
        Ok(found.iter().sum())
    }

    /// The names of the labels that samples of a metric have, all together; a histogram's buckets
    /// aside.
    pub(crate) fn labels(&self, name: &str) -> BTreeSet<String> {
        let suffixes = ["", "_sum", "_count"];
        let series =
            suffixes.iter().filter_map(|suffix| self.samples.get(&format!("{name}{suffix}")));
        let labels = series.flat_map(BTreeMap::keys).flat_map(|labels| split(labels));
        labels.filter_map(|label| Some(label.split_once('=')?.0.to_owned())).collect()
    }

    /// No counter is less than it was before.
    pub(crate) fn has_grown_from(&self, before: &Self) {
        let counts = |name: &str| {
            let kind = self.metric(name).and_then(|metric| self.kinds.get(metric));
            matches!(kind.map(String::as_str), Some("counter" | "histogram"))
        };
        for (name, rows) in before.samples.iter().filter(|(name, _)| counts(name)) {
            for (labels, then) in rows {
                let now = self.samples.get(name).and_then(|rows| rows.get(labels));
                assert!(now >= Some(then), "{name}{{{labels}}} was {then} and is {now:?}");
            }
        }
    }

    /// The metric that a sample belongs to.
    pub(crate) fn metric(&self, sample: &str) -> Option<&str> {
        let whole = |suffix: &str| sample.strip_suffix(suffix);
        let names = ["", "_bucket", "_sum", "_count"].iter().filter_map(|suffix| whole(suffix));
        names.filter_map(|name| self.kinds.get_key_value(name)).map(|(name, _)| &**name).next()
    }
}

fn split(labels: &str) -> BTreeSet<&str> {
    labels.split(',').filter(|label| !label.is_empty()).collect()
}
