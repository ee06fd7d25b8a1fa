//! Values that are a number or a text. Told apart without guessing, with an error that says what is
//! wanted; the API server knows them as `x-kubernetes-int-or-string`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time: `90s`, `300ms`, or a whole number of seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// As written.
    Text(String),
    /// Seconds.
    Seconds(i64),
}

/// A peer's AS number: a number, or which kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerAsn {
    /// The number.
    Number(i64),
    /// `external` or `internal`.
    Word(String),
}

/// A number or a text, told apart without guessing and with an error that says what is wanted.
struct NumberOrText(&'static str);

enum Either {
    Number(i64),
    Text(String),
}

impl Visitor<'_> for NumberOrText {
    type Value = Either;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Either, E> {
        Ok(Either::Number(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Either, E> {
        i64::try_from(number)
            .map(Either::Number)
            .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Either, E> {
        Ok(Either::Text(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wanted = "a duration such as 90s or 300ms, or whole seconds";
        Ok(match deserializer.deserialize_any(NumberOrText(wanted))? {
            Either::Number(seconds) => Self::Seconds(seconds),
            Either::Text(text) => Self::Text(text),
        })
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Seconds(seconds) => serializer.serialize_i64(*seconds),
        }
    }
}

impl<'de> Deserialize<'de> for PeerAsn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wanted = "an AS number, external or internal";
        Ok(match deserializer.deserialize_any(NumberOrText(wanted))? {
            Either::Number(number) => Self::Number(number),
            Either::Text(text) => Self::Word(text),
        })
    }
}

impl Serialize for PeerAsn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Word(word) => serializer.serialize_str(word),
        }
    }
}

impl JsonSchema for Span {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // The bounds differ from field to field and are in two units: they stay the agent's.
        json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "x-kubernetes-int-or-string": true,
            "minimum": 0,
            "pattern": "[0-9]",
        })
    }
}

impl JsonSchema for PeerAsn {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PeerAsn".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "x-kubernetes-int-or-string": true,
            "minimum": 1,
            "maximum": u32::MAX,
            "pattern": "^(external|internal)$",
        })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Seconds(seconds) => write!(f, "{seconds}"),
        }
    }
}

impl fmt::Display for PeerAsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}
