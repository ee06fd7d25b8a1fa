//! `flock-agent schema`: the contract of `-o json` as JSON Schema, made from the types that are
//! printed, so that the two cannot differ. The same is checked in under `docs/schemas/`.

use clap::builder::PossibleValuesParser;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use super::bgp::{Explanation, PeerList, RouteList, Summary};
use super::check::Report;
use super::drain::DrainStatus;
use super::exit::Ended;
use super::log_level::LogLevel;
use super::output::{self, Look, Table, Tone};
use super::pods::PodList;
use super::policy::{PolicyExplanation, PolicyReport};

/// Below the flags.
pub(super) const HELP: &str = "\
Keys that a schema requires are always there, with null for what is not known. Keys may be added; \
none changes its meaning.

Examples:
  flock-agent schema
  flock-agent schema bgp-show-peers";

/// An answer with a schema.
struct Answer {
    /// Its name, and its file's.
    name: &'static str,
    /// What prints it.
    command: &'static str,
    schema: fn() -> Schema,
}

const fn answer<T: JsonSchema>(name: &'static str, command: &'static str) -> Answer {
    Answer { name, command, schema: of::<T> }
}

const ALL: [Answer; 10] = [
    answer::<Summary>("bgp-show", "bgp show"),
    answer::<PeerList>("bgp-show-peers", "bgp show peers"),
    answer::<RouteList>("bgp-show-routes", "bgp show routes"),
    answer::<Explanation>("bgp-explain", "bgp explain"),
    answer::<PodList>("pods", "pods"),
    answer::<Report>("check", "check"),
    answer::<PolicyReport>("policy-show", "policy show"),
    answer::<PolicyExplanation>("policy-explain", "policy explain"),
    answer::<DrainStatus>("drain-status", "drain --status"),
    answer::<LogLevel>("log-level", "log-level"),
];

fn of<T: JsonSchema>() -> Schema {
    // What is written, not what would be read: all keys are there.
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

impl Answer {
    fn text(&self) -> anyhow::Result<String> {
        let mut schema = (self.schema)();
        schema.insert("title".into(), format!("flock-agent {} -o json", self.command).into());
        Ok(serde_json::to_string_pretty(&schema)? + "\n")
    }
}

/// What may be asked for.
pub(super) fn name() -> PossibleValuesParser {
    PossibleValuesParser::new(ALL.iter().map(|answer| answer.name))
}

/// Prints one, or what there are.
pub fn run(name: Option<&str>) -> anyhow::Result<Ended> {
    let found = ALL.iter().find(|answer| Some(answer.name) == name);
    output::print(&match found {
        Some(answer) => answer.text()?,
        None => list(),
    })?;
    Ok(Ended::Done)
}

fn list() -> String {
    let mut table = Table::new(vec!["NAME", "ANSWER OF"]);
    for answer in &ALL {
        let command = format!("flock-agent {} -o json", answer.command);
        table.row(vec![(answer.name.into(), Tone::Plain), (command, Tone::Plain)]);
    }
    table.draw(Look::PIPE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// `FLOCK_WRITE_SCHEMAS=1 cargo nextest run -p flock-agent --lib schema` writes them anew; the
    /// difference is what a script may notice.
    #[test]
    fn the_schemas_in_the_tree_are_those_of_the_answers() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas");
        if std::env::var_os("FLOCK_WRITE_SCHEMAS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            for answer in &ALL {
                let path = folder.join(format!("{}.json", answer.name));
                fs::write(path, answer.text().unwrap()).unwrap();
            }
        }
        let mut there = BTreeSet::new();
        for entry in fs::read_dir(&folder).unwrap() {
            there.insert(entry.unwrap().file_name().into_string().unwrap());
        }
        let wanted: BTreeSet<String> =
            ALL.iter().map(|answer| format!("{}.json", answer.name)).collect();
        assert_eq!(there, wanted);
        for answer in &ALL {
            let text = fs::read_to_string(folder.join(format!("{}.json", answer.name))).unwrap();
            let remedy = "write it anew with FLOCK_WRITE_SCHEMAS=1";
            assert!(text == answer.text().unwrap(), "{}: {remedy}", answer.name);
            assert!(!text.contains("[`") && !text.contains("None"), "{}: for people", answer.name);
        }
    }

    #[test]
    fn every_key_has_a_description_and_is_there() {
        for answer in &ALL {
            let schema: serde_json::Value = serde_json::from_str(&answer.text().unwrap()).unwrap();
            let definitions = schema["$defs"].as_object().into_iter().flatten();
            let rows = definitions.filter(|(_, one)| one["properties"].is_object());
            for (name, object) in rows.chain([(&answer.name.to_owned(), &schema)]) {
                let properties = object["properties"].as_object().unwrap();
                let required: BTreeSet<&str> = object["required"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter_map(|r| r.as_str())
                    .collect();
                assert!(properties.keys().all(|key| required.contains(key.as_str())), "{name}");
                for (key, value) in properties {
                    assert!(value["description"].is_string(), "{name}.{key}");
                }
            }
        }
        assert!(list().contains("bgp-show-peers   flock-agent bgp show peers -o json\n"));
    }
}
