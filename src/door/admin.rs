//! What the operator asks of one caller: `/admin/callers/address/ADDRESS` and `/admin/callers/token/VALUE`, the value of the
//! claim that names it. GET shows how it stands, DELETE fills its buckets and forgets its quotas and leases, PUT gives it
//! numbers of its own, or blocks it, for a time.

use super::body;
use super::incoming::Incoming;
use super::pages::is_admin;
use super::reply::Reply;
use crate::caller::{address, name, CallerKey};
use crate::config::callers::{Identity, Trust};
use crate::config::order;
use crate::config::Config;
use crate::limiter::ask::order as ask;
use crate::limiter::operator::{Order, State};
use crate::limiter::policy::{tokens, whole_ms};
use crate::platform::now_us;
use serde_json::json;
use url::Url;
use worker::{console_error, Env};

/// Where callers are.
pub const PATH: &str = "/admin/callers/";

/// What can be asked of them.
pub const METHODS: &str = "GET, PUT, DELETE";

/// The largest body, in bytes.
const LARGEST_BODY: usize = 4_096;

/// Answers the operator. Without a secret in the configuration there are no such paths.
pub async fn answer(request: &Incoming, config: &Config, env: &Env) -> Reply {
    let Some(token) = config.admin_token.as_deref() else {
        return Reply::empty(404);
    };
    if !is_admin(request.header("authorization").as_deref(), token) {
        return Reply::empty(401).with("www-authenticate", "Bearer");
    }
    let caller = match Url::parse(request.head.url()).ok().map(|url| caller(&url, config)) {
        Some(Ok(caller)) => caller,
        Some(Err(what)) => return refused(404, what),
        None => return Reply::empty(404),
    };
    let order = match request.head.method() {
        "GET" | "HEAD" => Order::Show,
        "DELETE" => Order::Clear,
        "PUT" => match body::read(request, LARGEST_BODY).await {
            Ok(body) => match order::parse(&body, config, now_us()) {
                Ok(held) => Order::Set(held),
                Err(what) => return refused(400, &what),
            },
            Err(_) => return refused(413, "the body is too large"),
        },
        _ => return Reply::empty(405).with("allow", METHODS),
    };
    match ask(env, caller.name(), &order, config.limiter_timeout_ms).await {
        Ok(state) => Reply::json(200, &shown(&state, now_us())).with("cache-control", "no-store"),
        Err(failure) => {
            console_error!("{}", json!({ "event": "admin_failure", "cause": failure.cause() }));
            refused(503, "the caller's object can't answer")
        }
    }
}

fn refused(status: u16, what: &str) -> Reply {
    Reply::json(status, &json!({ "error": what }))
}

/// The caller that the path names. A token's caller has an issuer, which is the one that is configured unless the query has
/// another, and a claim: the first of those that name callers, unless the query has another.
fn caller(url: &Url, config: &Config) -> Result<CallerKey, &'static str> {
    let (kind, value) = url.path().strip_prefix(PATH).and_then(|rest| rest.split_once('/')).unwrap_or_default();
    let value = percent_encoding::percent_decode_str(value).decode_utf8().map_err(|_| "the caller isn't UTF-8")?;
    let given = |key: &str| url.query_pairs().find(|(name, _)| name == key).map(|(_, value)| value.into_owned());
    match (kind, &config.identity) {
        ("address", _) if address::is_readable(&value) => Ok(address::from_header(Some(&value))),
        ("address", _) => Err("this is no address"),
        ("token", Identity::Token { trust: Trust::Verified(rules), .. }) if !value.is_empty() => {
            let issuer = given("issuer").or_else(|| rules.issuer.clone()).unwrap_or_default();
            let claim = given("claim").or_else(|| rules.claims.first().cloned()).unwrap_or_default();
            Ok(name::of_claim(&issuer, &claim, &value))
        }
        ("token", _) => Err("no callers are known by a verified token here"),
        _ => Err("there are callers by address and by token"),
    }
}

/// How a caller stands, as people read it.
fn shown(state: &State, now: u64) -> serde_json::Value {
    let quotas = state.quotas.iter().map(|usage| {
        let ms = whole_ms(usage.ends_at().saturating_sub(now));
        json!({ "tool": usage.tool, "window": usage.window, "calls": usage.calls, "resetMs": ms })
    });
    let tools: serde_json::Map<String, serde_json::Value> =
        state.tools.iter().map(|(tool, debt)| (tool.clone(), json!({ "owed": tokens(*debt) }))).collect();
    json!({
        "owed": tokens(state.debt),
        "tools": tools,
        "quotas": quotas.collect::<Vec<_>>(),
        "running": state.running,
        "override": state.held.map(|held| order::shown(&held, now)),
    })
}
