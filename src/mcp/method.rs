//! What a request asks for, once its revision is known.

use super::headers::{check_method, check_name, Header};
use super::message::Request;
use super::reply::RpcError;
use super::revision::Revision;
use serde_json::{Map, Value};

/// A method that is served.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// The legacy handshake; the revision is the one to answer with.
    Initialize(Revision),
    /// `ping`, legacy only.
    Ping,
    /// `server/discover`, modern only.
    Discover,
    /// `tools/list`.
    ListTools,
    /// `tools/call`.
    CallTool(ToolCall),
}

/// A call, as far as the protocol knows it: the tool may not exist, the arguments may not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// An object; empty when there were none.
    pub arguments: Value,
}

/// Understands `request`, and holds its headers against it when its revision demands that. The arguments of a call are
/// taken out of it: they can be large.
pub fn of_request(request: &mut Request, revision: Revision, header: Header<'_>) -> Result<Method, RpcError> {
    let modern = revision.is_modern();
    if modern {
        check_method(header, &request.method)?;
    }
    match (request.method.as_str(), modern) {
        ("initialize", false) => initialize(request),
        ("ping", false) => params(request).map(|_| Method::Ping),
        ("server/discover", true) => Ok(Method::Discover),
        ("tools/list", _) => list_tools(request),
        ("tools/call", _) => {
            let call = tool_call(request)?;
            if modern {
                check_name(header, &call.name)?;
            }
            Ok(Method::CallTool(call))
        }
        _ => Err(RpcError::method_not_found(modern)),
    }
}

/// The parameters as an object; None when there are none.
fn params(request: &Request) -> Result<Option<&Map<String, Value>>, RpcError> {
    match &request.params {
        None => Ok(None),
        Some(Value::Object(params)) => Ok(Some(params)),
        Some(_) => Err(RpcError::invalid_params(&format!("{}: params must be an object", request.method))),
    }
}

fn member<'a>(request: &'a Request, name: &str) -> Result<Option<&'a Value>, RpcError> {
    Ok(params(request)?.and_then(|params| params.get(name)))
}

fn initialize(request: &Request) -> Result<Method, RpcError> {
    match member(request, "protocolVersion")? {
        None => Ok(Method::Initialize(Revision::NEWEST_LEGACY)),
        Some(Value::String(requested)) => {
            let served = Revision::from_name(requested).filter(|revision| !revision.is_modern());
            Ok(Method::Initialize(served.unwrap_or(Revision::NEWEST_LEGACY)))
        }
        Some(_) => Err(RpcError::invalid_params("initialize: params.protocolVersion must be a string")),
    }
}

fn list_tools(request: &Request) -> Result<Method, RpcError> {
    match member(request, "cursor")? {
        None => Ok(Method::ListTools),
        Some(_) => Err(RpcError::invalid_params("tools/list: there is one page, so no cursor is valid")),
    }
}

fn tool_call(request: &mut Request) -> Result<ToolCall, RpcError> {
    let Some(Value::String(name)) = member(request, "name")?.cloned() else {
        return Err(RpcError::invalid_params("tools/call: params.name must be a string"));
    };
    let params = request.params.as_mut().and_then(Value::as_object_mut);
    let arguments = match params.and_then(|params| params.remove("arguments")) {
        None => Value::Object(Map::new()),
        Some(arguments @ Value::Object(_)) => arguments,
        Some(_) => return Err(RpcError::invalid_params("tools/call: params.arguments must be an object")),
    };
    Ok(ToolCall { name, arguments })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::message::{parse, Body, Message};
    use serde_json::json;

    const LEGACY: Revision = Revision::V2025_06_18;
    const MODERN: Revision = Revision::V2026_07_28;

    fn ask(method: &str, params: Value, revision: Revision) -> Result<Method, RpcError> {
        let mut message = json!({"jsonrpc": "2.0", "id": 1, "method": method});
        if params != json!("absent") {
            message["params"] = params;
        }
        let Ok(Body::One(Message::Request(mut request))) = parse(message.to_string().as_bytes(), 1) else { panic!() };
        let header = |name: &str| match name {
            "mcp-method" => Some(method.to_owned()),
            "mcp-name" => Some("echo".to_owned()),
            _ => None,
        };
        of_request(&mut request, revision, &header)
    }

    fn code(result: Result<Method, RpcError>) -> (u16, i64) {
        let error = result.unwrap_err();
        (error.status, error.code)
    }

    #[test]
    fn each_era_has_its_methods() {
        assert_eq!(ask("ping", json!("absent"), LEGACY), Ok(Method::Ping));
        assert_eq!(ask("tools/list", json!({}), LEGACY), Ok(Method::ListTools));
        assert_eq!(ask("tools/list", json!({}), MODERN), Ok(Method::ListTools));
        assert_eq!(ask("server/discover", json!({}), MODERN), Ok(Method::Discover));
        for method in ["server/discover", "prompts/list", "logging/setLevel", "tasks/get", ""] {
            assert_eq!(code(ask(method, json!({}), LEGACY)), (200, -32601), "{method}");
        }
        for method in ["initialize", "ping", "logging/setLevel", "resources/list", "subscriptions/listen"] {
            assert_eq!(code(ask(method, json!({}), MODERN)), (404, -32601), "{method}");
        }
    }

    #[test]
    fn initialize_echoes_a_legacy_revision_and_offers_one_for_any_other() {
        let requested = |version: Value| ask("initialize", json!({"protocolVersion": version}), LEGACY);
        for name in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
            assert_eq!(requested(json!(name)), Ok(Method::Initialize(Revision::from_name(name).unwrap())));
        }
        for name in ["2026-07-28", "2031-01-01", ""] {
            assert_eq!(requested(json!(name)), Ok(Method::Initialize(Revision::V2025_11_25)));
        }
        assert_eq!(ask("initialize", json!("absent"), LEGACY), Ok(Method::Initialize(Revision::V2025_11_25)));
        assert_eq!(code(requested(json!(7))), (200, -32602));
    }

    #[test]
    fn a_call_needs_a_name_and_an_object() {
        let call = |params| ask("tools/call", params, LEGACY);
        let expected = ToolCall { name: "echo".into(), arguments: json!({"text": "hi"}) };
        assert_eq!(call(json!({"name": "echo", "arguments": {"text": "hi"}})), Ok(Method::CallTool(expected)));
        let bare = ToolCall { name: "x".into(), arguments: json!({}) };
        assert_eq!(call(json!({"name": "x"})), Ok(Method::CallTool(bare)));
        for params in [
            json!("absent"),
            json!({}),
            json!({"name": 7}),
            json!({"name": null}),
            json!({"name": "echo", "arguments": []}),
            json!({"name": "echo", "arguments": null}),
            json!({"name": "echo", "arguments": "x"}),
            json!([]),
            json!("x"),
            json!(null),
        ] {
            assert_eq!(code(call(params.clone())), (200, -32602), "{params}");
        }
    }

    #[test]
    fn params_of_the_wrong_type_and_any_cursor_are_invalid() {
        assert_eq!(code(ask("ping", json!([]), LEGACY)), (200, -32602));
        assert_eq!(code(ask("tools/list", json!(7), LEGACY)), (200, -32602));
        assert_eq!(code(ask("tools/list", json!({"cursor": ""}), LEGACY)), (200, -32602));
        assert_eq!(code(ask("tools/list", json!({"cursor": "2"}), MODERN)), (200, -32602));
    }

    #[test]
    fn the_headers_of_a_modern_call_are_held_against_it_and_those_of_a_legacy_one_ignored() {
        let other = json!({"name": "other"});
        assert_eq!(code(ask("tools/call", other.clone(), MODERN)), (400, -32020));
        assert!(ask("tools/call", other, LEGACY).is_ok());
        assert_eq!(code(ask("tools/call", json!({"name": 7}), MODERN)), (200, -32602), "the name is looked at first");
        let Ok(Body::One(Message::Request(mut request))) = parse(br#"{"jsonrpc":"2.0","id":1,"method":"nope"}"#, 1)
        else {
            panic!()
        };
        assert_eq!(code(of_request(&mut request, MODERN, &|_| None)), (400, -32020), "before the method is known");
    }
}
