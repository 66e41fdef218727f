//! `rate_limit_status`: what is left, without charging for the question.

use super::{schema_of, Call, Running, Standing, Tool};
use crate::mcp::tool_result::ToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const TOOL: Tool = Tool {
    name: "rate_limit_status",
    title: "Rate limit status",
    description:
        "Tells how many tokens are left for tool calls, of how many, and in how many milliseconds the next one comes.",
    cost: 0,
    needs_allowance: true,
    needs_capability: None,
    read_only: true,
    input: schema_of::<Arguments>,
    output: Some(schema_of::<Status>),
    run,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Status {
    /// Tokens that the bucket holds, or calls that the quota allows, whichever is nearer to its end; null when calls aren't
    /// limited.
    limit: Option<u64>,
    /// How many of them can be spent now; null when calls aren't limited.
    remaining: Option<u64>,
    /// Milliseconds until one more comes; 0 when all are there.
    next_token_ms: u64,
    /// The quota, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<Quota>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Quota {
    /// Calls that a window allows.
    limit: u64,
    /// Calls that are left in this one.
    remaining: u64,
    /// What the calls are counted over: minute, hour, day or month, in UTC.
    window: String,
    /// Milliseconds until the next window begins.
    reset_ms: u64,
}

fn run(call: Call) -> Running {
    call.answer(|_: Arguments, standing: Standing| match standing {
        Standing::Known(standing) => ToolResult::structured(&Status {
            limit: Some(standing.nearest.limit),
            remaining: Some(standing.nearest.remaining),
            next_token_ms: standing.nearest.next_token_ms,
            quota: standing.quota.map(|quota| Quota {
                limit: quota.limit,
                remaining: quota.remaining,
                window: quota.window.name().to_owned(),
                reset_ms: quota.reset_ms,
            }),
        }),
        Standing::Unlimited => {
            ToolResult::structured(&Status { limit: None, remaining: None, next_token_ms: 0, quota: None })
        }
        Standing::Unknown => {
            ToolResult::error("The rate limiter can't be asked just now, so what is left isn't known.")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::bucket::Debt;
    use crate::limiter::policy::{Policy, TOKEN};
    use crate::limiter::quota::Window;
    use crate::limiter::standing::{self, QuotaLeft};
    use futures_util::FutureExt as _;
    use serde_json::json;

    fn status(standing: Standing) -> ToolResult {
        run(Call { arguments: json!({}), standing }).now_or_never().unwrap()
    }

    #[test]
    fn each_standing_is_told() {
        let policy = Policy::new(30 * TOKEN, TOKEN / 2).unwrap();
        let mut left = standing::Standing::of_bucket("tools-call", Debt { owed: 18 * TOKEN, at: 0 }, policy);
        let known = json!({"limit": 30, "remaining": 12, "nextTokenMs": 2000});
        assert_eq!(status(Standing::Known(left.clone())).structured, Some(known));
        left.quota = Some(QuotaLeft { limit: 9, remaining: 4, window: Window::Day, reset_ms: 5 });
        let quota = json!({"limit": 9, "remaining": 4, "window": "day", "resetMs": 5});
        assert_eq!(status(Standing::Known(left)).structured.unwrap()["quota"], quota);
        let unlimited = json!({"limit": null, "remaining": null, "nextTokenMs": 0});
        assert_eq!(status(Standing::Unlimited).structured, Some(unlimited));
        assert!(status(Standing::Unknown).is_error);
    }
}
