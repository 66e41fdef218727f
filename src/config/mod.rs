//! Variables -> one typed value, once for each isolate. A wrong one is a fault that names it: never a silent default.
//!
//! Variables come as JSON: text and numbers, and tables either as tables or as text, since wrangler passes them both
//! ways. The names and defaults are in the README.

mod address;
pub mod callers;
pub mod choices;
pub mod decimal;
mod fault;
pub mod limits;
pub mod order;
pub mod origins;
mod parse;
mod plans;
pub mod publish;
pub mod tools;
pub mod upstream;
mod variables;

use crate::limiter::policy::Policy;
use callers::Identity;
pub use choices::{Fail, RefusalForm};
pub use fault::Fault;
use limits::Limits;
use origins::Origins;
pub use parse::{parse, parse_with};
use std::collections::BTreeMap;
use std::rc::Rc;
use tools::ToolSettings;
use upstream::Upstream;

/// The prefix that makes a variable ours.
pub const PREFIX: &str = "MCP_";

/// Every variable that is read.
pub const NAMES: &[&str] = &[
    "MCP_RATE_LIMIT",
    "MCP_RATE_LIMIT_BURST",
    "MCP_CALLER",
    "MCP_ANONYMOUS",
    "MCP_RATE_LIMIT_ANONYMOUS",
    "MCP_TOKEN_UNVERIFIED",
    "MCP_RATE_LIMIT_SHARED",
    "MCP_JWKS_URL",
    "MCP_JWT_ISSUER",
    "MCP_JWT_AUDIENCE",
    "MCP_JWT_SECRET",
    "MCP_CALLER_CLAIMS",
    "MCP_AUTHORIZATION_SERVERS",
    "MCP_PLAN_CLAIM",
    "MCP_PLANS",
    "MCP_QUOTA",
    "MCP_MAX_IN_FLIGHT",
    "MCP_LEASE_SECONDS",
    "MCP_MAX_WAIT_MS",
    "MCP_REFUSAL",
    "MCP_FAIL",
    "MCP_LIMITER_TIMEOUT_MS",
    "MCP_MAX_REQUEST_BODY",
    "MCP_MAX_BATCH",
    "MCP_ALLOWED_ORIGINS",
    "MCP_UPSTREAM",
    "MCP_UPSTREAM_AUTH",
    "MCP_UPSTREAM_TOKEN",
    "MCP_UPSTREAM_TIMEOUT_MS",
    "MCP_MAX_IN_FLIGHT_SESSION",
    "MCP_TOOLS",
    "MCP_ADMIN_TOKEN",
];

/// Everything that the operator decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What holds for each caller.
    pub limits: Limits,
    /// The claim of a token that names a plan.
    pub plan_claim: Option<String>,
    plans: BTreeMap<String, Limits>,
    /// The bucket of all callers without a token together.
    pub anonymous_bucket: Option<Policy>,
    /// The bucket of all callers together whose tokens aren't verified.
    pub shared_bucket: Option<Policy>,
    /// When a slot comes back by itself, in microseconds.
    pub lease_us: u64,
    /// The longest that a call is held back, in milliseconds.
    pub max_wait_ms: u64,
    /// Who is a caller.
    pub identity: Identity,
    /// Where clients get tokens, as the protected-resource document tells; none, and there is no such document.
    pub authorization_servers: Vec<String>,
    /// How a refusal is told.
    pub refusal: RefusalForm,
    /// How long a verdict, and before it that of the flood gate, is waited for, in milliseconds.
    pub limiter_timeout_ms: u32,
    /// The largest body, in bytes.
    pub max_request_body: usize,
    /// The most entries of a batch.
    pub max_batch: usize,
    /// The browser origins that are let in.
    pub origins: Origins,
    /// The server behind, where Sluice is a gateway.
    pub upstream: Option<Upstream>,
    /// What `/stats` and `/metrics` ask for, if anything.
    pub admin_token: Option<String>,
    tools: BTreeMap<String, Rc<ToolSettings>>,
    fail: Fail,
}

impl Config {
    /// What holds for the tool of this name.
    pub fn tool(&self, name: &str) -> Rc<ToolSettings> {
        self.tools.get(name).map_or_else(|| Rc::new(ToolSettings::new(1, self.fail)), Rc::clone)
    }

    /// What holds for all tools that are known, by their names: with a gateway those that the operator has named.
    pub fn tools(&self) -> &BTreeMap<String, Rc<ToolSettings>> {
        &self.tools
    }

    /// What may hold for a caller: everybody's limits, and those of each plan.
    pub fn all_limits(&self) -> impl Iterator<Item = &Limits> {
        std::iter::once(&self.limits).chain(self.plans.values())
    }

    /// What holds for a caller of this plan; None when there is no such plan.
    pub fn plan(&self, name: &str) -> Option<&Limits> {
        self.plans.get(name)
    }
}
