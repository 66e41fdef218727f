//! Bytes -> JSON-RPC messages (<https://www.jsonrpc.org/specification>): one, or a batch.

use super::id::Id;
use super::json::{self, JsonFault};
use super::lookalike;
use super::reply::RpcError;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// One message of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Wants an answer.
    Request(Request),
    /// Wants none, whatever its method.
    Notification {
        /// The method's name.
        method: String,
        /// The parameters, of whatever type they came.
        params: Option<Value>,
    },
    /// Answers a request that a server sent; this server sends none.
    Response,
}

/// A request, not yet understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Goes back with the answer.
    pub id: Id,
    /// The method's name.
    pub method: String,
    /// The parameters, of whatever type they came.
    pub params: Option<Value>,
}

/// What a POST carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A message by itself.
    One(Message),
    /// An array of messages, never empty (revision 2025-03-26 only).
    Batch(Vec<Message>),
}

/// Reads a body. A batch with an element that isn't a message is refused whole, and so is one of more than
/// `max_batch` elements. The error carries no id, since none could be relied on.
pub fn parse(bytes: &[u8], max_batch: usize) -> Result<Body, RpcError> {
    let (text, value) = read(bytes)?;
    messages(value, text, max_batch)
}

/// As [`parse`], for a body that somebody else reads too: what only looks like a member that decides is refused.
pub fn parse_for_another(bytes: &[u8], max_batch: usize) -> Result<Body, RpcError> {
    let (text, value) = read(bytes)?;
    lookalike::check(&value)?;
    messages(value, text, max_batch)
}

fn read(bytes: &[u8]) -> Result<(&str, Value), RpcError> {
    let text = std::str::from_utf8(bytes).map_err(|_| RpcError::parse_error("the body is not UTF-8"))?;
    match json::parse(text) {
        Ok(value) => Ok((text, value)),
        Err(JsonFault::Syntax(what)) => Err(RpcError::parse_error(&what)),
        Err(JsonFault::DuplicateMember(what)) => Err(RpcError::invalid_request(&what)),
    }
}

fn messages(value: Value, text: &str, max_batch: usize) -> Result<Body, RpcError> {
    let Value::Array(elements) = value else {
        return message(value, text).map(Body::One);
    };
    if elements.is_empty() {
        return Err(RpcError::invalid_request("a batch must not be empty"));
    }
    if elements.len() > max_batch {
        return Err(RpcError::invalid_request(&format!("a batch has at most {max_batch} entries")));
    }
    let raw: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| RpcError::parse_error(&error.to_string()))?;
    let messages = elements.into_iter().zip(raw).map(|(element, raw)| message(element, raw.get()));
    messages.collect::<Result<_, _>>().map(Body::Batch)
}

/// Takes `value`, whose text is `text`, for one message.
fn message(value: Value, text: &str) -> Result<Message, RpcError> {
    let Value::Object(mut members) = value else {
        return Err(RpcError::invalid_request("a message must be an object"));
    };
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(RpcError::invalid_request("jsonrpc must be \"2.0\""));
    }
    match members.remove("method") {
        Some(Value::String(method)) => request(method, members, text),
        Some(_) => Err(RpcError::invalid_request("method must be a string")),
        None if members.contains_key("result") || members.contains_key("error") => Ok(Message::Response),
        None => Err(RpcError::invalid_request("method is missing")),
    }
}

fn request(method: String, mut members: Map<String, Value>, text: &str) -> Result<Message, RpcError> {
    if !members.contains_key("id") {
        return Ok(Message::Notification { method, params: members.remove("params") });
    }
    let raw: RawId<'_> = serde_json::from_str(text).map_err(|error| RpcError::parse_error(&error.to_string()))?;
    let id = raw.id.and_then(Id::new).ok_or_else(|| RpcError::invalid_request("id must be a string or an integer"))?;
    Ok(Message::Request(Request { id, method, params: members.remove("params") }))
}

/// The id of a message as it is written. (An `Option` by itself would take null for absent.)
#[derive(Deserialize)]
struct RawId<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> Result<Body, RpcError> {
        parse(text.as_bytes(), 3)
    }

    fn code(text: &str) -> i64 {
        one(text).unwrap_err().code
    }

    #[test]
    fn a_request_keeps_its_id_as_written() {
        let Ok(Body::One(Message::Request(request))) =
            one(r#" {"jsonrpc":"2.0","id":9007199254740993,"method":"ping","params":{"a":1}} "#)
        else {
            panic!()
        };
        assert_eq!(request.id.as_json(), "9007199254740993");
        assert_eq!(request.method, "ping");
        assert_eq!(request.params, Some(serde_json::json!({"a": 1})));
    }

    #[test]
    fn notifications_and_responses_are_told_apart() {
        assert_eq!(
            one(r#"{"jsonrpc":"2.0","method":"notifications/x","params":7}"#),
            Ok(Body::One(Message::Notification { method: "notifications/x".to_owned(), params: Some(7.into()) }))
        );
        assert_eq!(one(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Ok(Body::One(Message::Response)));
        assert_eq!(one(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#), Ok(Body::One(Message::Response)));
    }

    #[test]
    fn what_isnt_json_is_a_parse_error() {
        assert_eq!(code("{"), -32700);
        assert_eq!(code("NaN"), -32700);
        assert_eq!(parse(b"\"\xff\"", 3).unwrap_err().code, -32700);
    }

    #[test]
    fn what_isnt_a_message_is_an_invalid_request() {
        for text in [
            "1",
            "null",
            r#""x""#,
            "{}",
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
            r#"{"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        ] {
            let error = one(text).unwrap_err();
            assert_eq!((error.code, error.status), (-32600, 400), "{text}");
        }
    }

    #[test]
    fn a_batch_is_bounded_and_refused_whole_for_one_bad_element() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let Ok(Body::Batch(messages)) = one(&format!("[{ping},{ping},{ping}]")) else { panic!() };
        assert_eq!(messages.len(), 3);
        assert_eq!(code(&format!("[{ping},{ping},{ping},{ping}]")), -32600);
        assert_eq!(code("[]"), -32600);
        assert_eq!(code(&format!("[{ping},7]")), -32600);
        assert_eq!(code(&format!("[{ping},[{ping}]]")), -32600);
    }

    #[test]
    fn what_another_could_read_in_another_way_is_refused_where_there_is_another() {
        let text = br#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}"#;
        assert!(parse(text, 3).is_ok());
        assert_eq!(parse_for_another(text, 3).unwrap_err().code, -32600);
        let plain = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert_eq!(parse_for_another(plain, 3), parse(plain, 3));
    }

    #[test]
    fn the_ids_of_a_batch_stay_with_their_messages() {
        let text = r#"[{"jsonrpc":"2.0","id":"a","method":"x"},{"jsonrpc":"2.0","method":"y"},{"jsonrpc":"2.0","id":2,"method":"z"}]"#;
        let Ok(Body::Batch(messages)) = one(text) else { panic!() };
        let ids: Vec<_> = messages.iter().map(|m| matches!(m, Message::Request(r) if r.id.as_json() == "\"a\"" && r.method == "x" || r.id.as_json() == "2" && r.method == "z")).collect();
        assert_eq!(ids, [true, false, true]);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, 3);
        }

        #[test]
        fn no_text_of_json_marks_panics(text in r#"[\[\]{}",:0-9a-z\\ .eE+-]{0,80}"#) {
            let _ = parse(text.as_bytes(), 3);
        }
    }
}
