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
    /// Tokens that the bucket holds; null when calls aren't limited.
    limit: Option<u64>,
    /// Tokens that can be spent now; null when calls aren't limited.
    remaining: Option<u64>,
    /// Milliseconds until one more token comes; 0 when the bucket is full.
    next_token_ms: u64,
}

fn run(call: Call) -> Running {
    call.answer(|_: Arguments, standing: Standing| match standing {
        Standing::Known(left) => ToolResult::structured(&Status {
            limit: Some(left.limit),
            remaining: Some(left.remaining),
            next_token_ms: left.next_token_ms,
        }),
        Standing::Unlimited => ToolResult::structured(&Status { limit: None, remaining: None, next_token_ms: 0 }),
        Standing::Unknown => {
            ToolResult::error("The rate limiter can't be asked just now, so what is left isn't known.")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::allowance::Allowance;
    use futures_util::FutureExt as _;
    use serde_json::json;

    fn status(standing: Standing) -> ToolResult {
        run(Call { arguments: json!({}), standing }).now_or_never().unwrap()
    }

    #[test]
    fn each_standing_is_told() {
        let left = Allowance { limit: 30, remaining: 12, next_token_ms: 2_000 };
        let known = json!({"limit": 30, "remaining": 12, "nextTokenMs": 2000});
        assert_eq!(status(Standing::Known(left)).structured, Some(known));
        let unlimited = json!({"limit": null, "remaining": null, "nextTokenMs": 0});
        assert_eq!(status(Standing::Unlimited).structured, Some(unlimited));
        assert!(status(Standing::Unknown).is_error);
    }
}
