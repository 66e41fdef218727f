//! A client's request, as it came.

use super::head::{Field, Head};
use crate::platform::waiting::settled;
use crate::upstream::headers::Pairs;
use worker::js_sys::Uint8Array;
use worker::web_sys::{self, AbortSignal};
use worker::{ByteStream, Headers, Response, ResponseBody, Result};

/// What is asked.
pub struct Incoming {
    request: web_sys::Request,
    /// Method, path and fields of it.
    pub head: Head,
}

impl Incoming {
    /// With its head as `src/entry.mjs` writes it.
    pub fn new(head: String, request: web_sys::Request) -> Self {
        Self { request, head: Head(head) }
    }

    /// A header's value. Those that came more than once are joined by commas.
    pub fn header(&self, name: &str) -> Option<String> {
        match self.head.field(name) {
            Field::Is(value) => Some(value.to_owned()),
            Field::Missing => None,
            Field::Unknown => self.request.headers().get(name).ok().flatten(),
        }
    }

    /// All headers, in lower case.
    pub fn headers(&self) -> Pairs {
        Headers(self.request.headers()).entries().collect()
    }

    /// Says so when the client goes away.
    pub fn signal(&self) -> AbortSignal {
        self.request.signal()
    }

    /// The body, at once.
    pub async fn bytes(&self) -> Result<Vec<u8>> {
        let buffer = settled(&self.request.array_buffer()?).await?;
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
