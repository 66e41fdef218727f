//! Variables -> one typed value, once for each isolate. A wrong one is a fault that names it: never a silent default.
//!
//! Variables come as JSON: text and numbers, and tables either as tables or as text, since wrangler passes them both
//! ways. The names and defaults are in the README.

pub mod decimal;
pub mod origins;
pub mod tools;
mod variables;

use crate::limiter::policy::{Policy, PolicyFault};
use origins::Origins;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use tools::{ToolDefault, ToolSettings};
use variables::Variables;

/// The prefix that makes a variable ours.
pub const PREFIX: &str = "MCP_";

/// Every variable that is read.
pub const NAMES: [&str; 11] = [
    "MCP_RATE_LIMIT",
    "MCP_RATE_LIMIT_BURST",
    "MCP_CALLER",
    "MCP_REFUSAL",
    "MCP_FAIL",
    "MCP_LIMITER_TIMEOUT_MS",
    "MCP_MAX_REQUEST_BODY",
    "MCP_MAX_BATCH",
    "MCP_ALLOWED_ORIGINS",
    "MCP_TOOLS",
    "MCP_ADMIN_TOKEN",
];

/// The longest that a verdict can be waited for, in milliseconds: beyond it a client has given up.
const LONGEST_TIMEOUT_MS: u64 = 60_000;

/// The largest body that can be allowed. As values it takes ten times as much of the 128 MB that an isolate has.
const LARGEST_BODY: u64 = 8 << 20;

/// The largest batch that can be allowed.
const LARGEST_BATCH: u64 = 100_000;

/// Everything that the operator decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Each caller's bucket; None when buckets are switched off.
    pub policy: Option<Policy>,
    /// How a refusal is told.
    pub refusal: RefusalForm,
    /// How long a verdict is waited for, in milliseconds.
    pub limiter_timeout_ms: u32,
    /// The largest body, in bytes.
    pub max_request_body: usize,
    /// The most entries of a batch.
    pub max_batch: usize,
    /// The browser origins that are let in.
    pub origins: Origins,
    /// What `/stats` and `/metrics` ask for, if anything.
    pub admin_token: Option<String>,
    tools: BTreeMap<String, ToolSettings>,
    fail: Fail,
}

impl Config {
    /// What holds for the tool of this name.
    pub fn tool(&self, name: &str) -> ToolSettings {
        self.tools.get(name).copied().unwrap_or(ToolSettings { cost: 1, fail: self.fail })
    }
}

/// How a refusal is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalForm {
    /// As a tool result, so that the model sees it.
    Result,
    /// As an HTTP error.
    Http,
}

/// What happens to a call when the limiter can't answer; the stricter, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fail {
    /// It runs.
    Open,
    /// The isolate's own bucket decides.
    Insured,
    /// It is refused.
    Closed,
}

impl Fail {
    /// Its name in variables and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Insured => "insured",
            Self::Closed => "closed",
        }
    }

    /// The policy that a variable names.
    fn read(variable: &str, given: &str) -> Result<Self, Fault> {
        let all = [Self::Open, Self::Insured, Self::Closed];
        let position = variables::choice(variable, given, &all.map(Self::name))?;
        Ok(all.get(position).copied().unwrap_or(Self::Closed))
    }
}

/// A variable that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its name, with the path into a table.
    pub variable: String,
    /// What is wrong with it.
    pub what: String,
}

impl Fault {
    fn new(variable: &str, what: impl Into<String>) -> Self {
        Self { variable: variable.to_owned(), what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.variable, self.what)
    }
}

/// Makes sense of `variables`, all of those whose names begin with [`PREFIX`]; `tools` are the tools that there are.
pub fn parse(variables: &Map<String, Value>, tools: &[ToolDefault]) -> Result<Config, Fault> {
    let variables = Variables(variables);
    variables.check_names(&NAMES)?;
    variables.one_of("MCP_CALLER", "address", &["address"])?;
    let refusal = match variables.one_of("MCP_REFUSAL", "result", &["result", "http"])? {
        0 => RefusalForm::Result,
        _ => RefusalForm::Http,
    };
    let fail = Fail::read("MCP_FAIL", &variables.text("MCP_FAIL", "open")?)?;
    let policy = policy(&variables.text("MCP_RATE_LIMIT", "0.5")?, &variables.text("MCP_RATE_LIMIT_BURST", "30")?)?;
    let timeout = variables.whole("MCP_LIMITER_TIMEOUT_MS", "1000", LONGEST_TIMEOUT_MS)?;
    let max_body = variables.whole("MCP_MAX_REQUEST_BODY", "1048576", LARGEST_BODY)?;
    let max_batch = variables.whole("MCP_MAX_BATCH", "100", LARGEST_BATCH)?;
    let origins = Origins::parse(&variables.text("MCP_ALLOWED_ORIGINS", "localhost")?)
        .map_err(|what| Fault::new("MCP_ALLOWED_ORIGINS", what))?;
    let admin_token = match variables.get("MCP_ADMIN_TOKEN") {
        None => None,
        Some(Value::String(token)) if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Some(token.clone())
        }
        Some(_) => {
            let what = "must be text of visible ASCII characters, without spaces: no header could carry another";
            return Err(Fault::new("MCP_ADMIN_TOKEN", what));
        }
    };
    let tools = tools::parse(variables.get("MCP_TOOLS"), tools, fail, policy)?;
    Ok(Config {
        policy,
        refusal,
        limiter_timeout_ms: u32::try_from(timeout).unwrap_or(u32::MAX),
        max_request_body: usize::try_from(max_body).unwrap_or(usize::MAX),
        max_batch: usize::try_from(max_batch).unwrap_or(usize::MAX),
        origins,
        admin_token,
        tools,
        fail,
    })
}

/// The bucket; None when the rate is 0.
fn policy(rate: &str, burst: &str) -> Result<Option<Policy>, Fault> {
    let refill = decimal::micro(rate).ok_or_else(|| {
        let what = format!("must be tokens a second, such as 0.5, with at most six decimals; not {rate:?}");
        Fault::new("MCP_RATE_LIMIT", what)
    })?;
    let capacity = decimal::whole(burst).filter(|tokens| *tokens > 0).ok_or_else(|| {
        Fault::new("MCP_RATE_LIMIT_BURST", format!("must be a whole number of tokens, at least 1, not {burst:?}"))
    })?;
    let capacity = capacity.saturating_mul(crate::limiter::policy::TOKEN);
    match Policy::new(capacity, refill) {
        Ok(policy) => Ok(Some(policy)),
        Err(PolicyFault::NoRefill) => Ok(None),
        Err(fault @ (PolicyFault::NoCapacity | PolicyFault::CapacityTooLarge)) => {
            Err(Fault::new("MCP_RATE_LIMIT_BURST", fault.to_string()))
        }
        Err(fault @ (PolicyFault::RefillTooLarge | PolicyFault::FillsTooSlowly)) => {
            Err(Fault::new("MCP_RATE_LIMIT", fault.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TOOLS: [ToolDefault; 2] = [ToolDefault { name: "echo", cost: 1 }, ToolDefault { name: "search", cost: 2 }];

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
        assert_eq!(config.policy, Some(Policy::new(30_000_000, 500_000).unwrap()));
        assert_eq!((config.refusal, config.limiter_timeout_ms), (RefusalForm::Result, 1_000));
        assert_eq!((config.max_request_body, config.max_batch), (1_048_576, 100));
        assert_eq!(config.admin_token, None);
        assert_eq!(config.tool("echo"), ToolSettings { cost: 1, fail: Fail::Open });
        assert_eq!(config.tool("search").cost, 2);
        assert_eq!(config.tool("unheard of"), ToolSettings { cost: 1, fail: Fail::Open });
    }

    #[test]
    fn every_variable_is_read_as_text_and_as_a_number() {
        let config = parsed(json!({
            "MCP_RATE_LIMIT": 2.5, "MCP_RATE_LIMIT_BURST": 10, "MCP_CALLER": "address", "MCP_REFUSAL": "http", "MCP_FAIL": "closed",
            "MCP_LIMITER_TIMEOUT_MS": "250", "MCP_MAX_REQUEST_BODY": 100, "MCP_MAX_BATCH": " 5 ", "MCP_ALLOWED_ORIGINS": "*",
            "MCP_TOOLS": {"echo": {"cost": 3}}, "MCP_ADMIN_TOKEN": "s3cret",
        }))
        .unwrap();
        assert_eq!(config.policy, Some(Policy::new(10_000_000, 2_500_000).unwrap()));
        assert_eq!((config.refusal, config.limiter_timeout_ms), (RefusalForm::Http, 250));
        assert_eq!((config.max_request_body, config.max_batch), (100, 5));
        assert_eq!(config.admin_token.as_deref(), Some("s3cret"));
        assert_eq!(config.tool("echo"), ToolSettings { cost: 3, fail: Fail::Closed });
        assert_eq!(config.tool("unheard of").fail, Fail::Closed);
        assert!(config.origins.allow("https://anywhere.example", "https://sluice.example/mcp"));
        assert_eq!(
            parsed(json!({"MCP_RATE_LIMIT": "2.5", "MCP_RATE_LIMIT_BURST": "10"})).unwrap().policy,
            config.policy
        );
    }

    #[test]
    fn a_rate_of_zero_switches_buckets_off() {
        for zero in [json!(0), json!("0"), json!("0.0"), json!(0.0)] {
            assert_eq!(parsed(json!({"MCP_RATE_LIMIT": zero})).unwrap().policy, None);
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
        assert_eq!(fault(json!({"MCP_CALLER": "token"}), "MCP_CALLER"), r#"must be "address", not "token""#);
        assert_eq!(fault(json!({"MCP_REFUSAL": "429"}), "MCP_REFUSAL"), r#"must be "result" or "http", not "429""#);
        assert_eq!(
            fault(json!({"MCP_FAIL": "ajar"}), "MCP_FAIL"),
            r#"must be "open" or "insured" or "closed", not "ajar""#
        );
        for (name, most) in
            [("MCP_LIMITER_TIMEOUT_MS", 60_000_u64), ("MCP_MAX_REQUEST_BODY", 8_388_608), ("MCP_MAX_BATCH", 100_000)]
        {
            for value in [json!(0), json!(most + 1), json!("x"), json!(1.5)] {
                assert!(fault(json!({name: value}), name).contains(&format!("from 1 to {most}, not")));
            }
            assert!(parsed(json!({name: most})).is_ok());
            assert!(parsed(json!({name: 1})).is_ok());
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
    fn an_unknown_name_is_a_fault_and_other_peoples_names_are_not() {
        let later = "ANONYMOUS RATE_LIMIT_ANONYMOUS TOKEN_UNVERIFIED RATE_LIMIT_SHARED JWKS_URL JWT_ISSUER JWT_AUDIENCE \
            CALLER_CLAIMS AUTHORIZATION_SERVERS PLAN_CLAIM PLANS QUOTA MAX_IN_FLIGHT LEASE_SECONDS MAX_WAIT_MS UPSTREAM \
            UPSTREAM_AUTH UPSTREAM_TIMEOUT_MS MAX_IN_FLIGHT_SESSION JWT_SECRET UPSTREAM_TOKEN RATE_LIMITS";
        for name in later.split_whitespace().chain([""]).map(|name| format!("{PREFIX}{name}")) {
            let name = name.as_str();
            assert_eq!(fault(json!({name: "1"}), name), "there is no variable of this name");
        }
        assert!(parsed(json!({"LOG_LEVEL": "debug"})).is_ok());
    }

    #[test]
    fn the_policies_are_ordered_by_strictness_and_named() {
        assert!(Fail::Open < Fail::Insured && Fail::Insured < Fail::Closed);
        for fail in [Fail::Open, Fail::Insured, Fail::Closed] {
            assert_eq!(Fail::read("MCP_FAIL", fail.name()), Ok(fail));
        }
    }
}
