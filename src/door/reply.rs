//! An answer as HTTP, with what browsers need to read it.

use crate::mcp::reply::Response as RpcResponse;
use serde::Serialize;
use worker::{Headers, Response, ResponseBody, Result};

/// Request headers that a browser may send; a missing one demotes a client of two eras to the older.
const ALLOWED_HEADERS: &str = "Content-Type, Accept, Authorization, MCP-Protocol-Version, Mcp-Method, Mcp-Name, \
    Mcp-Session-Id, Last-Event-ID";

/// Response headers that a page may read.
const EXPOSED_HEADERS: &str = "RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate";

/// For how long a browser may keep a preflight, in seconds.
const PREFLIGHT_SECONDS: &str = "86400";

const JSON: &str = "application/json";

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

    /// The response, for a browser page of `origin` if there is one; it was let in already.
    pub fn into_response(self, origin: Option<&str>, methods: &str) -> Result<Response> {
        let headers = Headers::new();
        for (name, value) in &self.headers {
            headers.set(name, value)?;
        }
        headers.append("vary", "Origin")?;
        if let Some(origin) = origin {
            headers.set("access-control-allow-origin", origin)?;
            headers.set("access-control-allow-methods", methods)?;
            headers.set("access-control-expose-headers", EXPOSED_HEADERS)?;
        }
        let body = match self.body {
            Some(body) => ResponseBody::Body(body.into_bytes()),
            None => ResponseBody::Empty,
        };
        Ok(Response::from_body(body)?.with_headers(headers).with_status(self.status))
    }
}

/// The answer to OPTIONS. Of the headers that are asked for, those that mirror arguments are let through by name.
pub fn preflight(request: &Headers, methods: &str) -> Reply {
    let asked = request.get("access-control-request-headers").ok().flatten().unwrap_or_default();
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
