//! Calls of the tools of the server behind: admitted and sent on, or refused.

use super::judge::{Part, Post};
use super::prepare::{Batch, Ready, ReadyCall};
use super::Gateway;
use crate::config::RefusalForm;
use crate::door::afterwards;
use crate::door::media;
use crate::door::meter::{Admitted, Meter, Metered, Occasion, Wanted};
use crate::door::refuse::Refused;
use crate::door::reply::{HttpAnswer, Reply};
use crate::door::run::hold_until;
use crate::door::told::Told;
use crate::limiter::admit::forget;
use crate::limiter::policy::whole_ms;
use crate::mcp::reply::{Response as RpcResponse, RpcError};
use crate::refusal::{AllowanceKind, Reason, Refusal};
use crate::stats::flow::send_when;
use crate::upstream::client::Outgoing;
use crate::upstream::credential::Credential;
use crate::upstream::patience::{send, Fault, Patience};
use crate::upstream::watch::Expected;
use serde_json::value::RawValue;
use worker::Result;

impl Gateway<'_> {
    /// Answers a POST with calls in it.
    pub(super) async fn calls(&self, post: Post, body: Vec<u8>) -> Result<HttpAnswer> {
        if self.header("accept").is_some_and(|accept| !media::takes_json_or_events(&accept)) {
            let error = RpcError::unacceptable(406, "the answer is application/json or text/event-stream");
            return self.tell(Reply::rpc(&RpcResponse::without_id(error))).await;
        }
        let in_batch = post.in_batch;
        let id = post.parts.first().and_then(Part::id).filter(|_| !in_batch);
        let caller = match self.caller(id).await {
            Ok(caller) => caller,
            Err(refused) => return self.tell(refused).await,
        };
        let outgoing = self.outgoing("POST", "/mcp", None);
        let credential = Credential::of(&outgoing.headers);
        let batch = Batch { caller: &caller, outgoing, credential, in_batch };
        let ready = self.prepare(post, &batch).await;
        let calls: Vec<Wanted<'_>> = ready.iter().filter_map(Ready::wanted).collect();
        let session = self.header("mcp-session-id");
        let occasion = Occasion { caller: &caller, in_batch, session: session.as_deref(), may_go_back: true };
        let refusal = self.refused_before(&calls, &batch);
        let form = self.meter.config.refusal;
        // About no calls nobody is asked; what limits the caller is told all the same.
        let metered = self.meter.meter(if refusal.is_some() { &[] } else { &calls }, occasion).await;
        let metered = match refusal {
            Some(refusal) => Metered { verdict: Err(refusal), ..metered },
            None => metered,
        };
        let told = Told::new(&metered, form);
        if calls.is_empty() {
            return self.send_rest(&ready, &body, &batch, &told, |_| None).await;
        }
        match metered.verdict {
            Ok(admitted) => self.send_all(&ready, body, &batch, &told, admitted).await,
            Err(refusal) => {
                let left = metered.standing.as_ref().map(|standing| standing.nearest);
                let refused = Refused { refusal, form, caller: &caller.key, left };
                self.refuse(&ready, &body, &batch, &told, &refused).await
            }
        }
    }

    /// Refuses the calls. The rest goes on, unless the whole POST is refused as HTTP.
    async fn refuse(
        &self,
        ready: &[Ready],
        body: &[u8],
        batch: &Batch<'_>,
        told: &Told,
        refused: &Refused<'_>,
    ) -> Result<HttpAnswer> {
        if refused.form == RefusalForm::Result {
            return self.send_rest(ready, body, batch, told, |call| Some(call.refused(refused))).await;
        }
        self.tell_all(refuse_all(ready, refused), batch, told).await
    }

    /// Sends on what is no call; the calls are answered by `instead`.
    async fn send_rest(
        &self,
        ready: &[Ready],
        body: &[u8],
        batch: &Batch<'_>,
        told: &Told,
        instead: impl Fn(&ReadyCall) -> Option<RpcResponse>,
    ) -> Result<HttpAnswer> {
        let ours: Vec<RpcResponse> = ready.iter().filter_map(|ready| ready.answer(&instead)).collect();
        let passes: Vec<bool> = ready.iter().map(|ready| matches!(ready, Ready::Passes(_))).collect();
        if !passes.contains(&true) {
            return self.tell_all(ours, batch, told).await;
        }
        let expected: Vec<Expected> = ready.iter().filter_map(Ready::passing).collect();
        let outgoing = Outgoing { body: picked(body, &passes), ..batch.outgoing.clone() };
        let sent = self.client.send(&outgoing).await;
        self.deliver(sent, ours, expected, batch, told, ()).await
    }

    /// 6. tools: have the server behind run them, each call no sooner than its turn.
    async fn send_all(
        &self,
        ready: &[Ready],
        body: Vec<u8>,
        batch: &Batch<'_>,
        told: &Told,
        admitted: Admitted,
    ) -> Result<HttpAnswer> {
        let Admitted { turns, leases, returns, .. } = admitted;
        let Meter { env, context, config, .. } = self.meter;
        let turn = turns.iter().flat_map(|(_, turns)| turns).max().copied().unwrap_or_default();
        let unsent = afterwards::give_back_unsent(env, context, returns.clone());
        let held_us = hold_until(turn).await;
        let ours: Vec<RpcResponse> = ready.iter().filter_map(|ready| ready.answer(&|_| None)).collect();
        let goes_on: Vec<bool> = ready.iter().map(|ready| !matches!(ready, Ready::Answered(_))).collect();
        // What is sent on is what was judged: to the byte, where nothing had to be taken out.
        let body = if goes_on.contains(&false) { picked(&body, &goes_on) } else { Some(body) };
        let outgoing = Outgoing { body, ..batch.outgoing.clone() };
        let is_repeatable = ready.iter().all(|ready| matches!(ready, Ready::Call(call) if call.is_repeatable));
        let most_us = config.max_wait_ms.saturating_mul(1_000);
        let patience = Patience { is_repeatable, left_us: most_us.saturating_sub(held_us) };
        unsent.sent();
        let sent = match send(&self.client, &outgoing, batch.credential, patience).await {
            Ok(answer) => Ok(answer),
            Err(Fault::Lost(lost)) => Err(lost),
            // Nothing was done.
            Err(fault) => {
                drop(leases);
                afterwards::give_back(env, context, returns);
                forget(batch.caller.key.name());
                let pause = match fault {
                    Fault::Pause(pause) => pause,
                    // The client has gone, and hears nothing of it.
                    Fault::NeverSent | Fault::Lost(_) => 0,
                };
                return self.paused(ready, batch, told, pause).await;
            }
        };
        let expected: Vec<Expected> = ready.iter().filter_map(Ready::expected).collect();
        let counted = send_when(env, context);
        self.deliver(sent, ours, expected, batch, told, (leases, counted)).await
    }

    /// The server behind wants a pause of so many microseconds, and has done nothing. What was charged is on its way back, so what is
    /// left isn't known.
    async fn paused(&self, ready: &[Ready], batch: &Batch<'_>, told: &Told, pause: u64) -> Result<HttpAnswer> {
        let tool = ready.iter().find_map(Ready::wanted).map_or("", |call| call.tool);
        let reason = Reason::Upstream { retry_after_ms: whole_ms(pause) };
        let refusal = Refusal { reason, allowance: AllowanceKind::Upstream, tool, in_batch: batch.in_batch };
        let form = self.meter.config.refusal;
        let refused = Refused { refusal, form, caller: &batch.caller.key, left: None };
        let told = told.without_standing().with_refusal(&refusal, form);
        self.tell_all(refuse_all(ready, &refused), batch, &told).await
    }
}

/// The messages of a batch that go on, as they were written. None when nothing is left.
fn picked(body: &[u8], goes_on: &[bool]) -> Option<Vec<u8>> {
    let messages: Vec<&RawValue> = serde_json::from_slice(body).ok()?;
    let picked = messages.into_iter().zip(goes_on).filter(|(_, goes_on)| **goes_on).map(|(message, _)| message);
    serde_json::to_vec(&picked.collect::<Vec<_>>()).ok()
}

/// What everything in a POST is told when all of it is refused.
fn refuse_all(ready: &[Ready], refused: &Refused<'_>) -> Vec<RpcResponse> {
    let responses = ready.iter().filter_map(|ready| match ready {
        Ready::Call(call) => Some(call.refused(refused)),
        Ready::Answered(response) => Some(refused.other(response.clone())),
        Ready::Passes(expected) => {
            Some(RpcResponse::new(expected.as_ref()?.id.clone(), Err(refused.refusal.to_rpc_error())))
        }
    });
    responses.collect()
}
