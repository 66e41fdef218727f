//! The limits as they are published (`GET /limits`): what a client can plan with. They have the names of the variables that
//! set them, in lower case and without their prefix; what isn't limited is null, or absent for a single tool.

use super::limits::Limits;
use super::tools::ToolSettings;
use super::{Config, Fail, RefusalForm};
use crate::limiter::policy::{tokens, Policy, SECOND};
use serde_json::{json, Map, Value};

/// Everything that limits a caller that has no plan of its own.
pub fn published(config: &Config) -> Value {
    let Limits { bucket, quota, max_in_flight } = config.limits;
    let anonymous = config.anonymous_bucket.filter(|_| config.identity.anonymous_may_call());
    let unverified = config.shared_bucket.filter(|_| config.identity.is_unverified());
    let shared = |bucket: Policy| json!({ "rate": rate(bucket), "burst": bucket.capacity_tokens() });
    let tools: Map<String, Value> = config.tools().iter().map(|(name, tool)| (name.clone(), one(tool))).collect();
    json!({
        "rate": bucket.map(rate),
        "burst": bucket.map(|bucket| bucket.capacity_tokens()),
        "quota": quota.map(|quota| quota.to_string()),
        "max_in_flight": max_in_flight,
        "anonymous": anonymous.map(shared),
        "shared": unverified.map(shared),
        "lease_seconds": config.lease_us / SECOND,
        "max_wait_ms": config.max_wait_ms,
        "limiter_timeout_ms": config.limiter_timeout_ms,
        "max_request_body": config.max_request_body,
        "max_batch": config.max_batch,
        "refusal": match config.refusal {
            RefusalForm::Result => "result",
            RefusalForm::Http => "http",
        },
        "tools": tools,
    })
}

fn one(tool: &ToolSettings) -> Value {
    let mut told = Map::new();
    let mut tell = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            told.insert(name.to_owned(), value);
        }
    };
    tell("cost", Some(json!(tool.cost)));
    tell("rate", tool.bucket.map(rate).map(Value::from));
    tell("burst", tool.bucket.map(|bucket| json!(bucket.capacity_tokens())));
    tell("quota", tool.quota.map(|quota| json!(quota.to_string())));
    tell("max_in_flight", tool.max_in_flight.map(Value::from));
    tell("status_tool", tool.status_tool.clone().map(Value::from));
    tell("poll_seconds", tool.max_in_flight.map(|_| json!(tool.poll_seconds)));
    tell("min_gap_ms", tool.min_gap_ms.map(Value::from));
    tell("fail", (tool.fail != Fail::Open).then(|| json!(tool.fail.name())));
    Value::Object(told)
}

/// Tokens a second.
fn rate(bucket: Policy) -> f64 {
    tokens(bucket.refill())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tools::ToolDefault;

    fn published(variables: Value) -> Value {
        let tools = [ToolDefault { name: "echo", cost: 1 }, ToolDefault { name: "search", cost: 2 }];
        super::published(&crate::config::parse(variables.as_object().unwrap(), &tools).unwrap())
    }

    #[test]
    fn the_defaults() {
        let expected = json!({
            "rate": 0.5, "burst": 30, "quota": null, "max_in_flight": null, "anonymous": null, "shared": null, "lease_seconds": 300, "max_wait_ms": 2000,
            "limiter_timeout_ms": 1000, "max_request_body": 1_048_576, "max_batch": 100, "refusal": "result",
            "tools": {"echo": {"cost": 1}, "search": {"cost": 2}},
        });
        assert_eq!(published(json!({})), expected);
    }

    #[test]
    fn everything_that_is_set() {
        let echo = json!({
            "cost": 3, "rate": 0.25, "burst": 5, "quota": "9/hour", "max_in_flight": 2, "status_tool": "search",
            "poll_seconds": 7, "min_gap_ms": 250, "fail": "closed",
        });
        let told = published(json!({
            "MCP_RATE_LIMIT": "0", "MCP_QUOTA": "5/day", "MCP_MAX_IN_FLIGHT": "4", "MCP_REFUSAL": "http",
            "MCP_TOOLS": {"echo": echo}, "MCP_ADMIN_TOKEN": "s3cret",
        }));
        assert_eq!((&told["rate"], &told["burst"]), (&Value::Null, &Value::Null));
        assert_eq!(
            (&told["quota"], &told["max_in_flight"], &told["refusal"]),
            (&json!("5/day"), &json!(4), &json!("http"))
        );
        assert_eq!(told["tools"]["echo"], echo);
        assert!(!told.to_string().contains("s3cret"));
        let told = published(json!({
            "MCP_CALLER": "token", "MCP_TOKEN_UNVERIFIED": "digest", "MCP_ANONYMOUS": "address", "MCP_RATE_LIMIT_SHARED": "20",
        }));
        assert_eq!(told["anonymous"], json!({"rate": 100.0, "burst": 200}));
        assert_eq!(told["shared"], json!({"rate": 20.0, "burst": 40}));
        let told = published(json!({"MCP_CALLER": "token", "MCP_JWT_SECRET": "0123456789abcdef0123456789abcdef"}));
        assert_eq!((&told["anonymous"], &told["shared"]), (&Value::Null, &Value::Null));
    }
}
