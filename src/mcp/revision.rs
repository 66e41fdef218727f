//! The five revisions of the protocol, and which of them a request is served by.
//!
//! A stateless server decides that for each request alone: by what the body claims first, by the header second, and
//! never by the method's name. Two eras differ in more than fields: in the **modern** one (2026-07-28) each request
//! carries its revision and its client's capabilities; in the **legacy** one a handshake came before.

use super::message::{Message, Request};
use super::reply::RpcError;
use serde_json::Value;

/// The header that names a revision.
pub const VERSION_HEADER: &str = "mcp-protocol-version";

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
const LOG_LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// A revision that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// <https://modelcontextprotocol.io/specification/2026-07-28>
    V2026_07_28,
    /// <https://modelcontextprotocol.io/specification/2025-11-25>
    V2025_11_25,
    /// <https://modelcontextprotocol.io/specification/2025-06-18>
    V2025_06_18,
    /// <https://modelcontextprotocol.io/specification/2025-03-26>, the one with batches
    V2025_03_26,
    /// <https://modelcontextprotocol.io/specification/2024-11-05>, over the same transport
    V2024_11_05,
}

/// All revisions, newest first.
const ALL: [Revision; 5] =
    [Revision::V2026_07_28, Revision::V2025_11_25, Revision::V2025_06_18, Revision::V2025_03_26, Revision::V2024_11_05];

/// Their names: the same list wherever one is told.
pub fn supported() -> [&'static str; 5] {
    ALL.map(Revision::name)
}

impl Revision {
    /// What a client gets that asks for a revision which isn't served.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;

    /// What a client speaks that doesn't say (2025-06-18, transports, Protocol Version Header).
    const UNSAID: Self = Self::V2025_03_26;

    /// The revision of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// Its name, a date.
    pub fn name(self) -> &'static str {
        match self {
            Self::V2026_07_28 => "2026-07-28",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2024_11_05 => "2024-11-05",
        }
    }

    /// Whether each request carries its own metadata.
    pub fn is_modern(self) -> bool {
        self == Self::V2026_07_28
    }
}

/// What `_meta` says under a key.
fn meta<'a>(params: &'a Option<Value>, key: &str) -> Option<&'a Value> {
    params.as_ref()?.get("_meta")?.get(key)
}

/// Decides by which revision `request` is served; `header` is the trimmed value of [`VERSION_HEADER`].
pub fn of_request(request: &Request, header: Option<&str>) -> Result<Revision, RpcError> {
    let claim = meta(&request.params, VERSION_KEY);
    let claimed = claim.and_then(Value::as_str).and_then(Revision::from_name);
    let named = header.and_then(Revision::from_name);
    let header_is_modern = named.is_some_and(Revision::is_modern);
    match (claim, claimed) {
        (Some(_), Some(legacy)) if !legacy.is_modern() && !header_is_modern => match header {
            Some(header) if header != legacy.name() => Err(version_mismatch()),
            _ => Ok(legacy),
        },
        // The older handshake under the newer header: neither era's request.
        (None, _) if header_is_modern && request.method == "initialize" => Err(version_mismatch()),
        (Some(_), _) => modern(request, claim, header),
        (None, _) if header_is_modern => modern(request, claim, header),
        (None, _) => match (header, named) {
            (None, _) => Ok(Revision::UNSAID),
            (_, Some(legacy)) => Ok(legacy),
            // `initialize` negotiates, so what the header says doesn't count yet.
            _ if request.method == "initialize" => Ok(Revision::NEWEST_LEGACY),
            (Some(header), None) => Err(RpcError::unsupported_version(header, &supported())),
        },
    }
}

fn version_mismatch() -> RpcError {
    RpcError::header_mismatch("MCP-Protocol-Version does not match the request's own protocol version")
}

/// Checks the envelope of a modern request. The order is the specification's: presence, equality, support, the rest.
fn modern(request: &Request, claim: Option<&Value>, header: Option<&str>) -> Result<Revision, RpcError> {
    let Some(version) = claim.and_then(Value::as_str) else {
        return Err(RpcError::invalid_envelope(&format!("params._meta needs {VERSION_KEY}, a string")));
    };
    if header != Some(version) {
        return Err(version_mismatch());
    }
    // A legacy name doesn't come this far: it has the header of a modern one, and so differs from it.
    let Some(revision) = Revision::from_name(version) else {
        return Err(RpcError::unsupported_version(version, &supported()));
    };
    if !meta(&request.params, CAPABILITIES_KEY).is_some_and(Value::is_object) {
        return Err(RpcError::invalid_envelope(&format!("params._meta needs {CAPABILITIES_KEY}, an object")));
    }
    match meta(&request.params, LOG_LEVEL_KEY) {
        Some(level) if !level.as_str().is_some_and(|level| LOG_LEVELS.contains(&level)) => {
            Err(RpcError::invalid_envelope(&format!("{LOG_LEVEL_KEY} must be one of {}", LOG_LEVELS.join(", "))))
        }
        _ => Ok(revision),
    }
}

/// Whether the client of a modern request declares a capability.
pub fn declares(request: &Request, capability: &str) -> bool {
    meta(&request.params, CAPABILITIES_KEY).and_then(|declared| declared.get(capability)).is_some()
}

/// By which revision a batch is served. They exist in 2025-03-26 alone, and never with `initialize` or with metadata
/// of the modern kind (2025-03-26, basic, Batching; lifecycle: "MUST NOT be part of a JSON-RPC batch").
pub fn of_batch(messages: &[Message], header: Option<&str>) -> Result<Revision, RpcError> {
    let revision = match header.map(Revision::from_name) {
        None => Revision::UNSAID,
        Some(Some(revision @ (Revision::V2025_03_26 | Revision::V2024_11_05))) => revision,
        Some(_) => return Err(RpcError::invalid_request("this protocol version has no batches")),
    };
    for message in messages {
        let params = match message {
            Message::Request(request) if request.method == "initialize" => {
                return Err(RpcError::invalid_request("initialize must not be part of a batch"));
            }
            Message::Request(Request { params, .. }) | Message::Notification { params, .. } => params,
            Message::Response => continue,
        };
        if meta(params, VERSION_KEY).is_some() {
            return Err(RpcError::invalid_request("what names its protocol version must not be part of a batch"));
        }
    }
    Ok(revision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::message::{parse, Body};
    use serde_json::json;

    fn request(method: &str, params: Option<Value>) -> Request {
        let mut message = json!({"jsonrpc": "2.0", "id": 1, "method": method});
        if let Some(params) = params {
            message["params"] = params;
        }
        match parse(message.to_string().as_bytes(), 1) {
            Ok(Body::One(Message::Request(request))) => request,
            other => panic!("{other:?}"),
        }
    }

    fn claiming(version: Value) -> Option<Value> {
        Some(json!({"_meta": {VERSION_KEY: version, CAPABILITIES_KEY: {}}}))
    }

    fn code(result: Result<Revision, RpcError>) -> (u16, i64) {
        let error = result.unwrap_err();
        (error.status, error.code)
    }

    const MODERN: Option<&str> = Some("2026-07-28");

    #[test]
    fn every_name_is_its_revision_and_one_is_modern() {
        assert_eq!(supported(), ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
        for name in supported() {
            let revision = Revision::from_name(name).unwrap();
            assert_eq!(revision.name(), name);
            assert_eq!(revision.is_modern(), name == "2026-07-28");
        }
        assert_eq!(Revision::from_name("2031-01-01"), None);
    }

    #[test]
    fn a_good_envelope_is_modern() {
        let good = request("tools/list", claiming(json!("2026-07-28")));
        assert_eq!(of_request(&good, MODERN), Ok(Revision::V2026_07_28));
        let with_level = request(
            "x",
            Some(json!({"_meta": {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}, LOG_LEVEL_KEY: "alert"}})),
        );
        assert_eq!(of_request(&with_level, MODERN), Ok(Revision::V2026_07_28));
    }

    #[test]
    fn an_envelope_that_is_incomplete_is_invalid_params() {
        for params in [None, Some(json!({})), Some(json!([])), Some(json!({"_meta": {}})), Some(json!({"_meta": 7}))] {
            assert_eq!(code(of_request(&request("tools/list", params), MODERN)), (400, -32602));
        }
        assert_eq!(code(of_request(&request("x", claiming(json!(7))), MODERN)), (400, -32602));
        assert_eq!(
            code(of_request(&request("x", claiming(json!(7))), None)),
            (400, -32602),
            "a claim of the wrong type"
        );
        let no_capabilities = Some(json!({"_meta": {VERSION_KEY: "2026-07-28"}}));
        assert_eq!(code(of_request(&request("x", no_capabilities), MODERN)), (400, -32602));
        let wrong = Some(json!({"_meta": {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: []}}));
        assert_eq!(code(of_request(&request("x", wrong), MODERN)), (400, -32602));
        let level = Some(json!({"_meta": {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}, LOG_LEVEL_KEY: "loud"}}));
        assert_eq!(code(of_request(&request("x", level), MODERN)), (400, -32602));
    }

    #[test]
    fn a_claim_and_a_header_that_differ_are_a_mismatch() {
        let modern = request("tools/list", claiming(json!("2026-07-28")));
        assert_eq!(code(of_request(&modern, None)), (400, -32020));
        assert_eq!(code(of_request(&modern, Some("2025-11-25"))), (400, -32020));
        assert_eq!(code(of_request(&modern, Some("2026-07-28, 2026-07-28"))), (400, -32020), "a header twice");
        let unknown = request("x", claiming(json!("v999.0.0")));
        assert_eq!(code(of_request(&unknown, MODERN)), (400, -32020), "equality comes before support");
        assert_eq!(code(of_request(&unknown, Some("v999.0.0"))), (400, -32022));
        let legacy = request("x", claiming(json!("2025-06-18")));
        assert_eq!(code(of_request(&legacy, MODERN)), (400, -32020));
        assert_eq!(code(of_request(&legacy, Some("2025-11-25"))), (400, -32020));
        assert_eq!(code(of_request(&legacy, Some("foo"))), (400, -32020));
    }

    #[test]
    fn an_envelope_that_names_a_legacy_revision_is_served_by_it() {
        let legacy = request("tools/list", claiming(json!("2025-06-18")));
        assert_eq!(of_request(&legacy, None), Ok(Revision::V2025_06_18));
        assert_eq!(of_request(&legacy, Some("2025-06-18")), Ok(Revision::V2025_06_18));
    }

    #[test]
    fn a_legacy_request_is_known_by_its_header_or_by_none() {
        let plain = request("tools/list", None);
        assert_eq!(of_request(&plain, None), Ok(Revision::V2025_03_26));
        assert_eq!(of_request(&plain, Some("2025-11-25")), Ok(Revision::V2025_11_25));
        assert_eq!(of_request(&plain, Some("2024-11-05")), Ok(Revision::V2024_11_05));
        let unknown = of_request(&plain, Some("2031-01-01")).unwrap_err();
        assert_eq!((unknown.status, unknown.code), (400, -32022));
        assert_eq!(unknown.data, Some(json!({"supported": supported(), "requested": "2031-01-01"})));
    }

    #[test]
    fn initialize_is_legacy_whatever_its_header_says_but_for_a_modern_one() {
        let initialize = request("initialize", Some(json!({"protocolVersion": "2025-06-18"})));
        assert_eq!(of_request(&initialize, None), Ok(Revision::V2025_03_26));
        assert_eq!(of_request(&initialize, Some("2025-06-18")), Ok(Revision::V2025_06_18));
        assert_eq!(of_request(&initialize, Some("foo")), Ok(Revision::V2025_11_25));
        assert_eq!(code(of_request(&initialize, MODERN)), (400, -32020));
        let modern = request("initialize", claiming(json!("2026-07-28")));
        assert_eq!(of_request(&modern, MODERN), Ok(Revision::V2026_07_28), "there it is an unknown method");
    }

    #[test]
    fn batches_are_of_2025_03_26_and_without_a_handshake() {
        let of = |more: Option<Message>, header| {
            let messages: Vec<_> = [Message::Request(request("ping", None))].into_iter().chain(more).collect();
            of_batch(&messages, header)
        };
        assert_eq!(of(None, None), Ok(Revision::V2025_03_26));
        assert_eq!(of(Some(Message::Response), Some("2025-03-26")), Ok(Revision::V2025_03_26));
        assert_eq!(
            of(Some(Message::Notification { method: "x".to_owned(), params: None }), Some("2024-11-05")),
            Ok(Revision::V2024_11_05)
        );
        for header in ["2025-06-18", "2025-11-25", "2026-07-28", "foo"] {
            assert_eq!(code(of(None, Some(header))), (400, -32600));
        }
        for refused in [
            Message::Request(request("initialize", None)),
            Message::Request(request("ping", claiming(json!("2025-03-26")))),
            Message::Notification { method: "x".to_owned(), params: claiming(json!("2025-03-26")) },
        ] {
            assert_eq!(code(of(Some(refused), None)), (400, -32600));
        }
    }

    #[test]
    fn capabilities_are_those_of_the_request() {
        let sampling = request("x", Some(json!({"_meta": {CAPABILITIES_KEY: {"sampling": {}}}})));
        assert!(declares(&sampling, "sampling"));
        assert!(!declares(&sampling, "elicitation"));
        assert!(!declares(&request("x", None), "sampling"));
    }
}
