//! Reading variables: text, whole numbers and choices, with a fault that names the variable.

use super::{decimal, Fault, PREFIX};
use crate::mcp::json::{self, JsonFault};
use serde_json::{Map, Value};

/// Variables by their names.
pub struct Variables<'a>(pub &'a Map<String, Value>);

impl Variables<'_> {
    /// Whether every variable of ours is one that is read.
    pub fn check_names(&self, known: &[&str]) -> Result<(), Fault> {
        match self.0.keys().find(|name| name.starts_with(PREFIX) && !known.contains(&name.as_str())) {
            Some(unknown) => Err(Fault::new(unknown, "there is no variable of this name")),
            None => Ok(()),
        }
    }

    /// The variable itself.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// A text, or a number as text.
    pub fn text(&self, name: &str, default: &str) -> Result<String, Fault> {
        match self.0.get(name) {
            None => Ok(default.to_owned()),
            Some(value) => scalar(value).ok_or_else(|| Fault::new(name, "must be text or a number")),
        }
    }

    /// A whole number from `least` to `most`.
    pub fn whole(&self, name: &str, default: &str, least: u64, most: u64) -> Result<u64, Fault> {
        whole(name, &self.text(name, default)?, least, most)
    }

    /// A table, given as such or as JSON text; empty when there is none.
    pub fn table(&self, name: &str) -> Result<Map<String, Value>, Fault> {
        match self.0.get(name) {
            None => Ok(Map::new()),
            Some(Value::Object(table)) => Ok(table.clone()),
            Some(Value::String(text)) => match json::parse(text) {
                Ok(Value::Object(table)) => Ok(table),
                Ok(_) => Err(Fault::new(name, NO_TABLE)),
                Err(JsonFault::Syntax(what) | JsonFault::DuplicateMember(what)) => {
                    Err(Fault::new(name, format!("isn't JSON that can be read: {what}")))
                }
            },
            Some(_) => Err(Fault::new(name, NO_TABLE)),
        }
    }

    /// A secret that a header carries: visible ASCII without spaces, or it couldn't.
    pub fn secret(&self, name: &str) -> Result<Option<String>, Fault> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(secret)) if !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Ok(Some(secret.clone()))
            }
            Some(_) => {
                let what = "must be text of visible ASCII characters, without spaces: no header could carry another";
                Err(Fault::new(name, what))
            }
        }
    }

    /// The position of what is given in `allowed`.
    pub fn one_of(&self, name: &str, default: &str, allowed: &[&str]) -> Result<usize, Fault> {
        choice(name, &self.text(name, default)?, allowed)
    }
}

const NO_TABLE: &str = "must be a table, or one as JSON text";

/// A whole number from `least` to `most`.
pub fn whole(variable: &str, given: &str, least: u64, most: u64) -> Result<u64, Fault> {
    match decimal::whole(given) {
        Some(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(Fault::new(variable, format!("must be a whole number from {least} to {most}, not {given:?}"))),
    }
}

/// The position of `given` in `allowed`.
pub fn choice(variable: &str, given: &str, allowed: &[&str]) -> Result<usize, Fault> {
    allowed.iter().position(|choice| *choice == given).ok_or_else(|| {
        let allowed: Vec<String> = allowed.iter().map(|choice| format!("{choice:?}")).collect();
        Fault::new(variable, format!("must be {}, not {given:?}", allowed.join(" or ")))
    })
}

/// A text, or a number as text; trimmed.
pub fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Some(whole.to_string()),
            // Without an exponent, unlike the number's own text.
            (None, Some(fraction)) => Some(fraction.to_string()),
            (None, None) => None,
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
