//! Member names that another parser could take for those that decide.
//!
//! Some parsers match names without regard to case (Go's `encoding/json` does, with Unicode's simple folding: `paramſ` is
//! `params` to it). Whoever meters one reading and lets another run lets calls through, so where a body is sent on, such a
//! name is refused; and so is what decides with a zero character in it, which ends a text for others, or blanks round it.

use super::reply::RpcError;
use serde_json::{Map, Value};

/// The method that decides.
const CALL: &str = "tools/call";

/// Those of a message, and those of its `params`.
const MESSAGE: [&str; 4] = ["jsonrpc", "id", "method", "params"];
const PARAMS: [&str; 2] = ["name", "arguments"];

/// Checks one message, or each one of a batch.
pub fn check(body: &Value) -> Result<(), RpcError> {
    match body {
        Value::Array(messages) => messages.iter().try_for_each(check_message),
        message => check_message(message),
    }
}

fn check_message(message: &Value) -> Result<(), RpcError> {
    let Some(members) = message.as_object() else {
        return Ok(());
    };
    check_names(members, &MESSAGE)?;
    check_text(members.get("method"))?;
    if members
        .get("method")
        .and_then(Value::as_str)
        .is_some_and(|method| method != CALL && folds_to(method.trim_matches(is_blank), CALL))
    {
        return Err(RpcError::invalid_request(&format!(
            "a method must not differ from {CALL} in case or blanks alone"
        )));
    }
    match members.get("params").and_then(Value::as_object) {
        Some(params) => check_names(params, &PARAMS).and_then(|()| check_text(params.get("name"))),
        None => Ok(()),
    }
}

/// A text with a zero character ends there for some.
fn check_text(value: Option<&Value>) -> Result<(), RpcError> {
    match value.and_then(Value::as_str) {
        Some(text) if text.contains('\0') => Err(zero()),
        _ => Ok(()),
    }
}

/// What some take for a blank at the end of a text.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || character.is_control() || character == '\u{feff}'
}

fn zero() -> RpcError {
    RpcError::invalid_request("what decides must not have a zero character")
}

fn check_names(members: &Map<String, Value>, deciding: &[&str]) -> Result<(), RpcError> {
    if members.keys().any(|name| name.contains('\0')) {
        return Err(zero());
    }
    let alike = |name: &String| deciding.iter().find(|own| name != *own && folds_to(name, own));
    match members.keys().find_map(alike) {
        Some(own) => Err(RpcError::invalid_request(&format!("a member must not differ from {own} in case alone"))),
        None => Ok(()),
    }
}

/// Whether `name` is `own`, which is in lower case, when case is ignored. Over the upper case, since letters such as the long s have
/// no other lower case than themselves.
fn folds_to(name: &str, own: &str) -> bool {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).eq(own.chars())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_that_differs_in_case_alone_is_refused_where_it_decides() {
        for body in [
            json!({"method": "ping", "Method": "tools/call"}),
            json!({"jsonRPC": "2.0"}),
            json!({"ID": 1}),
            json!({"Params": {}}),
            json!({"param\u{17f}": {}}),
            json!({"params": {"Name": "echo"}}),
            json!({"params": {"name": "echo", "ARGUMENTS": {}}}),
            json!({"params": {"argument\u{17f}": {}}}),
            json!([{"id": 1}, {"Id": 1}]),
            json!({"method": "Tools/Call"}),
            json!({"method": "tools/call "}),
            json!({"method": "\u{feff}tools/call"}),
            json!({"method": "tools/call\u{1c}"}),
            json!({"method": "tools/call\u{0}"}),
            json!({"method": "ping", "method\u{0}": "tools/call"}),
            json!({"params": {"name": "echo\u{0}"}}),
            json!({"params": {"name\u{0}": "echo"}}),
        ] {
            let error = check(&body).unwrap_err();
            assert_eq!((error.code, error.status), (-32600, 400), "{body}");
        }
    }

    #[test]
    fn other_names_pass_and_so_do_those_deeper_down() {
        for body in [
            json!({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"name": "a", "arguments": {"Name": 1, "ID": 2}}}),
            json!({"result": {"Method": 1}, "methods": 1, "params": {"Id": 1, "names": 2}}),
            json!({"params": [{"Name": 1}]}),
            json!({"method": "tools/call", "params": {"name": "Echo ", "arguments": {"a": "\u{0}"}}}),
            json!({"method": "Tools/List", "id": "\u{0}"}),
            json!([7, {"id": 1}]),
            json!("Method"),
        ] {
            assert_eq!(check(&body), Ok(()), "{body}");
        }
    }

    #[test]
    fn letters_that_fold_into_ascii_are_seen() {
        assert!(folds_to("\u{212a}ey", "key") && folds_to("KEY", "key") && folds_to("key", "key"));
        assert!(!folds_to("keys", "key") && !folds_to("ke", "key") && !folds_to("kéy", "key"));
    }
}
