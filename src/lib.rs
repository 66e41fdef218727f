//! Sluice: an MCP server at the edge that meters every tool call, exactly, per caller.
//!
//! The rooms, from the outside in. Arrows go down only; `system.yaml` draws them, and a test holds the two together.
//!
//! - [`door`]: HTTP in and out, and the way of one tool call, step by step
//! - [`caller`]: who is calling
//! - [`tools`]: the table of tools, their arguments, one file each
//! - [`limiter`]: the token bucket, the Durable Object that keeps it, and the question to it
//! - [`upstream`]: the server behind, where Sluice is a gateway
//! - [`stats`]: counting and showing
//! - [`refusal`]: a refused call, as a tool result or as an HTTP error
//! - [`mcp`]: the protocol
//! - [`config`]: variables -> one typed value
//! - [`platform`]: the little that is needed of Workers beyond HTTP

// In a test an overflow is a failed test.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice))]

pub mod caller;
pub mod config;
pub mod door;
pub mod limiter;
pub mod mcp;
pub mod platform;
pub mod refusal;
pub mod stats;
pub mod tools;
pub mod upstream;

use worker::wasm_bindgen::prelude::{wasm_bindgen, JsError, JsValue};
use worker::worker_sys;
use worker::{event, web_sys, Context, Env};

#[event(start)]
fn start() {
    platform::panics::report();
}

/// Answers an HTTP request whose head is this text: at once, or later under this number (`src/entry.mjs`).
#[wasm_bindgen]
pub fn answer(
    id: u32,
    head: String,
    request: web_sys::Request,
    env: Env,
    context: worker_sys::Context,
) -> Option<JsValue> {
    platform::run::run(id, async move { door::answer(head, request, env, Context::new(context)).await.into() })
}

/// What came of what was waited for under this number (`src/shell/imports.mjs`).
#[wasm_bindgen]
pub fn settled(id: u32, how: u32, value: JsValue) {
    platform::waiting::settle(id, how, value);
}

/// What the object of a caller does on a message, for its shell (`src/shell/object.mjs`).
#[wasm_bindgen]
pub fn limiter_step(message: &str, row: Option<String>, now_ms: f64) -> Result<String, JsError> {
    #[cfg(feature = "fixtures")]
    platform::panics::on_demand(message);
    platform::shell::told(limiter::object::step(message, row.as_deref(), platform::us(now_ms)))
}

/// What it does when its alarm goes off.
#[wasm_bindgen]
pub fn limiter_alarm(row: Option<String>, now_ms: f64) -> Result<String, JsError> {
    platform::shell::told(limiter::object::alarm(row.as_deref(), platform::us(now_ms)))
}

/// What the object of all counts does on a message.
#[wasm_bindgen]
pub fn stats_step(message: &str, row: Option<String>, _now_ms: f64) -> Result<String, JsError> {
    platform::shell::told(stats::object::step(message, row.as_deref()))
}
