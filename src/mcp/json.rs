//! JSON, read strictly: what two parsers could read in two ways is refused.
//!
//! RFC 8259 section 4 leaves it open what a repeated member name means. Whoever meters by what was read and whoever
//! runs it must read the same, so here it is a fault. Nesting stops at 128 levels, as serde_json has it.

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Number, Value};
use std::fmt;

/// Why a text isn't taken for JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonFault {
    /// It isn't JSON; the text says where.
    Syntax(String),
    /// It is, but a member name comes twice in one object.
    DuplicateMember(String),
}

/// Reads one JSON value and nothing after it.
pub fn parse(text: &str) -> Result<Value, JsonFault> {
    match serde_json::from_str::<Strict>(text) {
        Ok(Strict(value)) => Ok(value),
        Err(error) if error.classify() == Category::Data => Err(JsonFault::DuplicateMember(error.to_string())),
        Err(error) => Err(JsonFault::Syntax(error.to_string())),
    }
}

/// A [`Value`] whose objects have each name once.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = seq.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let Strict(value) = map.next_value()?;
            if members.contains_key(&name) {
                let shown: String = name.chars().take(100).collect();
                return Err(A::Error::custom(format_args!("member {shown:?} comes twice")));
            }
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_read_as_serde_json_reads_it() {
        for text in [
            "null",
            "true",
            "-7",
            "18446744073709551615",
            "1.5",
            "1e3",
            r#""a\u0041\ud83d\ude00""#,
            "[]",
            "[1,[2]]",
            "{}",
            r#"{"a":{"b":[null,false]},"c":""}"#,
            " 1 ",
        ] {
            assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn what_isnt_json_is_a_syntax_fault() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for text in
            ["", "{", "NaN", "Infinity", "[1,]", "{a:1}", "1 2", r#""\ud800""#, "1e999", "\u{feff}1", "'a'", &deep]
        {
            assert!(matches!(parse(text), Err(JsonFault::Syntax(_))), "{text}");
        }
        assert!(parse(&("[".repeat(100) + &"]".repeat(100))).is_ok());
    }

    #[test]
    fn a_member_that_comes_twice_is_named_at_any_depth() {
        for text in [r#"{"a":1,"a":2}"#, r#"[{"x":{"a":1,"b":2,"\u0061":3}}]"#] {
            let Err(JsonFault::DuplicateMember(what)) = parse(text) else { panic!("{text}") };
            assert!(what.starts_with(r#"member "a" comes twice"#), "{what}");
        }
        assert_eq!(parse(r#"{"a":{"a":1}}"#).unwrap(), json!({"a": {"a": 1}}));
    }
}
