//! Reading a body, up to a limit: what Content-Length says is not relied on, and no more is held than is allowed.

use super::incoming::Incoming;
use super::reply::Reply;
use crate::mcp::reply::{Response, RpcError};
use crate::platform::within;
use futures_util::StreamExt;
use worker::ByteStream;

/// So much of a body that isn't wanted is taken in all the same, in bytes.
const LONGEST_REST: usize = 8 << 20;

/// And as long as its sender is never silent for longer, in milliseconds.
const LONGEST_SILENCE_MS: u32 = 500;

/// The body, of at most `limit` bytes.
pub async fn read(request: &Incoming, limit: usize) -> Result<Vec<u8>, Reply> {
    let announced = request.header("content-length");
    let announced = announced.and_then(|length| length.parse::<usize>().ok());
    // The runtime takes no more than was announced. Read at once, a body costs a third of what it does in parts.
    if announced.is_some_and(|length| length <= limit) {
        let body = request.bytes().await.map_err(|_| ended_early())?;
        return if body.len() > limit { Err(too_large(limit)) } else { Ok(body) };
    }
    // A request without a body has no stream.
    let Some(mut stream) = request.stream() else {
        return Ok(Vec::new());
    };
    if announced.is_some() {
        linger(stream).await;
        return Err(too_large(limit));
    }
    let mut body = Vec::new();
    while let Some(chunk) = stream.next().await {
        let Ok(chunk) = chunk else {
            return Err(ended_early());
        };
        if body.len().saturating_add(chunk.len()) > limit {
            linger(stream).await;
            return Err(too_large(limit));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Takes in, and drops, a body that is refused unread.
pub async fn leave(request: &Incoming) {
    if let Some(stream) = request.stream() {
        linger(stream).await;
    }
}

/// Takes in what is left of a body, and drops it: the connection is closed with an answer that comes before the body's end, and a
/// client that is cut off while it sends may never read why. (nginx calls it a lingering close.)
async fn linger(mut stream: ByteStream) {
    let mut left = LONGEST_REST;
    while left > 0 {
        let Some(Some(Ok(chunk))) = within(LONGEST_SILENCE_MS, stream.next()).await else {
            return;
        };
        left = left.saturating_sub(chunk.len());
    }
}

fn ended_early() -> Reply {
    Reply::rpc(&Response::without_id(RpcError::parse_error("the body ended early")))
}

fn too_large(limit: usize) -> Reply {
    let error = RpcError::unacceptable(413, &format!("a body has at most {limit} bytes"));
    Reply::rpc(&Response::without_id(error))
}
