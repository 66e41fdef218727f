//! Arguments against the schema that a tool publishes.

use super::Tool;
use crate::mcp::headers::{check_params, Header};
use crate::mcp::reply::RpcError;
use crate::mcp::schema::Schema;
use serde_json::{Number, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

thread_local! {
    /// Compiled at a tool's first call in this isolate.
    static COMPILED: RefCell<HashMap<&'static str, Rc<Schema>>> = RefCell::default();
}

/// Checks `arguments`, and gives them back with whole numbers such as `5.0` written as `5`: the schema takes those
/// for integers, and so must whoever reads them. The error is for the model.
pub fn check(tool: &'static Tool, arguments: Value) -> Result<Value, String> {
    compiled(tool)?.check(tool.name, &arguments)?;
    Ok(whole_numbers(arguments))
}

/// Holds the headers that mirror arguments against those.
pub fn check_headers(tool: &'static Tool, header: Header<'_>, arguments: &Value) -> Result<(), RpcError> {
    let compiled = compiled(tool).map_err(|text| RpcError::internal(&text))?;
    check_params(header, compiled.source(), arguments)
}

fn compiled(tool: &'static Tool) -> Result<Rc<Schema>, String> {
    if let Some(compiled) = COMPILED.with_borrow(|tools| tools.get(tool.name).cloned()) {
        return Ok(compiled);
    }
    let compiled =
        Schema::compile_sound((tool.input)()).map_err(|_| format!("The schema of {} can't be used.", tool.name))?;
    let compiled = Rc::new(compiled);
    COMPILED.with_borrow_mut(|tools| tools.insert(tool.name, Rc::clone(&compiled)));
    Ok(compiled)
}

fn whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(whole_number(number)),
        Value::Array(values) => Value::Array(values.into_iter().map(whole_numbers).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (name, whole_numbers(value))).collect())
        }
        other @ (Value::Null | Value::Bool(_) | Value::String(_)) => other,
    }
}

/// A float without a fraction as an integer, where it stands for exactly one.
fn whole_number(number: Number) -> Number {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT => Number::from(float as i64),
        _ => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{all, find};
    use serde_json::json;

    fn checked(tool: &str, arguments: Value) -> Result<Value, String> {
        check(find(tool).unwrap(), arguments)
    }

    #[track_caller]
    fn fault(tool: &str, arguments: Value) -> String {
        let text = checked(tool, arguments).unwrap_err();
        text.strip_prefix(&format!("Invalid arguments for {tool}: ")).unwrap().to_owned()
    }

    #[test]
    fn every_published_schema_compiles() {
        for tool in all() {
            assert!(Schema::compile((tool.input)()).is_ok(), "{}", tool.name);
            assert!(tool.output.is_none_or(|output| Schema::compile(output()).is_ok()), "{}", tool.name);
        }
    }

    #[test]
    fn what_fits_passes_and_a_whole_float_becomes_an_integer() {
        assert_eq!(checked("echo", json!({"text": "hi"})), Ok(json!({"text": "hi"})));
        assert_eq!(checked("search_docs", json!({"query": "a", "limit": 5.0})), Ok(json!({"query": "a", "limit": 5})));
        assert_eq!(
            whole_numbers(json!([1.5, {"a": -2.0}, 1e300, "2.0", null])),
            json!([1.5, {"a": -2}, 1e300, "2.0", null])
        );
        assert_eq!(
            whole_number(Number::from_f64(9_007_199_254_740_991.0).unwrap()),
            Number::from(9_007_199_254_740_991_i64)
        );
        assert!(whole_number(Number::from_f64(9_007_199_254_740_992.0).unwrap()).is_f64());
    }

    #[test]
    fn a_fault_names_the_argument_and_what_is_wrong() {
        assert_eq!(fault("echo", json!({})), "/text is missing.");
        assert_eq!(fault("echo", json!({"text": 7})), "/text must be of type string, not number.");
        assert_eq!(fault("echo", json!({"text": ""})), "/text must have at least 1 character, not 0.");
        assert_eq!(
            fault("echo", json!({"text": "é".repeat(4001)})),
            "/text must have at most 4000 characters, not 4001."
        );
        assert!(checked("echo", json!({"text": "é".repeat(4000)})).is_ok(), "characters, not bytes");
        assert_eq!(fault("echo", json!({"text": "a", "loud": true})), "/loud is not an argument of this tool.");
        assert_eq!(fault("search_docs", json!({"query": "a", "limit": 0})), "/limit must be at least 1, not 0.");
        assert_eq!(fault("search_docs", json!({"query": "a", "limit": 21})), "/limit must be at most 20, not 21.");
        assert_eq!(
            fault("search_docs", json!({"query": "a", "limit": 1.5})),
            "/limit must be of type integer, not number."
        );
        assert_eq!(fault("read_decision", json!({"id": "1"})), "/id must match the pattern ^[0-9]{4}$.");
        assert_eq!(fault("read_decision", json!({"id": "0001\n"})), "/id must match the pattern ^[0-9]{4}$.");
        let both = fault("search_docs", json!({"limit": "x"}));
        assert!(
            both.contains("/query is missing") && both.contains("/limit must be of type integer, not string"),
            "{both}"
        );
    }

    #[test]
    fn a_header_that_mirrors_an_argument_is_held_against_it() {
        static MIRRORED: Tool = Tool {
            name: "mirrored",
            input: || json!({ "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } }),
            ..crate::tools::echo::TOOL
        };
        let header = |name: &str| (name == "mcp-param-region").then(|| "here".to_owned());
        assert!(check_headers(&MIRRORED, &header, &json!({"region": "here"})).is_ok());
        assert_eq!(check_headers(&MIRRORED, &header, &json!({"region": "there"})).unwrap_err().code, -32020);
    }

    #[test]
    fn many_faults_are_told_by_number_and_a_long_name_is_cut() {
        let many: serde_json::Map<_, _> = (0..9).map(|n| (format!("x{n}"), json!(1))).collect();
        let text = fault("rate_limit_status", Value::Object(many));
        assert!(text.ends_with("; and 4 more."), "{text}");
        let turned = fault("rate_limit_status", json!({ "a\u{202e}b\n": 1 }));
        assert_eq!(turned, r"/a\u{202e}b\n is not an argument of this tool.");
        assert!(fault("rate_limit_status", json!({ "y".repeat(10_000): 1 })).len() < 120);
    }
}
