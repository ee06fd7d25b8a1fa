//! A conflist run as libcni runs it, without a runtime around it: ADD and CHECK
//! forwards, DEL backwards, each plugin with its own entry, the list's name and
//! version, the runtime's wishes for its capabilities, and the previous result.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde_json::{Map, Value};

use crate::netns::Netns;
use crate::plugin::{Answer, execute};
use crate::pod::Pod;

/// A conflist with the directory of its plugins.
#[derive(Debug)]
pub struct Chain {
    node: Netns,
    plugin_dir: PathBuf,
    conflist: Value,
    wishes: Map<String, Value>,
}

impl Chain {
    /// A conflist for pods of a node.
    pub fn new(node: &Netns, plugin_dir: &Path, conflist: Value) -> Result<Self> {
        Ok(Self {
            node: Netns::of_someone_else(&node.path())?,
            plugin_dir: plugin_dir.to_path_buf(),
            conflist,
            wishes: Map::new(),
        })
    }

    /// What the runtime asks of plugins with this capability.
    pub fn wish(mut self, capability: &str, value: Value) -> Self {
        self.wishes.insert(capability.to_owned(), value);
        self
    }

    /// ADD through the whole list; the result is the last plugin's.
    pub fn add(&self, pod: &Pod) -> Result<Value> {
        let mut result = None;
        for entry in self.entries()? {
            result = Some(self.succeed("ADD", pod, entry, result.as_ref())?);
        }
        result.context("an empty conflist")
    }

    /// CHECK through the whole list; the first complaint ends it.
    pub fn check(&self, pod: &Pod, result: &Value) -> Result<Answer> {
        for entry in self.entries()? {
            if let Err(complaint) = self.call("CHECK", pod, entry, Some(result))? {
                return Ok(Err(complaint));
            }
        }
        Ok(Ok(Value::Null))
    }

    /// DEL through the whole list, backwards, with the cached result of ADD
    /// where there is one.
    pub fn del(&self, pod: &Pod, result: Option<&Value>) -> Result<()> {
        for entry in self.entries()?.iter().rev() {
            self.succeed("DEL", pod, entry, result)?;
        }
        Ok(())
    }

    fn entries(&self) -> Result<&[Value]> {
        let plugins = self.conflist.get("plugins").and_then(Value::as_array);
        plugins.map(Vec::as_slice).context("a conflist without plugins")
    }

    fn succeed(
        &self,
        command: &str,
        pod: &Pod,
        entry: &Value,
        previous: Option<&Value>,
    ) -> Result<Value> {
        self.call(command, pod, entry, previous)?
            .map_err(|error| anyhow!(error).context(format!("{command} by {}", kind(entry))))
    }

    fn call(
        &self,
        command: &str,
        pod: &Pod,
        entry: &Value,
        previous: Option<&Value>,
    ) -> Result<Answer> {
        let config = self.config(entry, previous)?;
        let program = self.plugin_dir.join(kind(entry));
        self.node.within(|| execute(&program, &pod.call(command), config.to_string().as_bytes()))
    }

    fn config(&self, entry: &Value, previous: Option<&Value>) -> Result<Value> {
        let mut config = entry.as_object().context("an entry that is no object")?.clone();
        for key in ["cniVersion", "name"] {
            let value = self.conflist.get(key).cloned().unwrap_or_default();
            config.insert(key.to_owned(), value);
        }
        let capabilities = config.remove("capabilities");
        let wanted = |name: &String| {
            capabilities.as_ref().and_then(|all| all.get(name)).is_some_and(|on| on == true)
        };
        let wishes: Map<_, _> =
            self.wishes.clone().into_iter().filter(|(name, _)| wanted(name)).collect();
        if !wishes.is_empty() {
            config.insert("runtimeConfig".to_owned(), wishes.into());
        }
        if let Some(previous) = previous {
            config.insert("prevResult".to_owned(), previous.clone());
        }
        Ok(config.into())
    }
}

fn kind(entry: &Value) -> &str {
    entry.get("type").and_then(Value::as_str).unwrap_or_default()
}
