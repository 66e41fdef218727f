//! A text from elsewhere: one attempt, with a deadline and up to a size. Redirects aren't followed.

use super::{cause, within};
use futures_util::StreamExt;
use worker::{AbortController, AbortSignal, Fetch, Request, RequestInit, RequestRedirect};

/// The text at `url`, of at most `limit` bytes, within `deadline_ms`. The error is for the log.
pub async fn text(url: &str, limit: usize, deadline_ms: u32) -> Result<String, String> {
    let controller = AbortController::default();
    let signal = controller.signal();
    let answer = within(deadline_ms, attempt(url, limit, &signal)).await;
    answer.unwrap_or_else(|| {
        controller.abort();
        Err(format!("no answer within {deadline_ms} ms"))
    })
}

async fn attempt(url: &str, limit: usize, signal: &AbortSignal) -> Result<String, String> {
    let mut init = RequestInit::new();
    init.with_redirect(RequestRedirect::Manual);
    let request = Request::new_with_init(url, &init).map_err(|error| cause(&error))?;
    let mut response = Fetch::Request(request).send_with_signal(signal).await.map_err(|error| cause(&error))?;
    match response.status_code() {
        200 => {}
        status => return Err(format!("the answer has status {status}")),
    }
    let mut body = Vec::new();
    let mut stream = response.stream().map_err(|error| cause(&error))?;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| cause(&error))?;
        if body.len().saturating_add(chunk.len()) > limit {
            return Err(format!("the answer has more than {limit} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    String::from_utf8(body).map_err(|_| "the answer isn't UTF-8".to_owned())
}
