//! What comes back from the server behind, as the client is told.

use crate::mcp::reply::Response;
use crate::upstream::client::{Answer, Lost};
use serde_json::value::RawValue;
use serde_json::Value;

/// What a lost answer comes to: an HTTP status, and a text for whoever waits for it.
pub fn lost(lost: Lost) -> (u16, &'static str) {
    match lost {
        Lost::Timeout => (504, "The server behind didn't answer in time."),
        Lost::Connection => (502, "The server behind can't be reached, or the connection to it was lost."),
        Lost::Status => (502, "The server behind answered with a status that HTTP doesn't have."),
        Lost::Redirect => (502, "The server behind answered with a redirect, which isn't followed."),
    }
}

/// The same for a call. None of these can be told from a call that ran.
pub fn lost_call(fault: Lost) -> String {
    format!("{} The call may have run.", lost(fault).1)
}

/// Whether a body is the error of a server that doesn't know which request it answers (JSON-RPC 2.0 section 5).
pub fn is_nameless_error(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body)
        .is_ok_and(|body| body.get("id") == Some(&Value::Null) && body.get("error").is_some_and(Value::is_object))
}

/// What is told of an answer that is none in MCP.
pub fn no_answer(answer: &Answer) -> String {
    let media_type = answer.media_type();
    // A header is text that somebody else wrote.
    let shown: String = media_type.chars().filter(char::is_ascii_graphic).take(50).collect();
    let what = match (answer.status, shown.as_str()) {
        (200..=299, "") => "nothing".to_owned(),
        (200..=299, shown) => shown.to_owned(),
        (status, _) => format!("status {status}"),
    };
    format!("The server behind answered with {what}, which is no answer to a call.")
}

/// Our own responses and those of the server behind, which are one or an array, as one array.
pub fn together(ours: &[Response], theirs: &[u8]) -> Option<Vec<u8>> {
    let theirs = std::str::from_utf8(theirs).ok()?;
    let theirs: Vec<&RawValue> = match serde_json::from_str(theirs) {
        Ok(all) => all,
        Err(_) => vec![serde_json::from_str(theirs).ok()?],
    };
    let ours: Vec<Box<RawValue>> =
        ours.iter().filter_map(|response| serde_json::value::to_raw_value(response).ok()).collect();
    let all: Vec<&RawValue> = ours.iter().map(|raw| &**raw).chain(theirs).collect();
    serde_json::to_vec(&all).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::id::Id;
    use serde_json::json;

    fn ours() -> Vec<Response> {
        let id = Id::new(&RawValue::from_string("1".to_owned()).unwrap()).unwrap();
        vec![Response::new(id, Ok(json!({"a": 1})))]
    }

    fn joined(theirs: &str) -> Option<Value> {
        together(&ours(), theirs.as_bytes()).map(|bytes| serde_json::from_slice(&bytes).unwrap())
    }

    #[test]
    fn both_are_told_in_one_array() {
        let own = json!({"jsonrpc": "2.0", "id": 1, "result": {"a": 1}});
        assert_eq!(joined(r#"[{"id":2},{"id":3}]"#), Some(json!([own, {"id": 2}, {"id": 3}])));
        assert_eq!(joined(r#" {"error":{}} "#), Some(json!([own, {"error": {}}])));
        assert_eq!(joined("[]"), Some(json!([own])));
        assert_eq!(joined("{"), None);
    }

    #[test]
    fn that_a_call_may_have_run_is_said() {
        assert!(lost_call(Lost::Timeout).ends_with("in time. The call may have run."));
        assert!(lost_call(Lost::Connection).ends_with("lost. The call may have run."));
        assert!(lost_call(Lost::Redirect).ends_with("isn't followed. The call may have run."));
        assert!(lost_call(Lost::Status).ends_with("doesn't have. The call may have run."));
        assert_eq!([Lost::Timeout, Lost::Connection, Lost::Redirect].map(|fault| lost(fault).0), [504, 502, 502]);
    }

    #[test]
    fn an_error_that_names_no_request_is_told_from_what_is_no_answer() {
        assert!(is_nameless_error(br#"{"id":null,"error":{"code":-32700}}"#));
        for body in
            [r#"{"error":{}}"#, r#"{"id":2,"error":{}}"#, r#"{"id":null,"result":{}}"#, r#"{"id":null,"error":7}"#, "{"]
        {
            assert!(!is_nameless_error(body.as_bytes()), "{body}");
        }
    }
}
