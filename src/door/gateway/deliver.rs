//! What came back from the server behind, on its way to the client.

use super::prepare::Batch;
use super::{finished, outcome, Gateway};
use crate::door::reply::{HttpAnswer, Reply, JSON};
use crate::door::told::Told;
use crate::mcp::reply::Response as RpcResponse;
use crate::mcp::sse;
use crate::upstream::client::{Answer, Lost};
use crate::upstream::headers::come_back;
use crate::upstream::passing::messages;
use crate::upstream::relay::{self, Gathered};
use crate::upstream::watch::{failed, Expected, Watch};
use serde::de::IgnoredAny;
use std::any::Any;
use worker::{Response, ResponseBody, Result};

impl Gateway<'_> {
    /// 7. the door: what came back, as the client is told, after `ours`. What is `kept` is dropped when it has gone.
    pub(super) async fn deliver(
        &self,
        sent: std::result::Result<Answer, Lost>,
        ours: Vec<RpcResponse>,
        expected: Vec<Expected>,
        batch: &Batch<'_>,
        told: &Told,
        kept: impl Any,
    ) -> Result<HttpAnswer> {
        let mut answer = match sent {
            Ok(answer) => answer,
            Err(lost) => {
                let text = outcome::lost_call(lost);
                let failed = expected.into_iter().map(|expected| failed(expected, &text));
                return self.tell_all(ours.into_iter().chain(failed).collect(), batch, told).await;
            }
        };
        let mut headers = come_back(&answer.headers, &self.upstream.auth);
        headers.extend(told.fields().into_iter().map(|(name, value)| (name.to_owned(), value)));
        self.hear_cors(&mut headers);
        let nothing_expected = expected.is_empty();
        let caller = batch.caller.key.name().to_owned();
        let mut watch = Watch::new(expected, batch.credential, caller, kept);
        let broken = match answer.media_type().as_str() {
            _ if nothing_expected && !ours.is_empty() => return self.tell_all(ours, batch, told).await,
            _ if answer.is_bodiless() => outcome::no_answer(&answer),
            sse::MEDIA_TYPE => {
                let first = ours.iter().filter_map(|response| serde_json::to_string(response).ok());
                let first: Vec<String> = first.collect();
                return finished(relay::events(&mut answer, &first, watch, true)?, answer.status, &headers);
            }
            JSON => match relay::gather(&mut answer, self.upstream.timeout_ms).await {
                Gathered::Whole(whole) => {
                    messages(&whole).into_iter().for_each(|message| watch.saw(message));
                    // What has all answers has been read to its end.
                    if !watch.is_complete() && serde_json::from_slice::<IgnoredAny>(&whole).is_err() {
                        let failed = watch.ended_early(relay::ENDED_EARLY);
                        return self.tell_all(ours.into_iter().chain(failed).collect(), batch, told).await;
                    }
                    let is_answer = watch.is_complete()
                        || !(200..300).contains(&answer.status)
                        || outcome::is_nameless_error(&whole);
                    if !is_answer && !batch.in_batch {
                        let failed = watch.ended_early(&outcome::no_answer(&answer));
                        return self.tell_all(failed, batch, told).await;
                    }
                    let missing = if is_answer { Vec::new() } else { watch.ended_early(&outcome::no_answer(&answer)) };
                    let ours: Vec<RpcResponse> = ours.into_iter().chain(missing).collect();
                    let whole = if ours.is_empty() { Some(whole) } else { outcome::together(&ours, &whole) };
                    let body = whole.map_or(ResponseBody::Empty, ResponseBody::Body);
                    return finished(Response::from_body(body)?, answer.status, &headers);
                }
                Gathered::Beginning(gathered, rest) if ours.is_empty() => {
                    watch.saw_something();
                    return finished(relay::rest(gathered, rest, watch)?, answer.status, &headers);
                }
                Gathered::Beginning(..) => "The server behind answered more than can be put together.".to_owned(),
                Gathered::Broken => relay::ENDED_EARLY.to_owned(),
            },
            _ if (400..500).contains(&answer.status) && ours.is_empty() => {
                return finished(relay::unseen_with(&mut answer, watch)?, answer.status, &headers);
            }
            _ => outcome::no_answer(&answer),
        };
        answer.discard();
        let failed = watch.ended_early(&broken);
        self.tell_all(ours.into_iter().chain(failed).collect(), batch, told).await
    }

    /// An answer of our own, with what limits the caller.
    pub(super) async fn tell_all(
        &self,
        responses: Vec<RpcResponse>,
        batch: &Batch<'_>,
        told: &Told,
    ) -> Result<HttpAnswer> {
        let reply = match (responses.first(), batch.in_batch) {
            (None, _) => Reply::empty(202),
            (Some(first), false) => Reply::rpc(first),
            (Some(_), true) => Reply::json(told.batch_status(), &responses),
        };
        self.tell(told.tell_limits(reply)).await
    }
}
