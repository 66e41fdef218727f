//! An answer as HTTP, with what browsers need to read it.

use super::incoming::Incoming;
use crate::mcp::reply::Response as RpcResponse;
use crate::mcp::sse;
use serde::{Serialize, Serializer};
use worker::wasm_bindgen::JsValue;
use worker::web_sys::Response;

/// Request headers that a browser may send; a missing one demotes a client of two eras to the older.
const ALLOWED_HEADERS: &str = "Content-Type, Accept, Authorization, MCP-Protocol-Version, Mcp-Method, Mcp-Name, \
    Mcp-Session-Id, Last-Event-ID";

/// Response headers that a page may read.
const EXPOSED_HEADERS: &str = "RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate";

/// For how long a browser may keep a preflight, in seconds.
const PREFLIGHT_SECONDS: &str = "86400";

/// The media type of JSON.
pub const JSON: &str = "application/json";

/// An answer as the entry takes it (`src/entry.mjs`).
pub enum HttpAnswer {
    /// Made here: status and headers as JSON on one line, and the body.
    Text(String),
    /// What comes from elsewhere, and goes on as it comes.
    Response(Response),
}

impl From<HttpAnswer> for JsValue {
    fn from(answer: HttpAnswer) -> Self {
        match answer {
            HttpAnswer::Text(text) => text.into(),
            HttpAnswer::Response(response) => response.into(),
        }
    }
}

/// What is sent back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// Beside those of CORS.
    pub headers: Vec<(&'static str, String)>,
    body: Option<String>,
}

impl Reply {
    /// A status by itself.
    pub fn empty(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// A text of some media type.
    pub fn text(status: u16, media_type: &str, body: String) -> Self {
        Self { status, headers: vec![("content-type", media_type.to_owned())], body: Some(body) }
    }

    /// JSON on one line.
    pub fn json(status: u16, value: &impl Serialize) -> Self {
        // Nothing that is answered has a part that can't be written: keys are text, and numbers are finite.
        Self::text(status, JSON, serde_json::to_string(value).unwrap_or_default())
    }

    /// One JSON-RPC response.
    pub fn rpc(response: &RpcResponse) -> Self {
        Self::json(response.status(), response)
    }

    /// With one more header.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The same as the only event of a stream, for a client that takes nothing else.
    pub fn into_event(mut self) -> Self {
        if let Some(body) = self.body.take_if(|_| self.headers.contains(&("content-type", JSON.to_owned()))) {
            self.headers.retain(|(name, _)| *name != "content-type");
            self.headers.push(("content-type", sse::MEDIA_TYPE.to_owned()));
            self.body = Some(sse::event(&body));
        }
        self
    }

    /// With these headers for browser pages. In one piece: each part would cost as much as all of it.
    pub fn into_answer(self, cors: &[(String, String)]) -> HttpAnswer {
        let headers = Fields { own: &self.headers, cors };
        // Nothing of a head can't be written.
        let mut text = serde_json::to_string(&Init { status: self.status, headers }).unwrap_or_default();
        text.push('\n');
        text.push_str(self.body.as_deref().unwrap_or_default());
        HttpAnswer::Text(text)
    }
}

/// What the constructor of a response takes beside its body (Fetch Standard, ResponseInit).
#[derive(Serialize)]
struct Init<'a> {
    status: u16,
    headers: Fields<'a>,
}

struct Fields<'a> {
    own: &'a [(&'static str, String)],
    cors: &'a [(String, String)],
}

impl Serialize for Fields<'_> {
    /// Each is there once. (An object of names costs the runtime half of what a list of pairs does.)
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own = self.own.iter().map(|(name, value)| (*name, value.as_str()));
        let cors = self.cors.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        serializer.collect_map(own.chain([("vary", "Origin")]).chain(cors))
    }
}

/// What a page of `origin` may do, if there is one; it was let in already.
pub fn cors(origin: Option<&str>, methods: &str) -> Vec<(String, String)> {
    let Some(origin) = origin else {
        return Vec::new();
    };
    let headers = [
        ("access-control-allow-origin", origin),
        ("access-control-allow-methods", methods),
        ("access-control-expose-headers", EXPOSED_HEADERS),
    ];
    headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// The answer to OPTIONS. Of the headers that are asked for, those that mirror arguments are let through by name.
pub fn preflight(request: &Incoming, methods: &str) -> Reply {
    let asked = request.header("access-control-request-headers").unwrap_or_default();
    let mirrored = asked.split(',').map(str::trim).filter(|name| {
        let token = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        token && name.to_ascii_lowercase().starts_with("mcp-param-")
    });
    let allowed = [ALLOWED_HEADERS].into_iter().chain(mirrored).collect::<Vec<_>>().join(", ");
    Reply::empty(204)
        .with("allow", methods)
        .with("access-control-allow-headers", allowed)
        .with("access-control-max-age", PREFLIGHT_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(reply: Reply, origin: Option<&str>) -> String {
        match reply.into_answer(&cors(origin, "POST")) {
            HttpAnswer::Text(text) => text,
            HttpAnswer::Response(_) => panic!("an answer that is made here is text"),
        }
    }

    #[test]
    fn an_answer_is_a_head_of_one_line_and_the_body_as_it_is() {
        let reply =
            Reply::text(429, "text/plain", "first\nsecond: \u{2028}é".to_owned()).with("retry-after", "a\n\"b\"");
        assert_eq!(
            text(reply, None),
            "{\"status\":429,\"headers\":{\"content-type\":\"text/plain\",\"retry-after\":\"a\\n\\\"b\\\"\",\"vary\":\"Origin\"}}\nfirst\nsecond: \u{2028}é"
        );
        assert_eq!(text(Reply::empty(204), None), "{\"status\":204,\"headers\":{\"vary\":\"Origin\"}}\n");
    }

    #[test]
    fn a_page_is_told_what_it_may_read() {
        let text = text(Reply::empty(202), Some("http://localhost:5173"));
        let head: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(head["headers"]["access-control-allow-origin"], "http://localhost:5173");
        assert_eq!(head["headers"]["access-control-expose-headers"], EXPOSED_HEADERS);
    }
}
