//! The calls of one POST, admitted together and run, or refused together.

use super::entry::{Entry, ReadyCall};
use crate::caller::{address, CallerKey};
use crate::config::{Config, Fail, RefusalForm};
use crate::limiter::allowance::Allowance;
use crate::limiter::ask::{admit, Admission, Outcome, Ruling};
use crate::limiter::policy::{whole_ms, TOKEN};
use crate::mcp::headers::Header;
use crate::mcp::reply::Response;
use crate::mcp::tool_result::ToolResult;
use crate::refusal::{AllowanceKind, Reason, Refusal};
use crate::stats::counts::Limited;
use crate::stats::flow::count;
use crate::tools::{Call, Standing};
use futures_util::future::join_all;
use worker::Env;

/// The `_meta` key of what is left.
const ALLOWANCE_KEY: &str = "sluice/allowance";

/// What metering came to.
pub struct Metered {
    /// Why nothing ran, if nothing did.
    pub refusal: Option<Refusal<'static>>,
    /// What is left, where the object told.
    pub allowance: Option<Allowance>,
}

/// Answers every entry. The calls among them cost the sum of their costs, and run only if that is admitted.
pub async fn meter(
    entries: Vec<Entry>,
    in_batch: bool,
    config: &Config,
    env: &Env,
    header: Header<'_>,
) -> (Vec<Response>, Metered) {
    let calls: Vec<&ReadyCall> = entries.iter().filter_map(Entry::ready).collect();
    let cost = calls.iter().fold(0_u64, |sum, call| sum.saturating_add(call.settings.micro_cost()));
    let wants_verdict = cost > 0 || calls.iter().any(|call| call.tool.needs_allowance);
    let (Some(first), Some(policy), true) = (calls.first(), config.policy, wants_verdict) else {
        let standing = if config.policy.is_none() { Standing::Unlimited } else { Standing::Unknown };
        return (run(entries, standing).await, Metered { refusal: None, allowance: None });
    };
    // 3. caller: who is calling. Needed only now that something is to be charged.
    let caller = address::from_header(header(address::ADDRESS_HEADER).as_deref());
    // 5. limiter: may it run. When that can't be said, the strictest of the tools' policies holds for a batch.
    let fail = calls.iter().map(|call| call.settings.fail).max().unwrap_or(Fail::Open);
    let deadline_ms = config.limiter_timeout_ms;
    let outcome = admit(env, &Admission { caller: &caller, policy, cost, fail, deadline_ms }).await;
    count_question(&outcome);
    let allowance = outcome.allowance;
    let reason = match outcome.ruling {
        Ruling::Runs => {
            // 6. tools: run it.
            let responses = run(entries, allowance.map_or(Standing::Unknown, Standing::Known)).await;
            return (responses, Metered { refusal: None, allowance });
        }
        Ruling::Waits(us) => Reason::Rate { retry_after_ms: whole_ms(us) },
        Ruling::NeverFits => Reason::Capacity { cost: cost / TOKEN, capacity: policy.capacity_tokens() },
        Ruling::Unavailable => Reason::Unavailable,
    };
    let refusal = Refusal { reason, allowance: AllowanceKind::Caller, tool: first.tool.name, in_batch };
    let form = config.refusal;
    let responses = entries.into_iter().map(|entry| refuse(entry, refusal, form, &caller, allowance)).collect();
    (responses, Metered { refusal: Some(refusal), allowance })
}

/// Runs all calls at once.
async fn run(entries: Vec<Entry>, standing: Standing) -> Vec<Response> {
    join_all(entries.into_iter().map(|entry| async move {
        let call = match entry {
            Entry::Answered(response) => return response,
            Entry::Call(call) => call,
        };
        let result = (call.tool.run)(Call { arguments: call.arguments, standing }).await;
        count(|counts| counts.ran(call.tool.name, result.is_error));
        let result = match standing {
            Standing::Known(allowance) => with_allowance(result, allowance),
            Standing::Unlimited | Standing::Unknown => result,
        };
        Response::new(call.id, Ok(result.into_value(call.revision)))
    }))
    .await
}

/// Refuses a call. As HTTP the whole POST is refused, so there every other request is too.
fn refuse(
    entry: Entry,
    refusal: Refusal<'static>,
    form: RefusalForm,
    caller: &CallerKey,
    allowance: Option<Allowance>,
) -> Response {
    match (entry, form) {
        (Entry::Answered(response), RefusalForm::Result) => response,
        (Entry::Answered(response), RefusalForm::Http) => Response { outcome: Err(refusal.to_rpc_error()), ..response },
        (Entry::Call(call), form) => {
            let refusal = Refusal { tool: call.tool.name, ..refusal };
            count(|counts| counts.limited(limited(&refusal, caller)));
            let outcome = match form {
                RefusalForm::Http => Err(refusal.to_rpc_error()),
                RefusalForm::Result => {
                    let result = refusal.to_tool_result();
                    let result = match allowance {
                        Some(allowance) => with_allowance(result, allowance),
                        None => result,
                    };
                    Ok(result.into_value(call.revision))
                }
            };
            Response::new(call.id, outcome)
        }
    }
}

fn with_allowance(result: ToolResult, allowance: Allowance) -> ToolResult {
    match serde_json::to_value(allowance) {
        Ok(value) => result.with_meta(ALLOWANCE_KEY, value),
        Err(_) => result,
    }
}

fn limited(refusal: &Refusal<'_>, caller: &CallerKey) -> Limited {
    Limited {
        tool: refusal.tool.to_owned(),
        reason: refusal.reason.name().to_owned(),
        allowance: refusal.allowance.name().to_owned(),
        caller: caller.kind().to_owned(),
        bucket: caller.group().to_string(),
    }
}

/// 8. stats: what the question to the limiter cost.
fn count_question(outcome: &Outcome) {
    count(|counts| {
        counts.questions = counts.questions.saturating_add(u64::from(outcome.asked));
        counts.rows_written = counts.rows_written.saturating_add(outcome.rows_written);
        counts.remembered = counts.remembered.saturating_add(u64::from(outcome.remembered));
        if let Some(policy) = outcome.failed {
            counts.failed(policy.name());
        }
    });
}
