//! A refusal: one value, told as a tool result that the model reads, or as an HTTP error where the operator wants
//! that.
//!
//! The text says it all by itself, since most clients show the model nothing else; the same facts stand beside it for
//! programs. Being refused is not an error of the program: it is a value that knows when to come back.

use crate::limiter::policy::whole_seconds;
use crate::mcp::reply::RpcError;
use crate::mcp::tool_result::ToolResult;
use serde_json::{json, Value};

mod reason;

pub use reason::{Excess, Reason};

/// The `_meta` key, and the JSON-RPC code. The code lies outside the range that JSON-RPC and MCP keep for themselves.
pub const META_KEY: &str = "sluice/refusal";
const RPC_CODE: i64 = -31004;

/// How long to stay away from a limiter that can't answer, in milliseconds.
const UNAVAILABLE_MS: u64 = 5_000;

/// Whose limit it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowanceKind {
    /// The caller's.
    Caller,
    /// One that the caller has for this tool.
    Tool,
    /// The one that all callers without a token share.
    Anonymous,
    /// The one that all callers share whose tokens aren't verified.
    Shared,
    /// The distance between two calls of one tool, whoever makes them.
    Spacing,
    /// That of one session with the server behind.
    Session,
    /// The server behind has one of its own.
    Upstream,
}

impl AllowanceKind {
    /// Its name, out of one closed set.
    pub fn name(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Tool => "tool",
            Self::Anonymous => "anonymous",
            Self::Shared => "shared",
            Self::Spacing => "spacing",
            Self::Session => "session",
            Self::Upstream => "upstream",
        }
    }
}

/// A refused call, or a batch refused whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// Why.
    pub reason: Reason<'a>,
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
            Reason::Rate { retry_after_ms }
            | Reason::Blocked { retry_after_ms }
            | Reason::Upstream { retry_after_ms }
            | Reason::Quota { retry_after_ms, .. }
            | Reason::Busy { retry_after_ms, .. } => Some(retry_after_ms),
            Reason::Unavailable => Some(UNAVAILABLE_MS),
            Reason::Capacity(_) => None,
        }
    }

    /// Whole seconds to wait, rounded up and at least one: `Retry-After` (RFC 9110 section 10.2.3).
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after_ms().map(whole_seconds)
    }

    /// What the model reads.
    pub fn text(&self) -> String {
        let what = self.reason.text(self.tool, self.in_batch);
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
            Reason::Rate { .. } | Reason::Quota { .. } | Reason::Blocked { .. } => 429,
            Reason::Busy { .. } | Reason::Unavailable | Reason::Upstream { .. } => 503,
            Reason::Capacity(_) => 400,
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
    use crate::limiter::quota::{Quota, Window};

    const DAY: Quota = Quota { limit: 1_000, window: Window::Day };

    fn refusal(reason: Reason<'static>) -> Refusal<'static> {
        Refusal { reason, allowance: AllowanceKind::Caller, tool: "render", in_batch: false }
    }

    fn rate(retry_after_ms: u64) -> Refusal<'static> {
        refusal(Reason::Rate { retry_after_ms })
    }

    fn tokens(cost: u64, capacity: u64) -> Refusal<'static> {
        refusal(Reason::Capacity(Excess::Tokens { cost, capacity }))
    }

    fn busy(running: u64, of: Option<&'static str>, status_tool: Option<&'static str>) -> Refusal<'static> {
        refusal(Reason::Busy { retry_after_ms: 5_000, running, of, status_tool })
    }

    fn quota(quota: Quota, of: Option<&'static str>) -> Refusal<'static> {
        refusal(Reason::Quota { retry_after_ms: 18_720_000, quota, of })
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
        let pause = refusal(Reason::Upstream { retry_after_ms: 7_000 });
        let text = "The server behind asked for a pause. Wait 7 seconds before the next tool call.";
        assert_eq!((pause.text().as_str(), &pause.fields()["reason"]), (text, &json!("upstream")));
        let capacity = tokens(40, 30);
        assert_eq!(capacity.text(), "This call of render costs 40 tokens and the bucket holds 30. It can never run.");
        let batch = Refusal { in_batch: true, ..capacity };
        assert_eq!(batch.text(), "This batch costs 40 tokens and the bucket holds 30. It can never run.");
        assert_eq!(
            quota(DAY, None).text(),
            "Quota of 1000 calls a day used up. Wait 18720 seconds before the next tool call."
        );
        assert_eq!(
            busy(2, Some("render"), Some("render_status")).text(),
            "2 calls of render are already running, and no more are allowed. Ask render_status how they are doing. \
             Wait 5 seconds before the next tool call."
        );
    }

    #[test]
    fn one_is_not_many_and_a_callers_own_limit_names_no_tool() {
        let hour = Quota { limit: 1, window: Window::Hour };
        assert!(quota(hour, Some("render")).text().starts_with("Quota of 1 call of render an hour used up. "));
        let one = "1 call is already running, and no more are allowed. Wait 5 seconds before the next tool call.";
        assert_eq!(busy(1, None, None).text(), one);
    }

    #[test]
    fn what_never_fits_says_so() {
        let batch = |excess| Refusal { in_batch: true, ..refusal(Reason::Capacity(excess)) }.text();
        assert_eq!(
            batch(Excess::Calls { calls: 25, quota: Quota { limit: 10, ..DAY }, of: None }),
            "This batch makes 25 calls and the quota is 10 calls a day. It can never run."
        );
        assert_eq!(
            batch(Excess::Together { calls: 2, gap_ms: 250, of: Some("render") }),
            "This batch makes 2 calls of render, which must start 250 ms apart. It can never run."
        );
        assert_eq!(
            batch(Excess::Slots { calls: 3, most: 2, of: Some("render") }),
            "This batch makes 3 calls of render and at most 2 can run at the same time. It can never run."
        );
        assert_eq!(
            batch(Excess::Spaced { calls: 3, within_ms: 2_000, of: Some("render") }),
            "This batch makes 3 calls of render and the last would start after more than 2000 ms. It can never run."
        );
    }

    #[test]
    fn as_a_tool_result_the_facts_stand_in_meta() {
        let result = rate(1_402).to_tool_result();
        assert!(result.is_error && result.structured.is_none());
        let fields = json!({"reason": "rate", "allowance": "caller", "tool": "render", "retryAfterMs": 1402});
        assert_eq!(result.meta[META_KEY], fields);
        assert_eq!(tokens(40, 30).fields(), json!({"reason": "capacity", "allowance": "caller", "tool": "render"}));
        assert_eq!(refusal(Reason::Unavailable).fields()["retryAfterMs"], 5_000);
        assert_eq!(refusal(Reason::Unavailable).fields()["reason"], "unavailable");
        let fields = quota(DAY, None).fields();
        assert_eq!((&fields["reason"], &fields["retryAfterMs"]), (&json!("quota"), &json!(18_720_000)));
        assert_eq!(busy(2, None, None).fields()["reason"], "busy");
    }

    /// The first column of a table whose head is this.
    fn column(page: &str, head: &str) -> Vec<String> {
        let (_, table) = page.split_once(head).unwrap();
        let rows = table.lines().skip(1).take_while(|line| line.starts_with('|')).skip(1);
        let cells = rows.flat_map(|row| row.split('|').nth(1).unwrap().split(',').map(str::trim));
        cells.map(|cell| cell.trim_matches('`').to_owned()).collect()
    }

    #[test]
    fn the_pages_name_every_reason_and_every_allowance() {
        const GUIDE: &str = include_str!("../docs/client-guide.md");
        const PAGE: &str = include_str!("../docs/rate-limits.md");
        let ms = 1;
        let all = [
            rate(ms),
            quota(DAY, None),
            busy(2, None, None),
            tokens(2, 1),
            refusal(Reason::Blocked { retry_after_ms: ms }),
            refusal(Reason::Unavailable),
            refusal(Reason::Upstream { retry_after_ms: ms }),
        ];
        let reasons = all.map(|refusal| refusal.reason.name());
        assert_eq!(column(PAGE, "| reason | meaning | wait |"), reasons);
        let allowances = ["caller", "tool", "anonymous", "shared", "spacing", "session", "upstream"];
        assert_eq!(column(PAGE, "| `allowance` | whose limit |"), allowances);
        let members = |member: &str| GUIDE.lines().find(|line| line.starts_with(&format!("| `{member}` |"))).unwrap();
        for (member, names) in [("reason", reasons), ("allowance", allowances)] {
            for name in names {
                assert!(members(member).contains(&format!("`{name}`")), "{member} {name}");
            }
        }
    }

    #[test]
    fn every_allowance_has_its_name() {
        use AllowanceKind::{Anonymous, Caller, Session, Shared, Spacing, Tool, Upstream};
        let names = [Caller, Tool, Anonymous, Shared, Spacing, Session, Upstream].map(AllowanceKind::name);
        assert_eq!(names, ["caller", "tool", "anonymous", "shared", "spacing", "session", "upstream"]);
    }

    #[test]
    fn as_http_each_reason_has_its_status() {
        let error = rate(1_402).to_rpc_error();
        assert_eq!((error.code, error.status, &error.message), (-31004, 429, &rate(1_402).text()));
        assert_eq!(error.data, Some(rate(1_402).fields()));
        assert_eq!(quota(DAY, None).to_rpc_error().status, 429);
        assert_eq!(busy(2, None, None).to_rpc_error().status, 503);
        assert_eq!(refusal(Reason::Unavailable).to_rpc_error().status, 503);
        assert_eq!(refusal(Reason::Upstream { retry_after_ms: 1 }).to_rpc_error().status, 503);
        assert_eq!(tokens(2, 1).to_rpc_error().status, 400);
        assert_eq!(rate(1_402).retry_after_seconds(), Some(2));
        assert_eq!(tokens(2, 1).retry_after_seconds(), None);
    }
}
