//! What a POST to the server behind carries: which of its messages are calls, and whether they can be judged.
//!
//! What is sent on is what was judged: a body or a header that another could read in another way is refused, whatever method it
//! seems to name.

use crate::mcp::headers::{check_present, trimmed, Header};
use crate::mcp::id::Id;
use crate::mcp::message::{self, Body, Message, Request};
use crate::mcp::method::{self, Method, ToolCall};
use crate::mcp::reply::{Response, RpcError};
use crate::mcp::revision::{self, Revision, VERSION_HEADER};
use crate::upstream::watch::{Asks, Expected};
use serde_json::Value;

/// A POST that can be sent on.
#[derive(Debug)]
pub struct Post {
    /// Its messages, in their order.
    pub parts: Vec<Part>,
    /// Whether they came as a batch.
    pub in_batch: bool,
}

/// One message.
#[derive(Debug)]
pub enum Part {
    /// It goes on as it is; a request is expected to be answered.
    Passes(Option<Expected>),
    /// A call whose form is in order.
    Call(Call),
    /// A call that goes no further.
    Answered(Response),
}

impl Part {
    /// The id of a request.
    pub fn id(&self) -> Option<&Id> {
        match self {
            Self::Passes(expected) => expected.as_ref().map(|expected| &expected.id),
            Self::Call(call) => Some(&call.id),
            Self::Answered(response) => response.id.as_ref(),
        }
    }

    /// What is expected of a request that passes.
    pub fn expected(self) -> Option<Expected> {
        match self {
            Self::Passes(expected) => expected,
            Self::Call(_) | Self::Answered(_) => None,
        }
    }
}

/// A call, as far as it can be judged without its tool.
#[derive(Debug)]
pub struct Call {
    /// The request's id.
    pub id: Id,
    /// By which it is judged.
    pub revision: Revision,
    /// The tool's name.
    pub tool: String,
    /// An object.
    pub arguments: Value,
    /// The request's metadata.
    pub meta: Option<Value>,
}

impl Post {
    /// Whether there is a call in it.
    pub fn has_calls(&self) -> bool {
        self.parts.iter().any(|part| !matches!(part, Part::Passes(_)))
    }

    /// The calls.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            Part::Passes(_) | Part::Answered(_) => None,
        })
    }
}

/// Judges a body and the headers that came with it.
pub fn judge(body: &[u8], max_batch: usize, header: Header<'_>) -> Result<Post, Box<Response>> {
    let body = message::parse_for_another(body, max_batch).map_err(without_id)?;
    let version = header(VERSION_HEADER);
    let version = version.as_deref().map(trimmed);
    match body {
        Body::One(message) => one(message, version, header).map(|part| Post { parts: vec![part], in_batch: false }),
        Body::Batch(messages) => {
            let parts = batch(messages, version, header).map_err(without_id)?;
            Ok(Post { parts, in_batch: true })
        }
    }
}

fn without_id(error: RpcError) -> Box<Response> {
    Box::new(Response::without_id(error))
}

fn one(message: Message, version: Option<&str>, header: Header<'_>) -> Result<Part, Box<Response>> {
    let request = match message {
        Message::Request(request) => request,
        Message::Notification { method, .. } => {
            let checked = check_notification(&method).and_then(|()| check_present(header, &method, None));
            return checked.map(|()| Part::Passes(None)).map_err(without_id);
        }
        Message::Response => {
            return check_unnamed(header).map(|()| Part::Passes(None)).map_err(without_id);
        }
    };
    let id = request.id.clone();
    judge_request(request, version, header).map_err(|error| Box::new(Response::new(id, Err(error))))
}

fn judge_request(mut request: Request, version: Option<&str>, header: Header<'_>) -> Result<Part, RpcError> {
    if request.method != CALL {
        check_present(header, &request.method, None)?;
        return Ok(Part::Passes(Some(expected(request))));
    }
    let revision = revision::of_request(&request, version)?;
    let call = understood(&mut request, revision, header)?;
    check_present(header, CALL, Some(&call.tool))?;
    Ok(Part::Call(call))
}

/// Only a batch with a call in it is judged by its revision. Headers that mirror one request have nothing to mirror here.
fn batch(messages: Vec<Message>, version: Option<&str>, header: Header<'_>) -> Result<Vec<Part>, RpcError> {
    check_unnamed(header)?;
    let is_call = |message: &Message| matches!(message, Message::Request(request) if request.method == CALL);
    let revision = match messages.iter().any(is_call) {
        true => Some(revision::of_batch(&messages, version)?),
        false => None,
    };
    let part = |message| match (message, revision) {
        (Message::Request(mut request), Some(revision)) if request.method == CALL => {
            let call = understood(&mut request, revision, header);
            Ok(call.map_or_else(|error| Part::Answered(Response::new(request.id, Err(error))), Part::Call))
        }
        (Message::Request(request), _) => Ok(Part::Passes(Some(expected(request)))),
        (Message::Notification { method, .. }, _) => check_notification(&method).map(|()| Part::Passes(None)),
        (Message::Response, _) => Ok(Part::Passes(None)),
    };
    messages.into_iter().map(part).collect()
}

const CALL: &str = "tools/call";

fn understood(request: &mut Request, revision: Revision, header: Header<'_>) -> Result<Call, RpcError> {
    match method::of_request(request, revision, header)? {
        Method::CallTool(ToolCall { name, arguments }) => {
            let meta = request.params.as_ref().and_then(|params| params.get("_meta")).cloned();
            Ok(Call { id: request.id.clone(), revision, tool: name, arguments, meta })
        }
        Method::Initialize(_) | Method::Ping | Method::Discover | Method::ListTools => {
            Err(RpcError::internal("A call isn't one."))
        }
    }
}

fn expected(request: Request) -> Expected {
    let cursor = request.params.as_ref().and_then(|params| params.get("cursor"));
    let asks = match (request.method.as_str(), cursor) {
        ("tools/list", None) => Asks::List(None),
        ("tools/list", Some(Value::String(cursor))) => Asks::List(Some(cursor.clone())),
        _ => Asks::Other,
    };
    Expected { id: request.id, asks }
}

/// A call that wants no answer couldn't be told that it is refused; and some servers would run it.
fn check_notification(method: &str) -> Result<(), RpcError> {
    match method {
        CALL => Err(RpcError::invalid_request("a tools/call needs an id")),
        _ => Ok(()),
    }
}

/// What isn't one request has no header that mirrors one.
fn check_unnamed(header: Header<'_>) -> Result<(), RpcError> {
    let mirrors = ["mcp-method", "mcp-name"].into_iter().any(|name| header(name).is_some());
    match mirrors {
        true => Err(RpcError::header_mismatch("Mcp-Method and Mcp-Name mirror one request, and this is none")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judged(body: &Value, headers: &[(&str, &str)]) -> Result<Post, Box<Response>> {
        let header =
            |name: &str| headers.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        judge(body.to_string().as_bytes(), 10, &header)
    }

    fn call(id: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo", "arguments": {"a": 1}}})
    }

    fn modern(name: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        }}})
    }

    #[track_caller]
    fn fault(body: &Value, headers: &[(&str, &str)]) -> i64 {
        judged(body, headers).unwrap_err().outcome.unwrap_err().code
    }

    #[test]
    fn a_call_is_seen_for_what_it_is() {
        let post = judged(&call(json!("x")), &[("mcp-session-id", "s")]).unwrap();
        let [found] = post.calls().collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!((found.tool.as_str(), &found.arguments, found.id.as_json()), ("echo", &json!({"a": 1}), "\"x\""));
        assert_eq!((found.revision, &found.meta, post.in_batch), (Revision::V2025_03_26, &None, false));
        let version = ("mcp-protocol-version", "2026-07-28");
        let headers = [version, ("mcp-method", "tools/call"), ("mcp-name", "echo")];
        let post = judged(&modern("echo"), &headers).unwrap();
        let found = post.calls().next().unwrap();
        assert!(found.revision.is_modern() && found.meta.as_ref().is_some_and(Value::is_object));
    }

    #[test]
    fn whatever_else_there_is_passes() {
        for body in [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2099-01-01"}}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "no/such", "params": [1]}),
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"name": "tools/call"}}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
            json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]),
        ] {
            let post = judged(&body, &[("mcp-protocol-version", "2099-01-01")]).unwrap();
            assert!(!post.has_calls(), "{body}");
        }
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "2"}});
        let post = judged(&list, &[("mcp-method", "tools/list")]).unwrap();
        let [Part::Passes(Some(Expected { asks: Asks::List(Some(cursor)), .. }))] = &post.parts[..] else { panic!() };
        assert_eq!(cursor, "2");
        let odd = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": 2}});
        let [Part::Passes(Some(Expected { asks: Asks::Other, .. }))] = &judged(&odd, &[]).unwrap().parts[..] else {
            panic!()
        };
    }

    #[test]
    fn a_header_that_says_something_else_than_the_body_is_refused_in_every_revision() {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
        let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "echo"));
        assert_eq!(fault(&call(json!(1)), &[("mcp-method", "tools/list")]), -32020);
        assert_eq!(fault(&call(json!(1)), &[("mcp-name", "add")]), -32020);
        assert_eq!(fault(&call(json!(1)), &[("mcp-name", "echo, echo")]), -32020);
        assert_eq!(fault(&ping, &[method]), -32020);
        assert_eq!(fault(&note, &[method]), -32020);
        assert_eq!(fault(&answer, &[method]), -32020);
        assert_eq!(fault(&json!([call(json!(1))]), &[method]), -32020);
        assert_eq!(fault(&json!([ping]), &[name]), -32020);
        let version = ("mcp-protocol-version", "2026-07-28");
        assert_eq!(fault(&modern("echo"), &[version, method]), -32020);
        assert_eq!(fault(&modern("echo"), &[version, method, ("mcp-name", "add")]), -32020);
        assert!(judged(&call(json!(1)), &[method, name]).is_ok());
    }

    #[test]
    fn a_call_in_a_revision_that_isnt_known_here_cant_be_judged() {
        let refused = judged(&call(json!(7)), &[("mcp-protocol-version", "2099-01-01")]).unwrap_err();
        assert_eq!((refused.id.unwrap().as_json(), refused.outcome.unwrap_err().code), ("7", -32022));
        assert_eq!(fault(&json!([call(json!(1))]), &[("mcp-protocol-version", "2025-06-18")]), -32600);
    }

    #[test]
    fn a_call_without_an_id_is_refused() {
        let bare = json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "echo"}});
        assert_eq!(fault(&bare, &[]), -32600);
        assert_eq!(fault(&json!([call(json!(1)), bare]), &[]), -32600);
    }

    #[test]
    fn in_a_batch_each_call_is_judged_by_itself() {
        let odd = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": 7}});
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let post = judged(&json!([call(json!(1)), odd, note]), &[]).unwrap();
        assert!(post.in_batch && post.has_calls());
        let [Part::Call(_), Part::Answered(answered), Part::Passes(None)] = &post.parts[..] else { panic!() };
        assert_eq!(answered.outcome.as_ref().unwrap_err().code, -32602);
    }

    #[test]
    fn what_two_parsers_could_read_in_two_ways_is_refused() {
        let header = |_: &str| None;
        let code = |body: &[u8]| judge(body, 10, &header).unwrap_err().outcome.unwrap_err().code;
        assert_eq!(code(br#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#), -32600);
        assert_eq!(code(br#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}"#), -32600);
        assert_eq!(code(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}{}"#), -32700);
        assert_eq!(code(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\xff\"}"), -32700);
        assert_eq!(code(b"\xef\xbb\xbf{}"), -32700);
    }

    #[test]
    fn a_version_is_read_without_spaces_and_with_all_else() {
        let version = |value| judged(&call(json!(1)), &[("mcp-protocol-version", value)]).is_ok();
        assert!(version(" 2025-06-18\t") && !version("2025-06-18\u{a0}"));
    }

    #[test]
    fn what_is_nested_too_deep_is_refused_whatever_it_is() {
        let ping = |levels: usize| {
            let nested = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            judge(
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{nested}}}}}"#).as_bytes(),
                10,
                &|_| None,
            )
        };
        assert!(ping(125).is_ok() && ping(126).is_err());
    }
}
