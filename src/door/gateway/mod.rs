//! The gateway: what comes for the server behind goes on to it as it is, but for calls of tools, which are metered first.
//!
//! `judge.rs` tells calls from the rest, `prepare.rs` holds them against the tools that there are, `calls.rs` has them admitted and
//! sent on, `deliver.rs` leads what comes back to the client, and `outcome.rs` has the words for it. Everything else passes here.

mod calls;
mod deliver;
mod judge;
mod outcome;
mod prepare;

use super::body;
use super::challenge;
use super::flood;
use super::incoming::Incoming;
use super::media;
use super::meter::Meter;
use super::reply::{HttpAnswer, Reply, JSON};
use crate::caller::address;
use crate::caller::identify::identify;
use crate::caller::Caller;
use crate::config::upstream::{Auth, Upstream, BINDING};
use crate::config::Config;
use crate::mcp::id::Id;
use crate::mcp::reply::{Response as RpcResponse, RpcError};
use crate::mcp::sse;
use crate::upstream::client::{Client, Outgoing};
use crate::upstream::cors::{expose, Cors};
use crate::upstream::credential::Credential;
use crate::upstream::headers::{come_back, sent_on, Pairs};
use crate::upstream::passing::messages;
use crate::upstream::patience::hear_pause;
use crate::upstream::relay;
use crate::upstream::watch::{Asks, Expected, Watch};
use std::cell::RefCell;
use url::Url;
use worker::{Context, Env, Headers, Response, ResponseBody, Result};

/// Where the server behind has documents about itself and about tokens (RFC 8615).
pub const WELL_KNOWN: &str = "/.well-known/";

/// How long the server behind may take to say what a browser page may do, in milliseconds: a refusal waits for it.
const CORS_TIMEOUT_MS: u32 = 2_000;

thread_local! {
    static CORS: RefCell<Cors> = RefCell::default();
}

/// One HTTP request for the server behind.
pub struct Gateway<'a> {
    meter: Meter<'a>,
    upstream: &'a Upstream,
    /// Where the request was sent to.
    own: Url,
    client: Client,
}

/// Whether a path is the server's behind. Its documents are our own once we say where tokens are to be had.
pub fn leads_on(path: &str, config: &Config) -> bool {
    path == "/mcp" || path.starts_with(WELL_KNOWN) && config.authorization_servers.is_empty()
}

/// Answers a request for the server behind.
pub async fn answer(
    request: &Incoming,
    (config, upstream): (&Config, &Upstream),
    (env, context): (&Env, &Context),
) -> Result<HttpAnswer> {
    let client = Client {
        binding: if upstream.is_bound { Some(env.service(BINDING)?) } else { None },
        timeout_ms: upstream.timeout_ms,
        signal: Some(request.signal()),
    };
    // The runtime gives no address that isn't one.
    let own = Url::parse(request.head.url())?;
    let meter = Meter { config, env, context, request };
    let gateway = Gateway { meter, upstream, own, client };
    gateway.answer(request).await
}

impl Gateway<'_> {
    async fn answer(&self, request: &Incoming) -> Result<HttpAnswer> {
        let (method, path) = (request.head.method(), request.head.path());
        match (method, path) {
            ("POST", "/mcp") => self.post(request).await,
            // A page asks before it has a token.
            ("OPTIONS", _) if path == "/mcp" || is_document(path) => {
                self.pass(method, path, None, Vec::new(), "").await
            }
            ("GET" | "HEAD" | "DELETE", "/mcp") => match self.known_caller(None).await {
                Ok(_) => self.pass(method, path, None, Vec::new(), "").await,
                Err(refused) => self.tell(refused).await,
            },
            ("GET" | "HEAD", _) if is_document(path) => self.pass(method, path, None, Vec::new(), "").await,
            ("GET" | "HEAD", _) => self.tell(Reply::empty(404)).await,
            _ => self.tell(Reply::empty(405).with("allow", "GET, POST, DELETE, OPTIONS")).await,
        }
    }

    /// One POST to the endpoint, from its headers on.
    async fn post(&self, request: &Incoming) -> Result<HttpAnswer> {
        let header = |name: &str| self.header(name);
        if let Some(reply) = flood::refusal(self.meter.env, &header, self.meter.config.limiter_timeout_ms).await {
            // Nothing is asked of the server behind for a flood.
            return Ok(reply.into_answer(&[]));
        }
        if let Err(reply) = media::check_body(&header) {
            body::leave(request).await;
            return self.tell(reply).await;
        }
        let body = match body::read(request, self.meter.config.max_request_body).await {
            Ok(body) => body,
            Err(reply) => return self.tell(reply).await,
        };
        let mut post = match judge::judge(&body, self.meter.config.max_batch, &header) {
            Ok(post) => post,
            Err(response) => return self.tell(Reply::rpc(&response)).await,
        };
        if post.has_calls() {
            return self.calls(post, body).await;
        }
        let expected: Vec<Expected> = post.parts.drain(..).filter_map(judge::Part::expected).collect();
        let id = expected.first().map(|expected| expected.id.clone()).filter(|_| !post.in_batch);
        let caller = match self.known_caller(id.as_ref()).await {
            Ok(caller) => caller,
            Err(refused) => return self.tell(refused).await,
        };
        self.pass("POST", "/mcp", Some(body), expected, &caller).await
    }

    /// The name of the caller, where Sluice verifies tokens: what stands behind it takes them for good then. Elsewhere it is the server
    /// behind that lets in or not, and only calls need a name.
    async fn known_caller(&self, id: Option<&Id>) -> std::result::Result<String, Reply> {
        if !self.meter.config.identity.is_verified() {
            // A list may depend on it, and never fails for want of it.
            return Ok(self.caller(id).await.map_or_else(|_| String::new(), |caller| caller.key.name().to_owned()));
        }
        self.caller(id).await.map(|caller| caller.key.name().to_owned())
    }

    /// 3. caller: who is calling; or what they are told when that isn't known.
    async fn caller(&self, id: Option<&Id>) -> std::result::Result<Caller, Reply> {
        let Meter { config, context, .. } = self.meter;
        let caller = identify(&config.identity, &|name| self.header(name), context).await;
        caller.map_err(|why| challenge::refusal(why, id.cloned(), config, self.own.as_str()))
    }

    /// Sends on what isn't metered, and has the answer pass. A stream of events is watched for news of the tools, and so is the answer
    /// to a request for them.
    async fn pass(
        &self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
        expected: Vec<Expected>,
        caller: &str,
    ) -> Result<HttpAnswer> {
        let outgoing = self.outgoing(method, path, body);
        let credential = Credential::of(&outgoing.headers);
        let id = expected.first().map(|expected| expected.id.clone());
        let mut answer = match self.client.send(&outgoing).await {
            Ok(answer) => answer,
            Err(lost) => {
                let (status, text) = outcome::lost(lost);
                let error = RpcError { status, ..RpcError::internal(text) };
                return self.tell(Reply::rpc(&RpcResponse { id, outcome: Err(error) })).await;
            }
        };
        if method == "POST" && matches!(answer.status, 429 | 503) {
            hear_pause(&outgoing, credential, &answer);
        }
        let mut headers = come_back(&answer.headers, &self.upstream.auth);
        if path == "/mcp" {
            self.hear_cors(&mut headers);
        }
        let lists = expected.iter().any(|expected| matches!(expected.asks, Asks::List(_)));
        let mut watch = Watch::new(expected, credential, caller.to_owned(), ());
        let is_stream = answer.media_type() == sse::MEDIA_TYPE;
        let response = if answer.is_bodiless() {
            Response::empty()?
        } else if is_stream && method != "HEAD" {
            relay::events(&mut answer, &[], watch, false)?
        } else if lists && answer.media_type() == JSON {
            match relay::gather(&mut answer, self.upstream.timeout_ms).await {
                relay::Gathered::Whole(whole) => {
                    messages(&whole).into_iter().for_each(|message| watch.saw(message));
                    Response::from_body(ResponseBody::Body(whole))?
                }
                relay::Gathered::Beginning(gathered, rest) => relay::rest(gathered, rest, ())?,
                relay::Gathered::Broken => {
                    let error = RpcError { status: 502, ..RpcError::internal(relay::ENDED_EARLY) };
                    return self.tell(Reply::rpc(&RpcResponse { id, outcome: Err(error) })).await;
                }
            }
        } else {
            Response::from_body(relay::unseen(&answer))?
        };
        finished(response, answer.status, &headers)
    }

    /// A request to the server behind. Nothing that the client sends changes where it goes.
    fn outgoing(&self, method: &str, path: &str, body: Option<Vec<u8>>) -> Outgoing {
        let mut url = self.upstream.url.clone();
        if path.starts_with(WELL_KNOWN) {
            url.set_path(path);
            url.set_query(None);
        }
        let host = self.own.host_str().unwrap_or_default();
        let host = self.own.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let address = self.header(address::ADDRESS_HEADER);
        let who = (self.own.scheme(), host.as_str());
        // Documents that everybody may read need no secret of ours.
        let auth = match &self.upstream.auth {
            Auth::Token(_) if path != "/mcp" => &Auth::None,
            auth => auth,
        };
        let headers = sent_on(&self.meter.request.headers(), auth, address.as_deref(), who);
        Outgoing { method: method.to_owned(), url, headers, body }
    }

    /// An answer of our own, as the server behind would give it: to the same browser pages, in a form that the client takes.
    async fn tell(&self, reply: Reply) -> Result<HttpAnswer> {
        let takes_events_only = self.header("accept").is_some_and(|accept| media::takes_events_only(&accept));
        let reply = if takes_events_only { reply.into_event() } else { reply };
        let mut cors = match self.header("origin") {
            Some(origin) => self.cors_of(&origin).await,
            None => Pairs::new(),
        };
        expose(&mut cors);
        Ok(reply.into_answer(&cors))
    }

    /// What the server behind lets a browser page of this origin do. When that isn't known it is asked as the page's browser would.
    async fn cors_of(&self, origin: &str) -> Pairs {
        if let Some(known) = CORS.with_borrow(|cors| cors.of(origin).cloned()) {
            return known;
        }
        let mut outgoing = self.outgoing("OPTIONS", "/mcp", None);
        outgoing.headers = vec![
            ("origin".to_owned(), origin.to_owned()),
            ("access-control-request-method".to_owned(), "POST".to_owned()),
            ("access-control-request-headers".to_owned(), "content-type".to_owned()),
        ];
        let client = Client { timeout_ms: CORS_TIMEOUT_MS.min(self.client.timeout_ms), ..self.client.clone() };
        let told = match client.send(&outgoing).await {
            Ok(answer) => {
                let told = answer.headers.clone();
                answer.discard();
                told
            }
            // It isn't asked again for each refusal.
            Err(_) => Pairs::new(),
        };
        CORS.with_borrow_mut(|cors| cors.hear(origin, &told));
        CORS.with_borrow(|cors| cors.of(origin).cloned()).unwrap_or_default()
    }

    fn hear_cors(&self, headers: &mut Pairs) {
        if let Some(origin) = self.header("origin") {
            CORS.with_borrow_mut(|cors| cors.hear(&origin, headers));
        }
        expose(headers);
    }

    fn header(&self, name: &str) -> Option<String> {
        self.meter.request.header(name)
    }
}

/// Whether a path, as whoever stands behind will read it, is one of the documents of the server: one with dots in it, however they are
/// written, or with parameters, which some take away before they look at the dots, could be anything.
fn is_document(path: &str) -> bool {
    path.strip_prefix(WELL_KNOWN).is_some_and(|rest| {
        !rest.is_empty() && !rest.contains(['%', '\\', ';']) && !rest.split('/').any(|segment| segment.starts_with('.'))
    })
}

/// A response with the status and the headers of the server behind.
fn finished(response: Response, status: u16, pairs: &Pairs) -> Result<HttpAnswer> {
    let headers = Headers::new();
    for (name, value) in pairs {
        headers.append(name, value)?;
    }
    Ok(HttpAnswer::Response(response.with_headers(headers).with_status(status).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_could_lead_elsewhere_is_no_document() {
        for path in ["oauth-protected-resource/mcp", "any", "a.json", "/evil.example/x"] {
            assert!(is_document(&format!("{WELL_KNOWN}{path}")), "{path}");
        }
        for path in ["..;/admin", ".;/x", "a/..;x", "a;b", ".hidden", "a/../../b", "%2e%2e/a", "a\\b", ""] {
            assert!(!is_document(&format!("{WELL_KNOWN}{path}")), "{path}");
        }
        assert!(!is_document("/mcp") && !is_document("/.well-known"));
    }
}
