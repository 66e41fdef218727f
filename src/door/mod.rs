//! HTTP in and out: the only place where a client's request is read and its answer made.
//!
//! `mod.rs` knows the paths, `media.rs` and `body.rs` what can be taken, `exchange.rs` leads the messages of one POST
//! to their answers, each of them an `entry.rs`, and `meter.rs` has the calls among them admitted and run, with `subject.rs` for
//! what holds for their caller, `verdict.rs` to say why not, and `afterwards.rs` for what is done when the answer has gone.
//! `challenge.rs` answers those whose sender isn't known, `flood.rs` those who send too much. `pages.rs` is what is read with GET,
//! `admin.rs` what the operator asks, `environment.rs` makes the configuration, `reply.rs` the HTTP response.

mod admin;
mod afterwards;
mod body;
mod challenge;
mod entry;
mod environment;
mod exchange;
mod flood;
mod media;
mod meter;
mod pages;
mod reply;
mod subject;
mod verdict;

use crate::config::Config;
use crate::mcp::reply::{Response as RpcResponse, RpcError};
use exchange::Exchange;
use meter::Meter;
use reply::Reply;
use worker::{console_error, Context, Env, Headers, Method, Request, Response, Result};

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
/// Steps 2, 3 and 7 are in `exchange.rs`, 4 in `entry.rs`, 5, 6 and the counting in `meter.rs`.
pub async fn answer(mut request: Request, env: Env, context: Context) -> Result<Response> {
    let path = request.path();
    let methods = match path.as_str() {
        "/mcp" => MCP_METHODS,
        "/limits" | "/stats" | "/metrics" | "/healthz" | challenge::RESOURCE_PATH => PAGE_METHODS,
        path if path.starts_with(admin::PATH) => admin::METHODS,
        _ => return Reply::empty(404).into_response(None, ""),
    };
    let config = environment::config(&env);
    let config = match config.as_ref() {
        Ok(config) => config,
        Err(fault) if path == "/healthz" => return pages::unhealthy(&fault.to_string()).into_response(None, methods),
        Err(fault) => {
            let error = RpcError::internal(&format!("The server is configured wrongly. {fault}"));
            return Reply::rpc(&RpcResponse::without_id(error)).into_response(None, methods);
        }
    };
    let origin = header(request.headers(), "origin");
    let url = request.inner().url();
    // Where tokens are to be had may be read from anywhere: a page needs it before it can be let in.
    let is_open = path == challenge::RESOURCE_PATH;
    if !is_open && origin.as_deref().is_some_and(|origin| !config.origins.allow(origin, &url)) {
        return Reply::empty(403).into_response(None, methods);
    }
    let reply = match (request.method(), path.as_str()) {
        (Method::Options, _) => reply::preflight(request.headers(), methods),
        (Method::Post, "/mcp") => {
            let reply = post(&mut request, config, &env, &context, &url).await;
            crate::stats::flow::send_later(&env, &context);
            reply
        }
        (Method::Get | Method::Head, "/healthz") => pages::healthy(),
        (Method::Get | Method::Head, "/limits") => pages::limits(config),
        (Method::Get | Method::Head, challenge::RESOURCE_PATH) => challenge::document(config, &url),
        (Method::Get | Method::Head, "/stats" | "/metrics") => {
            pages::counted(&path, request.headers(), config, &env).await
        }
        (_, path) if path.starts_with(admin::PATH) => admin::answer(&mut request, config, &env).await,
        _ => Reply::empty(405).with("allow", methods),
    };
    reply.into_response(origin.as_deref(), methods).or_else(|error| {
        console_error!("{}", serde_json::json!({ "event": "reply_failure", "cause": error.to_string() }));
        Response::error("", 500)
    })
}

/// One POST to the endpoint, from its headers on.
async fn post(request: &mut Request, config: &Config, env: &Env, context: &Context, url: &str) -> Reply {
    let headers = request.headers();
    if let Some(reply) = flood::refusal(env, &|name| header(headers, name)).await {
        return reply;
    }
    if let Err(reply) = media::check(&|name| header(headers, name)) {
        return reply;
    }
    let body = match body::read(request, config.max_request_body).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let headers = request.headers();
    let client = request.inner().signal();
    let meter = Meter { config, env, context, client };
    Exchange { meter, url, header: &|name| header(headers, name) }.answer(&body).await
}

/// A header's value. Those that came more than once are joined by commas.
fn header(headers: &Headers, name: &str) -> Option<String> {
    headers.get(name).ok().flatten()
}
