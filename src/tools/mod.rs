//! The tools: one table, one file a tool. `docs/tool-design.md` shows how to add one.

pub mod arguments;
mod describe_component;
mod documents;
mod echo;
#[cfg(feature = "fixtures")]
mod fixtures;
mod list_decisions;
mod rate_limit_status;
mod read_decision;
mod search_docs;

use crate::config::tools::ToolDefault;
use crate::limiter::standing;
use crate::mcp::reply::written;
use crate::mcp::revision::Revision;
use crate::mcp::server::tools_result;
use crate::mcp::tool_result::ToolResult;
use schemars::transform::RecursiveTransform;
use schemars::{generate::SchemaSettings, JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{json, Map, Value};
use std::cell::OnceCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// The table. Its order is the order of `tools/list`.
const TABLE: &[Tool] = &[
    echo::TOOL,
    list_decisions::TOOL,
    read_decision::TOOL,
    search_docs::TOOL,
    describe_component::TOOL,
    rate_limit_status::TOOL,
];

/// One tool.
#[derive(Debug)]
pub struct Tool {
    /// 1 to 64 of `A-Z a-z 0-9 _ - .`, unique.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// For the model: what it does, and when to use it.
    pub description: &'static str,
    /// Tokens a call, unless `MCP_TOOLS` says otherwise.
    pub cost: u64,
    /// Whether the limiter is asked even when the call is free, since the tool tells what is left.
    pub needs_allowance: bool,
    /// A client capability without which the tool can't be called (2026-07-28, -32021).
    pub needs_capability: Option<&'static str>,
    /// Whether it changes nothing (`readOnlyHint`).
    pub read_only: bool,
    /// The schema of its arguments; [`schema_of`] derives it.
    pub input: fn() -> Value,
    /// The schema of its structured content, if it has some.
    pub output: Option<fn() -> Value>,
    /// Runs it. The arguments fit the schema by then.
    pub run: fn(Call) -> Running,
}

/// A call that was admitted.
#[derive(Debug)]
pub struct Call {
    /// An object that fits the tool's schema.
    pub arguments: Value,
    /// What is left to the caller after this call.
    pub standing: Standing,
}

/// What is left to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is limited.
    Unlimited,
    /// The limiter wasn't asked, or couldn't answer.
    Unknown,
    /// This.
    Known(standing::Standing),
}

/// A tool at work.
pub type Running = Pin<Box<dyn Future<Output = ToolResult>>>;

impl Call {
    /// Reads the arguments as the tool's own type, and has `work` answer at once. A tool that waits for something
    /// boxes a future of its own instead.
    pub fn answer<T: DeserializeOwned + 'static>(self, work: fn(T, Standing) -> ToolResult) -> Running {
        let result = match serde_json::from_value(self.arguments) {
            Ok(arguments) => work(arguments, self.standing),
            Err(error) => ToolResult::error(format!("Invalid arguments: {error}.")),
        };
        Box::pin(std::future::ready(result))
    }
}

/// All tools.
pub fn all() -> impl Iterator<Item = &'static Tool> {
    #[cfg(feature = "fixtures")]
    return TABLE.iter().chain(fixtures::TABLE);
    #[cfg(not(feature = "fixtures"))]
    TABLE.iter()
}

/// The tool of this name.
pub fn find(name: &str) -> Option<&'static Tool> {
    all().find(|tool| tool.name == name)
}

/// Names and costs, for the configuration.
pub fn defaults() -> Vec<ToolDefault<'static>> {
    all().map(|tool| ToolDefault { name: tool.name, cost: tool.cost }).collect()
}

thread_local! {
    /// Each written once in an isolate, for the legacy era and for the modern: that method is free, and deriving schemas isn't.
    static LISTS: [OnceCell<Rc<RawValue>>; 2] = const { [OnceCell::new(), OnceCell::new()] };
}

/// The entries of `tools/list`.
pub fn list() -> Vec<Value> {
    all().map(Tool::to_json).collect()
}

/// The result of `tools/list` by `revision`.
pub fn list_result(revision: Revision) -> Rc<RawValue> {
    LISTS.with(|[legacy, modern]| {
        let kept = if revision.is_modern() { modern } else { legacy };
        Rc::clone(kept.get_or_init(|| written(&tools_result(list(), revision))))
    })
}

impl Tool {
    fn to_json(&self) -> Value {
        let mut entry = Map::new();
        let mut set = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        set("name", json!(self.name));
        set("title", json!(self.title));
        set("description", json!(self.description));
        set("inputSchema", (self.input)());
        if let Some(output) = self.output {
            set("outputSchema", output());
        }
        set("annotations", json!({ "readOnlyHint": self.read_only, "openWorldHint": false }));
        Value::Object(entry)
    }
}

/// The JSON Schema (2020-12) of a Rust type. What is published is what is checked is what is read: they can't differ.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(without_rust_formats));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of a Rust type tells a model nothing.
    schema.remove("title");
    schema.to_value()
}

/// Takes out formats such as `uint32`: they name types of Rust, JSON Schema knows none of them, and clients warn of each.
fn without_rust_formats(schema: &mut Schema) {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    if ["int", "uint", "float", "double"].iter().any(|prefix| format.starts_with(prefix)) {
        schema.remove("format");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_tool_has_a_good_name_a_text_and_an_object_schema() {
        let mut names = HashSet::new();
        for tool in all() {
            assert!(names.insert(tool.name), "{} twice", tool.name);
            let good = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            assert!((1..=64).contains(&tool.name.len()) && tool.name.chars().all(good));
            assert!(!tool.title.is_empty() && tool.description.ends_with('.'), "{}", tool.name);
            for schema in [Some(tool.input), tool.output].into_iter().flatten() {
                assert_eq!(schema()["type"], "object", "{}", tool.name);
                assert!(!schema().to_string().contains(r#""format""#), "{}: no format is Rust's", tool.name);
            }
            assert_eq!(find(tool.name).unwrap().name, tool.name);
        }
        assert!(find("nope").is_none());
    }

    #[test]
    fn the_tools_it_comes_with_come_first_and_cost_what_they_always_did() {
        let shipped: Vec<_> = TABLE.iter().take(6).map(|tool| (tool.name, tool.cost)).collect();
        let expected = [
            ("echo", 1),
            ("list_decisions", 1),
            ("read_decision", 1),
            ("search_docs", 2),
            ("describe_component", 1),
            ("rate_limit_status", 0),
        ];
        assert_eq!(shipped, expected);
    }

    #[test]
    fn the_list_shows_derived_schemas() {
        let list = list();
        let search = list.iter().find(|tool| tool["name"] == "search_docs").unwrap();
        let schema = &search["inputSchema"];
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["required"], json!(["query"]));
        assert_eq!(
            (&schema["properties"]["query"]["minLength"], &schema["properties"]["query"]["maxLength"]),
            (&json!(1), &json!(200))
        );
        let limit = &schema["properties"]["limit"];
        assert_eq!((&limit["minimum"], &limit["maximum"], &limit["default"]), (&json!(1), &json!(20), &json!(5)));
        assert_eq!(search["annotations"]["readOnlyHint"], true);
        assert_eq!(schema.get("title"), None);
    }
}
