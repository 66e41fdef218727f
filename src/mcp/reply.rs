//! What is answered: JSON-RPC results and errors, with the HTTP status that goes with each.

use super::id::Id;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::{to_raw_value, RawValue};
use serde_json::{json, Value};
use std::rc::Rc;

/// A JSON-RPC error. Its status isn't sent in the body.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// As in section 5.1 of JSON-RPC, and the specification's own -32020 to -32022.
    pub code: i64,
    /// For people.
    pub message: String,
    /// For programs.
    pub data: Option<Value>,
    /// The HTTP status.
    pub status: u16,
}

impl RpcError {
    fn new(code: i64, status: u16, message: String) -> Self {
        Self { code, message, data: None, status }
    }

    /// -32700: the body isn't JSON.
    pub fn parse_error(what: &str) -> Self {
        Self::new(-32700, 400, format!("Parse error: {what}"))
    }

    /// -32600: JSON, but no message that can be taken here.
    pub fn invalid_request(what: &str) -> Self {
        Self::new(-32600, 400, format!("Invalid request: {what}"))
    }

    /// -32600, with a status of its own: the HTTP request can't be taken (406, 413).
    pub fn unacceptable(status: u16, what: &str) -> Self {
        Self::new(-32600, status, format!("Invalid request: {what}"))
    }

    /// -32601. A modern client learns it from the status too; a legacy one would throw the body of a 404 away.
    pub fn method_not_found(modern: bool) -> Self {
        Self::new(-32601, if modern { 404 } else { 200 }, "Method not found".to_owned())
    }

    /// -32602 for what a call says: status 200, for a 400 would send a client of two eras back to the older one.
    pub fn invalid_params(what: &str) -> Self {
        Self::new(-32602, 200, what.to_owned())
    }

    /// -32602 for a request's envelope: status 400 (2026-07-28, basic, Request metadata).
    pub fn invalid_envelope(what: &str) -> Self {
        Self::new(-32602, 400, what.to_owned())
    }

    /// -32603: nothing that the client can mend.
    pub fn internal(message: &str) -> Self {
        Self::new(-32603, 500, message.to_owned())
    }

    /// -32020: a header and the body disagree.
    pub fn header_mismatch(what: &str) -> Self {
        Self::new(-32020, 400, what.to_owned())
    }

    /// -32021: `required` is a ClientCapabilities object that the client hasn't declared.
    pub fn missing_capability(required: Value) -> Self {
        let message = "A client capability that this needs isn't declared".to_owned();
        Self { data: Some(json!({ "requiredCapabilities": required })), ..Self::new(-32021, 400, message) }
    }

    /// -32022: a revision that isn't served.
    pub fn unsupported_version(requested: &str, supported: &[&str]) -> Self {
        let data = json!({ "supported": supported, "requested": requested });
        Self { data: Some(data), ..Self::new(-32022, 400, "Unsupported protocol version".to_owned()) }
    }
}

impl Serialize for RpcError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", &self.code)?;
        map.serialize_entry("message", &self.message)?;
        if let Some(data) = &self.data {
            map.serialize_entry("data", data)?;
        }
        map.end()
    }
}

/// One JSON-RPC response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The request's; absent when that couldn't be read. Null would be no valid id.
    pub id: Option<Id>,
    /// The result as it is written, or why there is none.
    pub outcome: Result<Rc<RawValue>, RpcError>,
}

impl Response {
    /// The answer to the request of this id.
    pub fn new(id: Id, outcome: Result<Value, RpcError>) -> Self {
        Self { id: Some(id), outcome: outcome.map(|result| written(&result)) }
    }

    /// The same with a result that was written before.
    pub fn with_result(id: Id, result: Rc<RawValue>) -> Self {
        Self { id: Some(id), outcome: Ok(result) }
    }

    /// The answer to what had no readable id.
    pub fn without_id(error: RpcError) -> Self {
        Self { id: None, outcome: Err(error) }
    }

    /// The HTTP status when this is the whole answer.
    pub fn status(&self) -> u16 {
        self.outcome.as_ref().err().map_or(200, |error| error.status)
    }
}

/// A result as text. Nothing in one can't be written: keys are text, and numbers are finite.
pub fn written(result: &Value) -> Rc<RawValue> {
    to_raw_value(result).unwrap_or_else(|_| RawValue::NULL.to_owned()).into()
}

impl Serialize for Response {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("jsonrpc", "2.0")?;
        if let Some(id) = &self.id {
            map.serialize_entry("id", id)?;
        }
        match &self.outcome {
            Ok(result) => map.serialize_entry("result", &**result)?,
            Err(error) => map.serialize_entry("error", error)?,
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn id(text: &str) -> Id {
        Id::new(&RawValue::from_string(text.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn a_result_and_an_error_on_the_wire() {
        let ok = Response::new(id("9007199254740993"), Ok(json!({})));
        assert_eq!(serde_json::to_string(&ok).unwrap(), r#"{"jsonrpc":"2.0","id":9007199254740993,"result":{}}"#);
        assert_eq!(ok.status(), 200);
        let error = Response::without_id(RpcError::parse_error("x"));
        let text = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error: x"}}"#;
        assert_eq!(serde_json::to_string(&error).unwrap(), text);
        assert_eq!(error.status(), 400);
    }

    #[test]
    fn each_error_has_its_code_and_status() {
        let all = [
            (RpcError::parse_error("x"), -32700, 400),
            (RpcError::invalid_request("x"), -32600, 400),
            (RpcError::unacceptable(413, "x"), -32600, 413),
            (RpcError::method_not_found(true), -32601, 404),
            (RpcError::method_not_found(false), -32601, 200),
            (RpcError::invalid_params("x"), -32602, 200),
            (RpcError::invalid_envelope("x"), -32602, 400),
            (RpcError::internal("x"), -32603, 500),
            (RpcError::header_mismatch("x"), -32020, 400),
            (RpcError::missing_capability(json!({"sampling": {}})), -32021, 400),
            (RpcError::unsupported_version("x", &["y"]), -32022, 400),
        ];
        for (error, code, status) in all {
            assert_eq!((error.code, error.status), (code, status));
            assert!(!error.message.is_empty());
        }
        let version = RpcError::unsupported_version("foo", &["2026-07-28"]);
        assert_eq!(version.data, Some(json!({"supported": ["2026-07-28"], "requested": "foo"})));
        let capability = serde_json::to_value(RpcError::missing_capability(json!({"sampling": {}}))).unwrap();
        assert_eq!(capability["data"], json!({"requiredCapabilities": {"sampling": {}}}));
    }
}
