//! Lists that anybody may have (`cacheScope: public`), kept where the other isolates of this place find them: the Cache API
//! (<https://developers.cloudflare.com/workers/runtime-apis/cache/>). It may forget at any time, and nothing fails for want of it.

use crate::limiter::policy::SECOND;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use worker::{Cache, Headers, Response};

/// A list.
#[derive(Debug, Serialize, Deserialize)]
pub struct Stored {
    /// When it was learnt, in microseconds since 1970.
    pub at: u64,
    /// The results of `tools/list`, page by page.
    pub results: Vec<Box<RawValue>>,
}

/// The list that is kept under this address.
pub async fn read(address: &str) -> Option<Stored> {
    let mut found = Cache::default().get(address, false).await.ok()??;
    serde_json::from_str(&found.text().await.ok()?).ok()
}

/// Keeps a list for so many microseconds. Whoever listens can't do anything about it when that fails.
pub async fn write(address: &str, list: &Stored, lives_us: u64) {
    let seconds = lives_us / SECOND;
    let headers = Headers::new();
    let set = headers.set("cache-control", &format!("max-age={seconds}"));
    let (Ok(()), Ok(response), true) = (set, Response::from_json(list), seconds > 0) else {
        return;
    };
    let _ = Cache::default().put(address, response.with_headers(headers)).await;
}
