//! A refusal: one value, told as a tool result that the model reads, or as an HTTP error where the operator wants
//! that.
//!
//! The text says it all by itself, since most clients show the model nothing else; the same facts stand beside it for
//! programs. Being refused is not an error of the program: it is a value that knows when to come back.

use crate::limiter::policy::whole_seconds;
use crate::mcp::reply::RpcError;
use crate::mcp::tool_result::ToolResult;
use serde_json::{json, Value};

/// The `_meta` key, and the JSON-RPC code. The code lies outside the range that JSON-RPC and MCP keep for themselves.
pub const META_KEY: &str = "sluice/refusal";
const RPC_CODE: i64 = -31004;

/// How long to stay away from a limiter that can't answer, in milliseconds.
const UNAVAILABLE_MS: u64 = 5_000;

/// Why a call doesn't run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Wait so many milliseconds for a token.
    Rate {
        /// Until the same call would run, if no other comes first.
        retry_after_ms: u64,
    },
    /// The cost is above the capacity, in tokens: it never runs.
    Capacity {
        /// Tokens that it would take.
        cost: u64,
        /// Tokens that the bucket holds.
        capacity: u64,
    },
    /// The limiter can't be asked, and the policy is closed.
    Unavailable,
}

impl Reason {
    /// Its name, out of one closed set.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate { .. } => "rate",
            Self::Capacity { .. } => "capacity",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Whose limit it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowanceKind {
    /// The caller's own bucket.
    Caller,
}

impl AllowanceKind {
    /// Its name, out of one closed set.
    pub fn name(self) -> &'static str {
        match self {
            Self::Caller => "caller",
        }
    }
}

/// A refused call, or a batch refused whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// Why.
    pub reason: Reason,
    /// By whose limit.
    pub allowance: AllowanceKind,
    /// The tool that was called.
    pub tool: &'a str,
    /// Whether it was part of a batch.
    pub in_batch: bool,
}

impl Refusal<'_> {
    /// Milliseconds to wait; None when waiting doesn't help.
    pub fn retry_after_ms(&self) -> Option<u64> {
        match self.reason {
            Reason::Rate { retry_after_ms } => Some(retry_after_ms),
            Reason::Unavailable => Some(UNAVAILABLE_MS),
            Reason::Capacity { .. } => None,
        }
    }

    /// Whole seconds to wait, rounded up and at least one: `Retry-After` (RFC 9110 section 10.2.3).
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after_ms().map(whole_seconds)
    }

    /// What the model reads.
    pub fn text(&self) -> String {
        let tool = self.tool;
        let what = match self.reason {
            Reason::Rate { .. } => format!("Rate limit reached for {tool}."),
            Reason::Unavailable => {
                format!("The rate limiter can't be asked, and {tool} doesn't run without it.")
            }
            Reason::Capacity { cost, capacity } => {
                let call = if self.in_batch { "This batch".to_owned() } else { format!("This call of {tool}") };
                format!("{call} costs {cost} tokens and the bucket holds {capacity}. It can never run.")
            }
        };
        match self.retry_after_seconds() {
            None => what,
            Some(1) => format!("{what} Wait 1 second before the next tool call."),
            Some(seconds) => format!("{what} Wait {seconds} seconds before the next tool call."),
        }
    }

    /// The facts, for programs.
    pub fn fields(&self) -> Value {
        let (reason, allowance, tool) = (self.reason.name(), self.allowance.name(), self.tool);
        match self.retry_after_ms() {
            Some(ms) => json!({ "reason": reason, "allowance": allowance, "tool": tool, "retryAfterMs": ms }),
            None => json!({ "reason": reason, "allowance": allowance, "tool": tool }),
        }
    }

    /// As the result of the call.
    pub fn to_tool_result(&self) -> ToolResult {
        ToolResult::error(self.text()).with_meta(META_KEY, self.fields())
    }

    /// The status as HTTP: 429 (RFC 6585 section 4), or one that fits better.
    pub fn http_status(&self) -> u16 {
        match self.reason {
            Reason::Rate { .. } => 429,
            Reason::Unavailable => 503,
            Reason::Capacity { .. } => 400,
        }
    }

    /// As a JSON-RPC error.
    pub fn to_rpc_error(&self) -> RpcError {
        RpcError { code: RPC_CODE, message: self.text(), data: Some(self.fields()), status: self.http_status() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(reason: Reason) -> Refusal<'static> {
        Refusal { reason, allowance: AllowanceKind::Caller, tool: "render", in_batch: false }
    }

    fn rate(retry_after_ms: u64) -> Refusal<'static> {
        refusal(Reason::Rate { retry_after_ms })
    }

    #[test]
    fn the_texts_are_what_they_always_were() {
        assert_eq!(rate(1_402).text(), "Rate limit reached for render. Wait 2 seconds before the next tool call.");
        assert_eq!(rate(1_000).text(), "Rate limit reached for render. Wait 1 second before the next tool call.");
        assert_eq!(rate(0).text(), "Rate limit reached for render. Wait 1 second before the next tool call.");
        assert_eq!(
            refusal(Reason::Unavailable).text(),
            "The rate limiter can't be asked, and render doesn't run without it. Wait 5 seconds before the next tool call."
        );
        let capacity = refusal(Reason::Capacity { cost: 40, capacity: 30 });
        assert_eq!(capacity.text(), "This call of render costs 40 tokens and the bucket holds 30. It can never run.");
        let batch = Refusal { in_batch: true, ..capacity };
        assert_eq!(batch.text(), "This batch costs 40 tokens and the bucket holds 30. It can never run.");
    }

    #[test]
    fn as_a_tool_result_the_facts_stand_in_meta() {
        let result = rate(1_402).to_tool_result();
        assert!(result.is_error && result.structured.is_none());
        let fields = json!({"reason": "rate", "allowance": "caller", "tool": "render", "retryAfterMs": 1402});
        assert_eq!(result.meta[META_KEY], fields);
        let capacity = refusal(Reason::Capacity { cost: 40, capacity: 30 }).fields();
        assert_eq!(capacity, json!({"reason": "capacity", "allowance": "caller", "tool": "render"}));
        assert_eq!(refusal(Reason::Unavailable).fields()["retryAfterMs"], 5_000);
        assert_eq!(refusal(Reason::Unavailable).fields()["reason"], "unavailable");
    }

    #[test]
    fn as_http_each_reason_has_its_status() {
        let error = rate(1_402).to_rpc_error();
        assert_eq!((error.code, error.status, &error.message), (-31004, 429, &rate(1_402).text()));
        assert_eq!(error.data, Some(rate(1_402).fields()));
        assert_eq!(refusal(Reason::Unavailable).to_rpc_error().status, 503);
        assert_eq!(refusal(Reason::Capacity { cost: 2, capacity: 1 }).to_rpc_error().status, 400);
        assert_eq!(rate(1_402).retry_after_seconds(), Some(2));
        assert_eq!(refusal(Reason::Capacity { cost: 2, capacity: 1 }).retry_after_seconds(), None);
    }
}
