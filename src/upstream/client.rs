//! Sends one request to a server, and waits for the beginning of its answer.

use super::headers::Pairs;
use crate::platform::gone::either;
use crate::platform::{cause, within};
use serde_json::json;
use url::Url;
use worker::js_sys::Uint8Array;
use worker::web_sys::{self, AbortController, AbortSignal, RequestRedirect};
use worker::{console_error, Fetch, Fetcher, Headers, Request, Response, ResponseBody};

/// The most redirects that are followed.
const MOST_REDIRECTS: usize = 3;

/// The way to a server.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// The service binding that leads there; None goes over the network.
    pub binding: Option<Fetcher>,
    /// How long the beginning of an answer is waited for, in milliseconds.
    pub timeout_ms: u32,
    /// The request is given up when this says so.
    pub signal: Option<AbortSignal>,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// GET, POST, ...
    pub method: String,
    /// Where to.
    pub url: Url,
    /// Names in lower case.
    pub headers: Pairs,
    /// What is sent; None sends nothing.
    pub body: Option<Vec<u8>>,
}

/// The beginning of an answer.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// As they came, in lower case.
    pub headers: Pairs,
    /// The response, for its body.
    pub response: Response,
}

/// Why there is no answer. Whether the server has received the request isn't known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It didn't begin in time.
    Timeout,
    /// The server can't be reached, or the connection to it was lost: workerd doesn't tell which.
    Connection,
    /// It is a redirect that isn't followed.
    Redirect,
    /// It has a status that HTTP doesn't have.
    Status,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Nobody wants the rest. (A body that nobody reads holds a connection.)
    pub fn discard(self) {
        if let ResponseBody::Stream(stream) = self.response.body() {
            // What comes of it doesn't matter.
            let _ = stream.cancel();
        }
    }

    /// Whether an answer of this status has no body, whatever it says (RFC 9110 section 6.4.1).
    pub fn is_bodiless(&self) -> bool {
        matches!(self.status, 204 | 205 | 304)
    }

    /// The media type, without parameters, in lower case; empty when there is none.
    pub fn media_type(&self) -> String {
        let value = self.header("content-type").unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }
}

impl Client {
    /// Whether the request has been given up.
    pub fn is_given_up(&self) -> bool {
        self.signal.as_ref().is_some_and(AbortSignal::aborted)
    }

    /// One attempt. A redirect that keeps the method is followed while it stays on the same origin.
    pub async fn send(&self, outgoing: &Outgoing) -> Result<Answer, Lost> {
        let controller = AbortController::new().map_err(|_| Lost::Connection)?;
        let answer = within(self.timeout_ms, self.follow(outgoing, &controller)).await;
        answer.unwrap_or_else(|| {
            controller.abort();
            Err(Lost::Timeout)
        })
    }

    async fn follow(&self, outgoing: &Outgoing, controller: &AbortController) -> Result<Answer, Lost> {
        let mut url = outgoing.url.clone();
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.attempt(outgoing, &url, controller).await.map_err(|error| {
                console_error!("{}", json!({ "event": "upstream_failure", "cause": cause(&error) }));
                Lost::Connection
            })?;
            match answer.status {
                307 | 308 => {
                    let next = answer.header("location").and_then(|location| url.join(location).ok());
                    answer.discard();
                    // A path is another door of the same house; another host is another house.
                    url = next.filter(|next| next.origin() == url.origin()).ok_or(Lost::Redirect)?;
                }
                301..=303 => {
                    answer.discard();
                    return Err(Lost::Redirect);
                }
                200..=599 => return Ok(answer),
                _ => {
                    answer.discard();
                    return Err(Lost::Status);
                }
            }
        }
        Err(Lost::Redirect)
    }

    async fn attempt(&self, outgoing: &Outgoing, url: &Url, controller: &AbortController) -> worker::Result<Answer> {
        let init = web_sys::RequestInit::new();
        init.set_method(&outgoing.method);
        init.set_redirect(RequestRedirect::Manual);
        let own = controller.signal();
        init.set_signal(Some(&match &self.signal {
            Some(signal) => either(signal, &own),
            None => own,
        }));
        let headers = web_sys::Headers::new()?;
        for (name, value) in &outgoing.headers {
            headers.append(name, value)?;
        }
        init.set_headers(&headers);
        if let Some(body) = &outgoing.body {
            init.set_body(&Uint8Array::from(body.as_slice()));
        }
        let request = Request::from(web_sys::Request::new_with_str_and_init(url.as_str(), &init)?);
        let response = match &self.binding {
            Some(binding) => binding.fetch_request(request).await?,
            None => Fetch::Request(request).send().await?,
        };
        let headers = pairs(response.headers());
        Ok(Answer { status: response.status_code(), headers, response })
    }
}

/// All headers, in lower case. One that came more than once is joined by commas, but for cookies.
pub fn pairs(headers: &Headers) -> Pairs {
    headers.entries().collect()
}
