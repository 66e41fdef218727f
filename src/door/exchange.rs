//! The messages of one POST, led to their answers: a call by itself and a batch alike.

use super::challenge;
use super::entry::Entry;
use super::meter::{Meter, Occasion, Wanted};
use super::refuse::Refused;
use super::reply::Reply;
use super::run::run;
use super::told::Told;
use crate::caller::identify::identify;
use crate::caller::Caller;
use crate::mcp::headers::{trimmed, Header};
use crate::mcp::id::Id;
use crate::mcp::message::{self, Body, Message, Request};
use crate::mcp::reply::{Response, RpcError};
use crate::mcp::revision::{self, Revision, VERSION_HEADER};
use std::rc::Rc;

/// What it takes to answer a POST where the tools are the server's own.
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
        let version = version.as_deref().map(trimmed);
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
        let (responses, metered) = self.all(vec![entry], false, &caller).await;
        let reply = responses.first().map_or_else(|| Reply::empty(202), Reply::rpc);
        if is_call {
            return metered.tell_limits(reply);
        }
        reply
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
        let (responses, metered) = self.all(entries.collect(), true, &caller).await;
        let reply = Reply::json(metered.batch_status(), &responses);
        if has_call {
            return metered.tell_limits(reply);
        }
        reply
    }

    /// Answers every entry.
    async fn all(&self, entries: Vec<Entry>, in_batch: bool, caller: &Caller) -> (Vec<Response>, Told) {
        let calls = entries.iter().filter_map(Entry::ready).map(|call| Wanted {
            tool: call.tool.name,
            settings: Rc::clone(&call.settings),
            needs_allowance: call.tool.needs_allowance,
        });
        let occasion = Occasion { caller, in_batch, session: None, may_go_back: false };
        let metered = self.meter.meter(&calls.collect::<Vec<_>>(), occasion).await;
        let told = Told::new(&metered, self.meter.config.refusal);
        let responses = match metered.verdict {
            Ok(admitted) => run(entries, &admitted).await,
            Err(refusal) => {
                let left = metered.standing.as_ref().map(|standing| standing.nearest);
                let refused = Refused { refusal, form: self.meter.config.refusal, caller: &caller.key, left };
                entries.into_iter().map(|entry| refuse(entry, &refused)).collect()
            }
        };
        (responses, told)
    }

    fn prepare(&self, request: Request, revision: Revision) -> Entry {
        Entry::prepare(request, revision, self.meter.config, self.header)
    }
}

fn refuse(entry: Entry, refused: &Refused<'_>) -> Response {
    match entry {
        Entry::Answered(response) => refused.other(response),
        Entry::Call(call) => refused.call(call.id, call.revision, call.tool.name, call.tool.name),
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
