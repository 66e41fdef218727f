//! Variables -> the configuration, or the first thing that is wrong with them.

use super::callers;
use super::choices::{Fail, RefusalForm};
use super::limits::{self, Given, Limits};
use super::origins::Origins;
use super::plans::{self, Everybody};
use super::tools::{self, ToolDefault};
use super::upstream;
use super::variables::Variables;
use super::{Config, Fault, NAMES};
use crate::limiter::policy::SECOND;
use serde_json::{Map, Value};

/// The longest that a verdict can be waited for, in milliseconds: beyond it a client has given up.
const LONGEST_TIMEOUT_MS: u64 = 60_000;

/// The largest body that can be allowed. As values it takes ten times as much of the 128 MB that an isolate has.
const LARGEST_BODY: u64 = 8 << 20;

/// The largest batch that can be allowed.
const LARGEST_BATCH: u64 = 100_000;

/// The longest that a slot can be taken without being given back, in seconds: a day.
const LONGEST_LEASE_SECONDS: u64 = 86_400;

/// The longest that a call can be held back, in milliseconds: beyond it a client has given up.
const LONGEST_WAIT_MS: u64 = 60_000;

/// Makes sense of `variables` where there is no service binding to a server behind: [`parse_with`].
pub fn parse(variables: &Map<String, Value>, tools: &[ToolDefault<'_>]) -> Result<Config, Fault> {
    parse_with(variables, tools, false)
}

/// Makes sense of `variables`, all of those whose names begin with [`PREFIX`]. `tools` are the tools that there are, unless there is
/// a server behind; `has_binding` says whether a service binding leads to one.
///
/// [`PREFIX`]: super::PREFIX
pub fn parse_with(
    variables: &Map<String, Value>,
    tools: &[ToolDefault<'_>],
    has_binding: bool,
) -> Result<Config, Fault> {
    let variables = Variables(variables);
    variables.check_names(NAMES)?;
    let refusal = match variables.one_of("MCP_REFUSAL", "result", &["result", "http"])? {
        0 => RefusalForm::Result,
        _ => RefusalForm::Http,
    };
    let fail = Fail::read("MCP_FAIL", &variables.text("MCP_FAIL", "open")?)?;
    let rate = variables.text("MCP_RATE_LIMIT", "0.5")?;
    let burst = variables.text("MCP_RATE_LIMIT_BURST", "30")?;
    let quota = variables.text("MCP_QUOTA", "")?;
    let max_in_flight = variables.text("MCP_MAX_IN_FLIGHT", "0")?;
    let given_burst = Given { variable: "MCP_RATE_LIMIT_BURST", text: &burst };
    let limits = Limits {
        bucket: limits::bucket(Given { variable: "MCP_RATE_LIMIT", text: &rate }, given_burst)?,
        quota: limits::quota(Given { variable: "MCP_QUOTA", text: &quota })?,
        max_in_flight: limits::max_in_flight(Given { variable: "MCP_MAX_IN_FLIGHT", text: &max_in_flight })?,
    };
    let shared = |variable: &str| {
        let rate = variables.text(variable, "100")?;
        limits::shared_bucket(Given { variable, text: &rate }, given_burst)
    };
    let everybody = Everybody { rate: &rate, burst: &burst, quota: &quota, max_in_flight: &max_in_flight };
    let plans = plans::parse(&variables.table("MCP_PLANS")?, &everybody)?;
    let plan_claim = Some(variables.text("MCP_PLAN_CLAIM", "")?).filter(|claim| !claim.is_empty());
    if plan_claim.is_none() && !plans.is_empty() {
        return Err(Fault::new("MCP_PLAN_CLAIM", "must name the claim by which a token chooses one of MCP_PLANS"));
    }
    let lease_seconds = variables.whole("MCP_LEASE_SECONDS", "300", 1, LONGEST_LEASE_SECONDS)?;
    let timeout = variables.whole("MCP_LIMITER_TIMEOUT_MS", "1000", 1, LONGEST_TIMEOUT_MS)?;
    let max_body = variables.whole("MCP_MAX_REQUEST_BODY", "1048576", 1, LARGEST_BODY)?;
    let max_batch = variables.whole("MCP_MAX_BATCH", "100", 1, LARGEST_BATCH)?;
    let origins = Origins::parse(&variables.text("MCP_ALLOWED_ORIGINS", "localhost")?)
        .map_err(|what| Fault::new("MCP_ALLOWED_ORIGINS", what))?;
    let identity = callers::parse(&variables)?;
    let upstream = upstream::parse(&variables, has_binding, &identity, &limits)?;
    let table = variables.table("MCP_TOOLS")?;
    let defaults = tools::Defaults { fail, rate: &rate, burst: &burst, bucket: limits.bucket };
    let tools = match &upstream {
        None => tools::parse(&table, tools, &defaults)?,
        // Its tools aren't known before it is asked.
        Some(_) => tools::parse_any(&table, &defaults)?,
    };
    plans::check(&plans, &table, &tools)?;
    let anonymous_bucket = shared("MCP_RATE_LIMIT_ANONYMOUS")?;
    let shared_bucket = shared("MCP_RATE_LIMIT_SHARED")?;
    let applies =
        [identity.anonymous_may_call().then_some(anonymous_bucket), identity.is_unverified().then_some(shared_bucket)];
    for bucket in applies.into_iter().flatten().flatten() {
        for (name, settings) in &tools {
            tools::check_cost(&format!("MCP_TOOLS.{name}.cost"), name, settings.cost, bucket.capacity_tokens())?;
        }
    }
    Ok(Config {
        identity,
        authorization_servers: callers::authorization_servers(&variables)?,
        limits,
        plan_claim,
        plans,
        anonymous_bucket,
        shared_bucket,
        lease_us: lease_seconds.saturating_mul(SECOND),
        max_wait_ms: variables.whole("MCP_MAX_WAIT_MS", "2000", 0, LONGEST_WAIT_MS)?,
        refusal,
        limiter_timeout_ms: u32::try_from(timeout).unwrap_or(u32::MAX),
        max_request_body: usize::try_from(max_body).unwrap_or(usize::MAX),
        max_batch: usize::try_from(max_batch).unwrap_or(usize::MAX),
        origins,
        upstream,
        admin_token: variables.secret("MCP_ADMIN_TOKEN")?,
        tools,
        fail,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::callers::Identity;
    use crate::config::tools::ToolSettings;
    use crate::config::PREFIX;
    use crate::limiter::policy::Policy;
    use serde_json::json;

    const TOOLS: [ToolDefault<'_>; 2] =
        [ToolDefault { name: "echo", cost: 1 }, ToolDefault { name: "search", cost: 2 }];

    fn parsed(variables: Value) -> Result<Config, Fault> {
        parse(variables.as_object().unwrap(), &TOOLS)
    }

    #[track_caller]
    fn fault(variables: Value, variable: &str) -> String {
        let fault = parsed(variables).unwrap_err();
        assert_eq!(fault.variable, variable);
        assert_eq!(fault.to_string(), format!("{variable}: {}", fault.what));
        fault.what
    }

    #[test]
    fn without_variables_the_defaults_hold() {
        let config = parsed(json!({})).unwrap();
        assert_eq!(config.limits.bucket, Some(Policy::new(30_000_000, 500_000).unwrap()));
        assert_eq!((config.refusal, config.limiter_timeout_ms), (RefusalForm::Result, 1_000));
        assert_eq!((config.max_request_body, config.max_batch), (1_048_576, 100));
        assert_eq!(config.admin_token, None);
        assert_eq!((&config.identity, config.authorization_servers.len()), (&Identity::Address, 0));
        assert_eq!((config.limits.quota, config.limits.max_in_flight, &config.plan_claim), (None, None, &None));
        assert_eq!((config.lease_us, config.max_wait_ms), (300_000_000, 2_000));
        let shared = Policy::new(200_000_000, 100_000_000).ok();
        assert_eq!((config.anonymous_bucket, config.shared_bucket), (shared, shared));
        assert_eq!(*config.tool("echo"), ToolSettings::new(1, Fail::Open));
        assert_eq!(config.tool("search").cost, 2);
        assert_eq!(*config.tool("unheard of"), ToolSettings::new(1, Fail::Open));
    }

    #[test]
    fn every_variable_is_read_as_text_and_as_a_number() {
        let config = parsed(json!({
            "MCP_RATE_LIMIT": 2.5, "MCP_RATE_LIMIT_BURST": 10, "MCP_CALLER": "address", "MCP_REFUSAL": "http", "MCP_FAIL": "closed",
            "MCP_LIMITER_TIMEOUT_MS": "250", "MCP_MAX_REQUEST_BODY": 100, "MCP_MAX_BATCH": " 5 ", "MCP_ALLOWED_ORIGINS": "*",
            "MCP_TOOLS": {"echo": {"cost": 3}}, "MCP_ADMIN_TOKEN": "s3cret", "MCP_QUOTA": "5/day", "MCP_MAX_IN_FLIGHT": "4",
            "MCP_LEASE_SECONDS": 60, "MCP_MAX_WAIT_MS": "0", "MCP_RATE_LIMIT_ANONYMOUS": 7, "MCP_RATE_LIMIT_SHARED": "9",
            "MCP_PLAN_CLAIM": "plan", "MCP_PLANS": {"pro": {"rate": 3}},
        }))
        .unwrap();
        assert_eq!((config.limits.quota.unwrap().limit, config.limits.max_in_flight), (5, Some(4)));
        assert_eq!((config.lease_us, config.max_wait_ms), (60_000_000, 0));
        assert_eq!(config.anonymous_bucket, Policy::new(14_000_000, 7_000_000).ok());
        assert_eq!(config.shared_bucket, Policy::new(18_000_000, 9_000_000).ok());
        assert_eq!(config.plan_claim.as_deref(), Some("plan"));
        let pro = Limits { bucket: Policy::new(10_000_000, 3_000_000).ok(), ..config.limits };
        assert_eq!((config.plan("pro"), config.plan("free")), (Some(&pro), None));
        assert_eq!(config.limits.bucket, Some(Policy::new(10_000_000, 2_500_000).unwrap()));
        assert_eq!((config.refusal, config.limiter_timeout_ms), (RefusalForm::Http, 250));
        assert_eq!((config.max_request_body, config.max_batch), (100, 5));
        assert_eq!(config.admin_token.as_deref(), Some("s3cret"));
        assert_eq!(*config.tool("echo"), ToolSettings::new(3, Fail::Closed));
        assert_eq!(config.tool("unheard of").fail, Fail::Closed);
        assert!(config.origins.allow("https://anywhere.example", "https://sluice.example/mcp"));
        assert_eq!(
            parsed(json!({"MCP_RATE_LIMIT": "2.5", "MCP_RATE_LIMIT_BURST": "10"})).unwrap().limits.bucket,
            config.limits.bucket
        );
    }

    #[test]
    fn a_rate_of_zero_switches_buckets_off() {
        for zero in [json!(0), json!("0"), json!("0.0"), json!(0.0)] {
            assert_eq!(parsed(json!({"MCP_RATE_LIMIT": zero})).unwrap().limits.bucket, None);
        }
    }

    #[test]
    fn a_wrong_value_names_its_variable() {
        for value in [
            json!("fast"),
            json!(""),
            json!("-1"),
            json!(-1),
            json!("1e3"),
            json!("0.0000001"),
            json!(0.000_000_1),
            json!("1,5"),
        ] {
            assert!(fault(json!({"MCP_RATE_LIMIT": value}), "MCP_RATE_LIMIT").contains("tokens a second"));
        }
        for value in [json!(0), json!("0"), json!("1.5"), json!(1.5), json!("-30"), json!("many"), json!("")] {
            assert!(fault(json!({"MCP_RATE_LIMIT_BURST": value}), "MCP_RATE_LIMIT_BURST").contains("at least 1"));
        }
        for value in [json!(null), json!(true), json!([1]), json!({"a": 1})] {
            assert_eq!(fault(json!({"MCP_RATE_LIMIT": value}), "MCP_RATE_LIMIT"), "must be text or a number");
        }
        assert_eq!(fault(json!({"MCP_CALLER": "ip"}), "MCP_CALLER"), r#"must be "address" or "token", not "ip""#);
        assert_eq!(fault(json!({"MCP_REFUSAL": "429"}), "MCP_REFUSAL"), r#"must be "result" or "http", not "429""#);
        assert_eq!(
            fault(json!({"MCP_FAIL": "ajar"}), "MCP_FAIL"),
            r#"must be "open" or "insured" or "closed", not "ajar""#
        );
        for (name, least, most) in [
            ("MCP_LIMITER_TIMEOUT_MS", 1, 60_000_u64),
            ("MCP_MAX_REQUEST_BODY", 1, 8_388_608),
            ("MCP_MAX_BATCH", 1, 100_000),
            ("MCP_LEASE_SECONDS", 1, 86_400),
            ("MCP_MAX_WAIT_MS", 0, 60_000),
        ] {
            for value in [json!(least - 1_i64), json!(most + 1), json!("x"), json!(1.5)] {
                assert!(fault(json!({name: value}), name).contains(&format!("from {least} to {most}, not")));
            }
            assert!(parsed(json!({name: most})).is_ok());
            assert!(parsed(json!({name: least})).is_ok());
        }
        for (name, value, what) in [
            ("MCP_QUOTA", json!("5"), "calls in a window"),
            ("MCP_MAX_IN_FLIGHT", json!("x"), "whole number of calls"),
            ("MCP_RATE_LIMIT_ANONYMOUS", json!("x"), "tokens a second"),
            ("MCP_RATE_LIMIT_SHARED", json!("x"), "tokens a second"),
            ("MCP_PLANS", json!(7), "must be a table"),
            ("MCP_PLANS", json!("[]"), "must be a table"),
            ("MCP_PLANS", json!("{"), "isn't JSON that can be read: "),
            ("MCP_PLAN_CLAIM", json!({}), "must be text"),
            ("MCP_TOOLS", json!(null), "must be a table, or one as JSON text"),
            ("MCP_TOOLS", json!(r#"{"echo":{},"echo":{}}"#), "isn't JSON that can be read: "),
        ] {
            let found = fault(json!({name: value}), name);
            assert!(found.contains(what), "{found}");
        }
        assert!(fault(json!({"MCP_ALLOWED_ORIGINS": "https://a.example"}), "MCP_ALLOWED_ORIGINS").contains("host name"));
        for value in [json!(""), json!(" a"), json!("a b"), json!("\u{e9}"), json!(7), json!({})] {
            assert!(fault(json!({"MCP_ADMIN_TOKEN": value}), "MCP_ADMIN_TOKEN").contains("visible ASCII"));
        }
    }

    #[test]
    fn a_policy_beyond_the_arithmetic_is_a_fault() {
        assert!(fault(json!({"MCP_RATE_LIMIT_BURST": 4_503_599_628_u64}), "MCP_RATE_LIMIT_BURST").contains("at most"));
        assert!(fault(json!({"MCP_RATE_LIMIT": 4_503_599_628_u64}), "MCP_RATE_LIMIT").contains("at most"));
        let slow = json!({"MCP_RATE_LIMIT": "0.000001", "MCP_RATE_LIMIT_BURST": 5000});
        assert!(fault(slow, "MCP_RATE_LIMIT").contains("142 years"));
    }

    #[test]
    fn a_table_and_its_json_text_say_the_same() {
        let table = json!({"echo": {"cost": 3}});
        let text = Value::String(table.to_string());
        assert_eq!(parsed(json!({ "MCP_TOOLS": table })), parsed(json!({ "MCP_TOOLS": text })));
        let plans = json!({"pro": {"rate": 3}});
        let text = Value::String(plans.to_string());
        let with = |plans| parsed(json!({ "MCP_PLAN_CLAIM": "plan", "MCP_PLANS": plans }));
        assert_eq!(with(plans), with(text));
    }

    #[test]
    fn a_cost_above_a_plans_capacity_is_a_fault_of_the_plan() {
        let plans = |burst: u64| {
            json!({
                "MCP_PLAN_CLAIM": "plan", "MCP_PLANS": {"small": {"burst": burst}}, "MCP_TOOLS": {"echo": {"cost": 5}},
            })
        };
        assert!(parsed(plans(5)).is_ok());
        let what = fault(plans(4), "MCP_PLANS.small.burst");
        assert_eq!(what, "a call of echo costs 5 tokens and the bucket holds 4");
        let small = json!({"MCP_PLAN_CLAIM": "plan", "MCP_PLANS": {"small": {"burst": 1}}});
        assert!(parsed(small).is_ok(), "a tool's own cost is not the operator's");
        assert!(fault(json!({"MCP_PLANS": {"small": {}}}), "MCP_PLAN_CLAIM").contains("MCP_PLANS"));
    }

    #[test]
    fn an_unknown_name_is_a_fault_and_other_peoples_names_are_not() {
        for name in ["RATE_LIMITS", "UPSTREAMS", ""].map(|name| format!("{PREFIX}{name}")) {
            let name = name.as_str();
            assert_eq!(fault(json!({name: "1"}), name), "there is no variable of this name");
        }
        assert!(parsed(json!({"LOG_LEVEL": "debug"})).is_ok());
    }
}
