//! The messages of one POST, led to their answers: a call by itself and a batch alike.

use super::challenge;
use super::entry::Entry;
use super::meter::{Meter, Metered};
use super::reply::Reply;
use crate::caller::identify::identify;
use crate::caller::Caller;
use crate::config::RefusalForm;
use crate::mcp::headers::Header;
use crate::mcp::id::Id;
use crate::mcp::message::{self, Body, Message, Request};
use crate::mcp::reply::{Response, RpcError};
use crate::mcp::revision::{self, Revision, VERSION_HEADER};

/// What it takes to answer a POST.
pub struct Exchange<'a> {
    /// How its calls are metered.
    pub meter: Meter<'a>,
    /// Where the request was sent to.
    pub url: &'a str,
    /// The request's headers.
    pub header: Header<'a>,
}

impl Exchange<'_> {
    /// Answers a whole body.
    pub async fn answer(&self, body: &[u8]) -> Reply {
        // 2. mcp: bytes -> messages, and by which revision each is served.
        let version = (self.header)(VERSION_HEADER);
        let version = version.as_deref().map(str::trim);
        match message::parse(body, self.meter.config.max_batch) {
            Err(error) => Reply::rpc(&Response::without_id(error)),
            Ok(Body::One(Message::Notification { .. })) => match self.caller(None).await {
                Ok(_) => Reply::empty(202),
                Err(refused) => refused,
            },
            Ok(Body::One(Message::Response)) => match self.caller(None).await {
                Ok(_) => posted_response(version),
                Err(refused) => refused,
            },
            Ok(Body::One(Message::Request(request))) => match revision::of_request(&request, version) {
                Ok(revision) => self.single(request, revision).await,
                Err(error) => Reply::rpc(&Response::new(request.id, Err(error))),
            },
            Ok(Body::Batch(messages)) => self.batch(messages, version).await,
        }
    }

    /// 3. caller: who is calling; or what they are told, with the id of their request, when that isn't known.
    async fn caller(&self, id: Option<&Id>) -> Result<Caller, Reply> {
        let Meter { config, context, .. } = self.meter;
        let caller = identify(&config.identity, self.header, context).await;
        caller.map_err(|why| challenge::refusal(why, id.cloned(), config, self.url))
    }

    async fn single(&self, request: Request, revision: Revision) -> Reply {
        let caller = match self.caller(Some(&request.id)).await {
            Ok(caller) => caller,
            Err(refused) => return refused,
        };
        let is_call = request.method == "tools/call";
        let entry = self.prepare(request, revision);
        let (responses, metered) = self.meter.meter(vec![entry], false, &caller).await;
        let reply = responses.first().map_or_else(|| Reply::empty(202), Reply::rpc);
        self.with_limits(reply, is_call, &metered)
    }

    async fn batch(&self, messages: Vec<Message>, version: Option<&str>) -> Reply {
        let revision = match revision::of_batch(&messages, version) {
            Ok(revision) => revision,
            Err(error) => return Reply::rpc(&Response::without_id(error)),
        };
        let caller = match self.caller(None).await {
            Ok(caller) => caller,
            Err(refused) => return refused,
        };
        let requests = messages.into_iter().filter_map(|message| match message {
            Message::Request(request) => Some(request),
            Message::Notification { .. } | Message::Response => None,
        });
        let requests: Vec<Request> = requests.collect();
        if requests.is_empty() {
            return Reply::empty(202);
        }
        let has_call = requests.iter().any(|request| request.method == "tools/call");
        let entries = requests.into_iter().map(|request| self.prepare(request, revision));
        let (responses, metered) = self.meter.meter(entries.collect(), true, &caller).await;
        let status = match (&metered.refusal, self.meter.config.refusal) {
            (Some(refusal), RefusalForm::Http) => refusal.http_status(),
            _ => 200,
        };
        self.with_limits(Reply::json(status, &responses), has_call, &metered)
    }

    fn prepare(&self, request: Request, revision: Revision) -> Entry {
        Entry::prepare(request, revision, self.meter.config, self.header)
    }

    /// 7. the door: the reply, with what is left in header fields.
    fn with_limits(&self, mut reply: Reply, is_call: bool, metered: &Metered<'_>) -> Reply {
        if is_call && !metered.policies.is_empty() {
            reply = reply.with("ratelimit-policy", metered.policies.join(", "));
        }
        if let Some(standing) = metered.standing.as_ref().filter(|_| is_call) {
            reply = reply.with("ratelimit", standing.header());
        }
        match metered.refusal.and_then(|refusal| refusal.retry_after_seconds()) {
            Some(seconds) if self.meter.config.refusal == RefusalForm::Http => {
                reply.with("retry-after", seconds.to_string())
            }
            _ => reply,
        }
    }
}

/// A response that a client posts answers a request of ours, and there are none: legacy clients are let off.
fn posted_response(version: Option<&str>) -> Reply {
    if version.and_then(Revision::from_name).is_some_and(Revision::is_modern) {
        let error = RpcError::invalid_request("this server sends no requests, so there is nothing to respond to");
        return Reply::rpc(&Response::without_id(error));
    }
    Reply::empty(202)
}
