//! A client's request, as it came: read from the runtime piece by piece, since each piece is a step across the border.

use crate::upstream::headers::Pairs;
use worker::js_sys::futures::JsFuture;
use worker::js_sys::Uint8Array;
use worker::web_sys::{self, AbortSignal};
use worker::{ByteStream, Headers, Response, ResponseBody, Result};

/// What is asked.
pub struct Incoming {
    request: web_sys::Request,
    headers: web_sys::Headers,
    /// GET, POST, ...
    pub method: String,
    /// Where to, as it was sent.
    pub url: String,
    /// The path of it.
    pub path: String,
}

impl Incoming {
    /// As the runtime gives it.
    pub fn new(request: web_sys::Request) -> Self {
        let (headers, method, url) = (request.headers(), request.method(), request.url());
        // It is absolute, and a ? or # in its path is written otherwise (URL Standard, section 4.5).
        let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').and_then(|start| rest.get(start..)));
        let path = path.and_then(|path| path.split(['?', '#']).next()).unwrap_or("/").to_owned();
        Self { request, headers, method, url, path }
    }

    /// A header's value. Those that came more than once are joined by commas.
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).ok().flatten()
    }

    /// All headers, in lower case.
    pub fn headers(&self) -> Pairs {
        Headers(self.headers.clone()).entries().collect()
    }

    /// Says so when the client goes away.
    pub fn signal(&self) -> AbortSignal {
        self.request.signal()
    }

    /// The body, at once.
    pub async fn bytes(&self) -> Result<Vec<u8>> {
        let buffer = JsFuture::from(self.request.array_buffer()?).await?;
        Ok(Uint8Array::new(&buffer).to_vec())
    }

    /// The body, part by part; None when there is none.
    pub fn stream(&self) -> Option<ByteStream> {
        let body = self.request.body()?;
        // A response is what the crate makes such a stream of.
        let mut whole = Response::from_body(ResponseBody::Stream(body)).ok()?;
        whole.stream().ok()
    }
}
