//! The id of a request: a string or an integer, echoed byte for byte.
//!
//! It is kept as the client wrote it, since an integer beyond 2^53 would not survive as a number
//! (specification 2026-07-28, basic, Requests: "string or integer", never null).

use serde::Serialize;
use serde_json::value::RawValue;

/// A request's id.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Id(Box<RawValue>);

impl Id {
    /// The id in `raw`, unless that is null, a fraction, a boolean, an array or an object.
    pub fn new(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        let digits = text.strip_prefix('-').unwrap_or(text);
        let integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        (integer || text.starts_with('"')).then(|| Self(raw.to_owned()))
    }

    /// The id as JSON text.
    pub fn as_json(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Option<Id> {
        Id::new(&RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn strings_and_integers_of_any_size_are_echoed_as_written() {
        for text in
            ["1", "-1", "0", "9007199254740993", "123456789012345678901234567890", r#""1""#, r#""""#, r#""\u0041\"""#]
        {
            let id = id(text).unwrap();
            assert_eq!(serde_json::to_string(&id).unwrap(), text);
            assert_eq!(id.as_json(), text);
        }
    }

    #[test]
    fn nothing_else_is_an_id() {
        for text in ["null", "true", "1.0", "1.5", "1e3", "-1E2", "[]", "[1]", "{}"] {
            assert_eq!(id(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_and_its_string_are_different_ids() {
        assert_ne!(id("1"), id(r#""1""#));
        assert_eq!(id("1"), id("1"));
    }
}
