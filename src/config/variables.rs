//! Reading variables: text, whole numbers and choices, with a fault that names the variable.

use super::{decimal, Fault, PREFIX};
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

    /// A whole number from 1 to `most`.
    pub fn whole(&self, name: &str, default: &str, most: u64) -> Result<u64, Fault> {
        let given = self.text(name, default)?;
        match decimal::whole(&given) {
            Some(number) if (1..=most).contains(&number) => Ok(number),
            _ => Err(Fault::new(name, format!("must be a whole number from 1 to {most}, not {given:?}"))),
        }
    }

    /// The position of what is given in `allowed`.
    pub fn one_of(&self, name: &str, default: &str, allowed: &[&str]) -> Result<usize, Fault> {
        choice(name, &self.text(name, default)?, allowed)
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
