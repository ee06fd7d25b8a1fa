//! Commands: one JSON object a line, with one word and, where the answer is to be told apart, an
//! "id". Decides what each word does; the words for peers and routes are `config`'s.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use flock_bgp::{Farewell, PeerKey, Wishes};
use flock_bgp_io::Handle;
use ipnet::IpNet;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::{self, Config, Peer, Route};
use crate::report;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Command {
    Originate(Vec<Route>),
    Withdraw(Vec<IpNet>),
    Peers(Vec<Peer>),
    Refresh(String),
    Reset(String),
    Drain(bool),
    Complete(bool),
    Networks(Networks),
    Show(Show),
    Farewell(Words),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Networks {
    connected: Vec<IpNet>,
    #[serde(default)]
    own: Vec<IpNet>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Show {
    Peers,
    Routes,
    Driver,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Words {
    Silent,
    Text(String),
}

/// Carries commands out.
#[derive(Debug)]
pub(crate) struct Commander {
    handle: Handle,
    asn: u32,
    communities: Vec<String>,
}

impl Commander {
    pub(crate) fn new(config: &Config, handle: Handle) -> Self {
        Self { handle, asn: config.asn, communities: config.communities.clone() }
    }

    /// The answer to a line, and whether it was the last.
    pub(crate) async fn obey(&self, line: &str) -> (Value, bool) {
        let (id, command) = parse(line);
        let ends = matches!(command, Ok(Command::Farewell(_)));
        let outcome = match command {
            Ok(command) => self.carry_out(command).await,
            Err(error) => Err(error),
        };
        let mut answer = outcome
            .unwrap_or_else(|error| json!({"answer": "error", "error": format!("{error:#}")}));
        if let (Some(id), Some(fields)) = (id, answer.as_object_mut()) {
            fields.insert("id".to_owned(), id);
        }
        (answer, ends)
    }

    /// Nobody gives commands any more.
    pub(crate) async fn leave(&self) {
        let _ = self.handle.farewell(Farewell::Silent).await;
    }

    async fn carry_out(&self, command: Command) -> Result<Value> {
        match command {
            Command::Originate(routes) => {
                let wishes = config::originations(&routes, &self.communities)?;
                let wishes = wishes.into_iter().map(|(net, wish)| (net, Some(wish))).collect();
                self.handle.originate(Wishes::Some(wishes)).await?;
            }
            Command::Withdraw(nets) => {
                let wishes = nets.into_iter().map(|net| (net.trunc(), None)).collect();
                self.handle.originate(Wishes::Some(wishes)).await?;
            }
            Command::Peers(peers) => self.handle.peers(config::peers(&peers, self.asn)?).await?,
            Command::Refresh(name) => self.handle.refresh(self.peer(&name).await?).await?,
            Command::Reset(name) => {
                self.handle.reset(self.peer(&name).await?, Arc::from("reset by command")).await?;
            }
            Command::Drain(on) => self.handle.drain(on).await?,
            Command::Complete(true) => self.handle.complete().await?,
            Command::Complete(false) => anyhow::bail!("complete: what is complete stays so"),
            Command::Networks(Networks { connected, own }) => {
                self.handle.networks(connected, own, Vec::new()).await?;
            }
            Command::Show(Show::Peers) => return report::peers(&self.handle).await,
            Command::Show(Show::Routes) => return report::routes(&self.handle).await,
            Command::Show(Show::Driver) => return report::driver(&self.handle).await,
            Command::Farewell(Words::Silent) => self.handle.farewell(Farewell::Silent).await?,
            Command::Farewell(Words::Text(text)) => {
                self.handle.farewell(Farewell::Shutdown(text.into())).await?;
            }
        }
        Ok(json!({"answer": "ok"}))
    }

    async fn peer(&self, name: &str) -> Result<PeerKey> {
        let wanted = name.to_owned();
        let found = self.handle.query(move |speaker| speaker.peer_by_name(&wanted)).await?;
        found.with_context(|| format!("no peer {name:?}"))
    }
}

fn parse(line: &str) -> (Option<Value>, Result<Command>) {
    let mut value: Value = match serde_json::from_str(line) {
        Ok(value) => value,
        Err(error) => return (None, Err(error.into())),
    };
    let id = value.as_object_mut().and_then(|fields| fields.remove("id"));
    (id, serde_path_to_error::deserialize(value).map_err(Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_contract_is_understood() {
        for line in [
            r#"{"originate":[{"prefix":"10.1.0.0/24"}]}"#,
            r#"{"withdraw":["10.1.0.0/24"]}"#,
            r#"{"peers":[{"name":"tor","address":"10.0.0.2","asn":65000}]}"#,
            r#"{"refresh":"tor"}"#,
            r#"{"reset":"tor"}"#,
            r#"{"drain":true}"#,
            r#"{"complete":true}"#,
            r#"{"networks":{"connected":["10.0.0.0/24"],"own":["10.1.0.0/24"]}}"#,
            r#"{"networks":{"connected":["10.0.0.0/24"]}}"#,
            r#"{"show":"peers"}"#,
            r#"{"show":"routes"}"#,
            r#"{"farewell":"silent"}"#,
            r#"{"farewell":{"text":"bye"}}"#,
        ] {
            assert!(parse(line).1.is_ok(), "{line}: {:?}", parse(line).1);
        }
    }

    #[test]
    fn the_id_is_kept_also_with_an_error() {
        let (id, command) = parse(r#"{"dance":true,"id":7}"#);
        assert_eq!(id, Some(json!(7)));
        assert!(command.unwrap_err().to_string().contains("dance"));
        assert!(parse("garbage").1.is_err());
        assert!(parse(r#"{"drain":true,"complete":true}"#).1.is_err());
    }
}
