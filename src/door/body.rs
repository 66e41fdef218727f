//! Reading a body, up to a limit: what Content-Length says is not relied on, and no more is held than is allowed.

use super::reply::Reply;
use crate::mcp::reply::{Response, RpcError};
use futures_util::StreamExt;
use worker::Request;

/// The body, of at most `limit` bytes.
pub async fn read(request: &mut Request, limit: usize) -> Result<Vec<u8>, Reply> {
    let announced = request.headers().get("content-length").ok().flatten();
    if announced.and_then(|length| length.parse::<usize>().ok()).is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    // A request without a body has no stream.
    let Ok(mut stream) = request.stream() else {
        return Ok(Vec::new());
    };
    let mut body = Vec::new();
    while let Some(chunk) = stream.next().await {
        let Ok(chunk) = chunk else {
            let error = RpcError::parse_error("the body ended early");
            return Err(Reply::rpc(&Response::without_id(error)));
        };
        if body.len().saturating_add(chunk.len()) > limit {
            return Err(too_large(limit));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn too_large(limit: usize) -> Reply {
    let error = RpcError::unacceptable(413, &format!("a body has at most {limit} bytes"));
    Reply::rpc(&Response::without_id(error))
}
