//! The gate against floods, in front of everything: Cloudflare's own rate-limit binding, which counts approximately, for
//! each of its locations. It is a backstop for the platform's sake and no limiter: what callers may use is decided behind it.
//!
//! It counts addresses only, since whoever floods would choose another token with each request. It sees POSTs to the endpoint
//! alone, and when it is missing or fails everything passes.

use super::reply::Reply;
use crate::caller::address;
use crate::mcp::headers::Header;
use crate::platform::waiting::settled;
use serde_json::json;
use worker::js_sys::{Object, Promise, Reflect};
use worker::wasm_bindgen::prelude::*;
use worker::{console_error, Env, Error};

#[wasm_bindgen]
extern "C" {
    /// Those of the Worker, in `wrangler.toml`.
    type Bindings;

    /// Under `[[ratelimits]]`. Where there is none, nobody wanted one.
    #[wasm_bindgen(method, getter, js_name = FLOOD_GATE)]
    fn flood_gate(this: &Bindings) -> Option<Gate>;

    type Gate;

    #[wasm_bindgen(method, catch)]
    fn limit(this: &Gate, options: &JsValue) -> Result<Promise, JsValue>;
}

/// The binding's period in seconds. It doesn't tell when it lets through again; after a whole one it does.
const PERIOD_SECONDS: &str = "60";

/// The media type of a problem document (RFC 9457).
const PROBLEM: &str = "application/problem+json";

/// The answer to a request of a flood; None lets it pass.
pub async fn refusal(env: &Env, header: Header<'_>) -> Option<Reply> {
    let gate = env.unchecked_ref::<Bindings>().flood_gate()?;
    let key = address::from_header(header(address::ADDRESS_HEADER).as_deref());
    match passes(&gate, key.name()).await {
        Ok(true) => None,
        Ok(false) => Some(problem()),
        Err(error) => {
            console_error!("{}", json!({ "event": "flood_gate_failure", "cause": Error::from(error).to_string() }));
            None
        }
    }
}

async fn passes(gate: &Gate, key: &str) -> Result<bool, JsValue> {
    let options = Object::new();
    Reflect::set(&options, &"key".into(), &key.into())?;
    let outcome = settled(&gate.limit(&options)?).await?;
    Ok(Reflect::get(&outcome, &"success".into())?.is_truthy())
}

/// There is no id to answer to, since the body wasn't read. The type is one of draft-ietf-httpapi-ratelimit-headers-10.
fn problem() -> Reply {
    let problem = json!({
        "type": "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
        "title": "Abnormal usage detected",
        "status": 429,
        "detail": "Too many requests come from this address. Wait a minute.",
    });
    Reply::text(429, PROBLEM, problem.to_string()).with("retry-after", PERIOD_SECONDS)
}
