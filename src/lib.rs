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

pub use limiter::object::RateLimiter;
pub use stats::object::CallStats;

use worker::{event, Context, Env, Request, Response};

#[event(start)]
fn start() {
    platform::panics::report();
}

#[event(fetch)]
async fn fetch(request: Request, env: Env, context: Context) -> worker::Result<Response> {
    door::answer(request, env, context).await
}
