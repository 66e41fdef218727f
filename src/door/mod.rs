//! HTTP in and out: the only place where a client's request is read and its answer made.
//!
//! `mod.rs` knows the paths, `media.rs` and `body.rs` what can be taken, `exchange.rs` leads the messages of one POST
//! to their answers, each of them an `entry.rs`. `meter.rs` has the calls among them admitted, with `subject.rs` for what holds
//! for their caller and `verdict.rs` to say why not; `run.rs` runs them, or `refuse.rs` answers in their place. `told.rs` is what
//! header fields tell of it, and `afterwards.rs` is done when the answer has gone. `gateway/` leads to a server behind where there
//! is one. `challenge.rs` answers those whose sender isn't known, `flood.rs` those who send too much. `pages.rs` is what is read
//! with GET, `admin.rs` what the operator asks, `environment.rs` makes the configuration. `incoming.rs` is the request, `head.rs` the text
//! in which its head comes, `reply.rs` the response.

mod admin;
mod afterwards;
mod body;
mod challenge;
mod entry;
mod environment;
mod exchange;
mod flood;
mod gateway;
mod head;
mod incoming;
mod media;
mod meter;
mod pages;
mod refuse;
mod reply;
mod run;
mod subject;
mod told;
mod verdict;

use crate::config::upstream::Upstream;
use crate::config::{Config, Fault};
use crate::mcp::reply::{Response as RpcResponse, RpcError};
use exchange::Exchange;
use incoming::Incoming;
use meter::Meter;
use reply::{HttpAnswer, Reply};
use worker::{console_error, web_sys, Context, Env};

/// Methods of the MCP endpoint; whatever else is asked of it is answered with 405, which clients that try for a
/// stream expect.
const MCP_METHODS: &str = "POST, OPTIONS";

/// Methods of the pages.
const PAGE_METHODS: &str = "GET, HEAD, OPTIONS";

/// Answers one HTTP request. The numbered steps are those of one tool call:
///
/// 1. the door: path, Origin, method, content type, size
/// 2. mcp: bytes -> messages, and by which revision each is served
/// 3. caller: who is calling
/// 4. tools: is there such a tool, do the arguments fit
/// 5. limiter: may it run
/// 6. tools: run it
/// 7. the door: the reply, with what is left
/// 8. stats: counted, and sent on after the answer has gone
///
/// Steps 2 and 3 are in `exchange.rs`, 4 in `entry.rs`, 5 in `meter.rs`, 6 and the counting in `run.rs`, 7 in `told.rs`; where there is a
/// server behind, 2 is in `gateway/judge.rs`, 4 in `gateway/prepare.rs`, 6 in `gateway/calls.rs`, and 7 in `gateway/deliver.rs`.
pub async fn answer(head: String, request: web_sys::Request, env: Env, context: Context) -> HttpAnswer {
    let request = Incoming::new(head, request);
    let config = environment::config(&env);
    let (path, url) = (request.head.path(), request.head.url());
    if let Some((config, upstream)) = behind(&config).filter(|(config, _)| gateway::leads_on(path, config)) {
        let response = gateway::answer(&request, (config, upstream), (&env, &context)).await;
        crate::stats::flow::send_later(&env, &context);
        return response.unwrap_or_else(|error| failed(&error.to_string()));
    }
    let methods = match path {
        "/mcp" => MCP_METHODS,
        "/limits" | "/stats" | "/metrics" | "/healthz" | challenge::RESOURCE_PATH => PAGE_METHODS,
        path if path.starts_with(admin::PATH) => admin::METHODS,
        _ => return Reply::empty(404).into_answer(&[]),
    };
    let config = match config.as_ref() {
        Ok(config) => config,
        Err(fault) if path == "/healthz" => return pages::unhealthy(&fault.to_string()).into_answer(&[]),
        Err(fault) => {
            let error = RpcError::internal(&format!("The server is configured wrongly. {fault}"));
            return Reply::rpc(&RpcResponse::without_id(error)).into_answer(&[]);
        }
    };
    let origin = request.header("origin");
    // Where tokens are to be had may be read from anywhere: a page needs it before it can be let in.
    let is_open = path == challenge::RESOURCE_PATH;
    if !is_open && origin.as_deref().is_some_and(|origin| !config.origins.allow(origin, url)) {
        return Reply::empty(403).into_answer(&[]);
    }
    let reply = match (request.head.method(), path) {
        ("OPTIONS", _) => reply::preflight(&request, methods),
        ("POST", "/mcp") => {
            let reply = post(&request, config, &env, &context).await;
            crate::stats::flow::send_later(&env, &context);
            reply
        }
        ("GET" | "HEAD", "/healthz") => pages::healthy(),
        ("GET" | "HEAD", "/limits") => pages::limits(config),
        ("GET" | "HEAD", challenge::RESOURCE_PATH) => challenge::document(config, url),
        ("GET" | "HEAD", "/stats" | "/metrics") => pages::counted(&request, config, &env).await,
        (_, path) if path.starts_with(admin::PATH) => admin::answer(&request, config, &env).await,
        _ => Reply::empty(405).with("allow", methods),
    };
    reply.into_answer(&reply::cors(origin.as_deref(), methods))
}

/// The server behind, where there is one.
fn behind(config: &std::result::Result<Config, Fault>) -> Option<(&Config, &Upstream)> {
    let config = config.as_ref().ok()?;
    config.upstream.as_ref().map(|upstream| (config, upstream))
}

/// The answer to what should be answered and can't be.
fn failed(cause: &str) -> HttpAnswer {
    console_error!("{}", serde_json::json!({ "event": "reply_failure", "cause": cause }));
    Reply::empty(500).into_answer(&[])
}

/// One POST to the endpoint, from its headers on.
async fn post(request: &Incoming, config: &Config, env: &Env, context: &Context) -> Reply {
    let header = |name: &str| request.header(name);
    if let Some(reply) = flood::refusal(env, &header, config.limiter_timeout_ms).await {
        return reply;
    }
    if let Err(reply) = media::check(&header) {
        body::leave(request).await;
        return reply;
    }
    let body = match body::read(request, config.max_request_body).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let meter = Meter { config, env, context, request };
    Exchange { meter, url: request.head.url(), header: &header }.answer(&body).await
}
