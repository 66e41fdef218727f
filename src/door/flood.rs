//! The gate against floods, in front of everything: Cloudflare's own rate-limit binding, which counts approximately, for
//! each of its locations. It is a backstop for the platform's sake and no limiter: what callers may use is decided behind it.
//!
//! It counts addresses only, since whoever floods would choose another token with each request. It sees POSTs to the endpoint
//! alone, and when it is missing, fails or hangs everything passes.

use super::reply::Reply;
use crate::caller::address;
use crate::mcp::headers::Header;
use crate::platform::ask::Failure;
use crate::platform::cause;
use crate::platform::waiting::{settled_within, Outcome};
use serde_json::json;
use worker::js_sys::{Object, Promise, Reflect};
use worker::wasm_bindgen::prelude::*;
use worker::{console_error, Env};

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

/// The answer to a request of a flood; None lets it pass, as when the gate hasn't answered within so many milliseconds.
pub async fn refusal(env: &Env, header: Header<'_>, deadline_ms: u32) -> Option<Reply> {
    let gate = env.unchecked_ref::<Bindings>().flood_gate()?;
    let key = address::from_header(header(address::ADDRESS_HEADER).as_deref());
    match passes(&gate, key.name(), deadline_ms).await {
        Ok(true) => None,
        Ok(false) => Some(problem()),
        Err(failure) => {
            console_error!("{}", json!({ "event": "flood_gate_failure", "cause": failure.cause() }));
            None
        }
    }
}

async fn passes(gate: &Gate, key: &str, deadline_ms: u32) -> Result<bool, Failure> {
    let broken = |error: JsValue| Failure::Broken(cause(&error.into()));
    let options = Object::new();
    Reflect::set(&options, &"key".into(), &key.into()).map_err(broken)?;
    let outcome = match settled_within(&gate.limit(&options).map_err(broken)?, deadline_ms).await {
        Outcome::Value(outcome) => outcome,
        Outcome::Error(error) => return Err(broken(error)),
        Outcome::Late => return Err(Failure::Deadline(deadline_ms)),
    };
    Ok(Reflect::get(&outcome, &"success".into()).map_err(broken)?.is_truthy())
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
