//! The result of a tool call (specification, server/tools, Tool Result).

use super::revision::Revision;
use super::server::complete;
use serde::Serialize;
use serde_json::{json, Map, Value};

/// What a tool says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResult {
    /// Content blocks.
    pub content: Vec<Value>,
    /// The same for programs, an object; only with a tool that publishes an output schema.
    pub structured: Option<Value>,
    /// Whether this tells of a failure. The model reads it either way.
    pub is_error: bool,
    /// Fields of `_meta`.
    pub meta: Map<String, Value>,
}

impl ToolResult {
    /// One text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![json!({ "type": "text", "text": text.into() })], ..Self::default() }
    }

    /// A failure, told in one text. It has no structured content: some clients would hold that against the tool's
    /// schema and throw the text away (typescript-sdk#654).
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// A value, both structured and as text.
    pub fn structured(value: &impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => Self { structured: Some(value.clone()), ..Self::text(value.to_string()) },
            Err(error) => Self::error(format!("The result can't be told: {error}")),
        }
    }

    /// The result with one more field in its `_meta`.
    pub fn with_meta(mut self, key: &str, value: Value) -> Self {
        self.meta.insert(key.to_owned(), value);
        self
    }

    /// The result as `revision` has it.
    pub fn into_value(self, revision: Revision) -> Value {
        let mut members = Map::new();
        members.insert("content".to_owned(), Value::Array(self.content));
        members.insert("isError".to_owned(), Value::Bool(self.is_error));
        if let Some(structured) = self.structured {
            members.insert("structuredContent".to_owned(), structured);
        }
        if !self.meta.is_empty() {
            members.insert("_meta".to_owned(), Value::Object(self.meta));
        }
        complete(Value::Object(members), revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_in_both_eras() {
        let legacy = ToolResult::text("hi").into_value(Revision::V2025_06_18);
        assert_eq!(legacy, json!({"content": [{"type": "text", "text": "hi"}], "isError": false}));
        let modern = ToolResult::text("hi").with_meta("a/b", json!(1)).into_value(Revision::V2026_07_28);
        assert_eq!((&modern["resultType"], &modern["_meta"]["a/b"]), (&json!("complete"), &json!(1)));
    }

    #[test]
    fn a_structured_value_is_told_twice_and_an_error_once() {
        let value = ToolResult::structured(&json!({"a": 1})).into_value(Revision::V2025_06_18);
        assert_eq!(value["structuredContent"], json!({"a": 1}));
        assert_eq!(value["content"][0]["text"], r#"{"a":1}"#);
        let error = ToolResult::error("no").into_value(Revision::V2025_06_18);
        assert_eq!((&error["isError"], error.get("structuredContent")), (&json!(true), None));
    }
}
