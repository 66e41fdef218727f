//! The calls of one POST, admitted together and run, or refused together.

use super::afterwards;
use super::entry::{Entry, ReadyCall};
use super::subject::Subject;
use super::verdict::{self, Asked};
use crate::caller::{Caller, CallerKey};
use crate::config::{Config, Fail, RefusalForm};
use crate::limiter::admit::{admit, Admission, Outcome, Ruling};
use crate::limiter::allowance;
use crate::limiter::demand::question;
use crate::limiter::policy::TOKEN;
use crate::limiter::question::Question;
use crate::limiter::spacing::{spacings, Spacing};
use crate::limiter::standing::{policy_item, Allowance, Standing};
use crate::mcp::reply::Response;
use crate::mcp::tool_result::ToolResult;
use crate::platform::{now_us, random_id};
use crate::refusal::Refusal;
use crate::stats::counts::Limited;
use crate::stats::flow::count;
use crate::tools::{self, Call};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::time::Duration;
use worker::web_sys::AbortSignal;
use worker::{Context, Delay, Env};

/// The `_meta` key of what is left.
const ALLOWANCE_KEY: &str = "sluice/allowance";

/// What it takes to meter calls.
pub struct Meter<'a> {
    /// What the operator decided.
    pub config: &'a Config,
    /// Where the objects are.
    pub env: &'a Env,
    /// What goes on when the answer has gone.
    pub context: &'a Context,
    /// Whether the client has gone.
    pub client: AbortSignal,
}

/// What metering came to.
#[derive(Default)]
pub struct Metered<'a> {
    /// Why nothing ran, if nothing did.
    pub refusal: Option<Refusal<'a>>,
    /// How the caller stands, where the object told.
    pub standing: Option<Standing>,
    /// Everything that limits these calls, as an item of `RateLimit-Policy` each.
    pub policies: Vec<String>,
}

impl<'a> Meter<'a> {
    /// Answers every entry. The calls among them cost the sum of their costs, and run only if that is admitted.
    pub async fn meter(&'a self, entries: Vec<Entry>, in_batch: bool, caller: &Caller) -> (Vec<Response>, Metered<'a>) {
        let config = self.config;
        let calls: Vec<&ReadyCall> = entries.iter().filter_map(Entry::ready).collect();
        let subject = Subject::new(caller, config);
        let spacings = spacings(calls.iter().map(|call| (call.tool.name, call.settings.min_gap_ms)));
        // A call that waits for its turn has its slot meanwhile.
        let held_us = if spacings.is_empty() { 0 } else { config.max_wait_ms.saturating_mul(1_000) };
        let lease_us = config.lease_us.saturating_add(held_us);
        let settings = calls.iter().map(|call| (call.tool.name, &*call.settings));
        let mut asked = question(&subject.limits, settings, lease_us);
        let policies = policies(&asked, &subject, &spacings);
        let cost = cost(&calls, &asked);
        let wants_verdict = !asked.is_free()
            || cost > 0 && subject.shared.is_some()
            || calls.iter().any(|call| call.tool.needs_allowance);
        let limited = !policies.is_empty();
        let (Some(first), true, true) = (calls.first().copied(), limited, wants_verdict || !spacings.is_empty()) else {
            let standing = if limited { tools::Standing::Unknown } else { tools::Standing::Unlimited };
            let responses = run(entries, &standing, &[]).await;
            return (responses, Metered { policies, ..Metered::default() });
        };
        if subject.unknown_plan {
            count(|counts| counts.unknown_plans = counts.unknown_plans.saturating_add(1));
        }
        let key = &caller.key;
        // 5. limiter: may it run. When that can't be said, the strictest of the tools' policies holds for a batch.
        if asked.lease.is_some() || !spacings.is_empty() {
            asked.id = Some(random_id());
        }
        let lease = asked.id.filter(|_| asked.lease.is_some()).map(|id| {
            let client = self.client.clone();
            afterwards::end_later(self.env, self.context, client, key.name(), id, lease_us)
        });
        let first_tool = first.tool.name;
        let admission = Admission {
            name: key.name(),
            whose: subject.whose,
            calls: calls.iter().filter(|call| call.settings.cost > 0).fold(0, |count: u64, _| count.saturating_add(1)),
            cost,
            question: asked,
            shared: subject.shared,
            spacings,
            max_wait_ms: config.max_wait_ms,
            fail: calls.iter().map(|call| call.settings.fail).max().unwrap_or(Fail::Open),
            deadline_ms: config.limiter_timeout_ms,
            may_be_overridden: config.admin_token.is_some(),
        };
        let mut outcome = admit(self.env, &admission).await;
        count_questions(&outcome);
        let standing = outcome.standing.take();
        let refusal = self.refusal(&outcome.ruling, &calls, first_tool, in_batch);
        let Some(refusal) = refusal else {
            // 6. tools: run it.
            let told = match &standing {
                Some(standing) => tools::Standing::Known(standing.clone()),
                // What there is can't be counted: slots, or nothing.
                None if outcome.failed.is_empty() => tools::Standing::Unlimited,
                None => tools::Standing::Unknown,
            };
            let responses = run(entries, &told, &outcome.turns).await;
            drop(lease);
            return (responses, Metered { refusal: None, standing, policies });
        };
        if let Some(lease) = lease {
            // What nobody could tell may have been taken all the same.
            if matches!(outcome.ruling, Ruling::Refused(_)) && outcome.failed.is_empty() {
                lease.refused();
            }
        }
        // What goes back isn't in it yet.
        let standing = standing.filter(|_| outcome.returns.is_empty());
        afterwards::give_back(self.env, self.context, std::mem::take(&mut outcome.returns));
        let left = standing.as_ref().map(|standing| standing.nearest);
        let form = config.refusal;
        let responses = entries.into_iter().map(|entry| refuse(entry, refusal, form, key, left)).collect();
        (responses, Metered { refusal: Some(refusal), standing, policies })
    }

    /// The refusal that a ruling makes.
    fn refusal(
        &self,
        ruling: &Ruling,
        calls: &[&ReadyCall],
        tool: &'static str,
        in_batch: bool,
    ) -> Option<Refusal<'a>> {
        let named = match ruling {
            Ruling::Refused(refused) => refused.tool.as_str(),
            Ruling::Runs | Ruling::Unavailable(_) => "",
        };
        // The table's own name, which outlives the ruling.
        let named = self.config.tools().get_key_value(named).map(|(tool, settings)| (tool.as_str(), &**settings));
        let of_tool = calls.iter().filter(|call| named.is_some_and(|(tool, _)| call.tool.name == tool));
        let calls = of_tool.fold(0, |count: u64, _| count.saturating_add(1));
        let asked = Asked { tool, named, calls, max_wait_ms: self.config.max_wait_ms, in_batch };
        verdict::refusal(ruling, &asked)
    }
}

/// Micro-tokens that the calls cost together. Calls that cost nothing, but take something of limits of their tool's own, cost a shared
/// bucket a token: or made-up keys would make objects for nothing.
fn cost(calls: &[&ReadyCall], asked: &Question) -> u64 {
    let least = if asked.is_free() { 0 } else { TOKEN };
    calls.iter().fold(0, |sum: u64, call| sum.saturating_add(call.settings.micro_cost())).max(least)
}

/// Everything that is asked for, as header fields tell it.
fn policies(asked: &Question, subject: &Subject, spacings: &[Spacing<'_>]) -> Vec<String> {
    let now = now_us();
    let limits = allowance::limits(asked).unwrap_or_default();
    let own = limits.iter().map(|limit| policy_item(limit, now));
    own.chain(subject.shared_item()).chain(spacings.iter().map(Spacing::item)).collect()
}

/// Runs all calls at once, each in its turn (in microseconds since 1970) where its tool is spaced out.
async fn run(entries: Vec<Entry>, standing: &tools::Standing, turns: &[(String, Vec<u64>)]) -> Vec<Response> {
    let mut turns: BTreeMap<&str, _> = turns.iter().map(|(tool, turns)| (tool.as_str(), turns.iter())).collect();
    let calls = entries.into_iter().map(|entry| {
        let turn = entry.ready().and_then(|call| turns.get_mut(call.tool.name)?.next().copied());
        run_one(entry, standing, turn.unwrap_or_default())
    });
    let calls: Vec<_> = calls.collect();
    join_all(calls).await
}

async fn run_one(entry: Entry, standing: &tools::Standing, turn: u64) -> Response {
    let call = match entry {
        Entry::Answered(response) => return response,
        Entry::Call(call) => call,
    };
    let held_us = turn.saturating_sub(now_us());
    if held_us > 0 {
        Delay::from(Duration::from_micros(held_us)).await;
    }
    let result = (call.tool.run)(Call { arguments: call.arguments, standing: standing.clone() }).await;
    count(|counts| counts.ran(call.tool.name, result.is_error));
    let result = match standing {
        tools::Standing::Known(standing) => with_allowance(result, standing.nearest),
        tools::Standing::Unlimited | tools::Standing::Unknown => result,
    };
    Response::new(call.id, Ok(result.into_value(call.revision)))
}

/// Refuses a call. As HTTP the whole POST is refused, so there every other request is too.
fn refuse(
    entry: Entry,
    refusal: Refusal<'_>,
    form: RefusalForm,
    caller: &CallerKey,
    left: Option<Allowance>,
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
                    let result = match left {
                        Some(left) => with_allowance(result, left),
                        None => result,
                    };
                    Ok(result.into_value(call.revision))
                }
            };
            Response::new(call.id, outcome)
        }
    }
}

fn with_allowance(result: ToolResult, left: Allowance) -> ToolResult {
    match serde_json::to_value(left) {
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

/// 8. stats: what the questions to the limiter cost.
fn count_questions(outcome: &Outcome) {
    count(|counts| {
        counts.questions = counts.questions.saturating_add(outcome.questions);
        counts.rows_written = counts.rows_written.saturating_add(outcome.rows_written);
        counts.remembered = counts.remembered.saturating_add(u64::from(outcome.remembered));
        for policy in &outcome.failed {
            counts.failed(policy.name());
        }
    });
}
