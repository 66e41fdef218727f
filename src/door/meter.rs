//! The calls of one POST, admitted together or refused together.

use super::afterwards::{self, Running};
use super::incoming::Incoming;
use super::subject::Subject;
use super::verdict::{self, Asked};
use crate::caller::Caller;
use crate::config::tools::ToolSettings;
use crate::config::{Config, Fail};
use crate::limiter::admit::{admit, Admission, Outcome, Ruling};
use crate::limiter::allowance;
use crate::limiter::demand::question;
use crate::limiter::policy::TOKEN;
use crate::limiter::question::Question;
use crate::limiter::returns::Return;
use crate::limiter::session::slots_of;
use crate::limiter::spacing::{spacings, Spacing};
use crate::limiter::standing::{policy_item, Standing};
use crate::platform::{now_us, random_id};
use crate::refusal::Refusal;
use crate::stats::flow::count;
use crate::tools;
use std::rc::Rc;
use worker::{Context, Env};

/// What it takes to meter calls.
#[derive(Clone, Copy)]
pub struct Meter<'a> {
    /// What the operator decided.
    pub config: &'a Config,
    /// Where the objects are.
    pub env: &'a Env,
    /// What goes on when the answer has gone.
    pub context: &'a Context,
    /// What asks for it.
    pub request: &'a Incoming,
}

/// A call, as far as it is metered.
#[derive(Clone, Debug)]
pub struct Wanted<'c> {
    /// The tool.
    pub tool: &'c str,
    /// What holds for it.
    pub settings: Rc<ToolSettings>,
    /// Whether the limiter is asked even when the call is free.
    pub needs_allowance: bool,
}

/// Who calls, and how.
#[derive(Clone, Copy, Debug)]
pub struct Occasion<'c> {
    /// The caller.
    pub caller: &'c Caller,
    /// Whether the calls came as a batch.
    pub in_batch: bool,
    /// The session with the server behind that they belong to.
    pub session: Option<&'c str>,
    /// Whether what is charged may have to go back.
    pub may_go_back: bool,
}

/// What metering came to.
pub struct Metered<'c> {
    /// What the calls run on, or why they don't.
    pub verdict: Result<Admitted, Refusal<'c>>,
    /// How the caller stands, where the object told.
    pub standing: Option<Standing>,
    /// Everything that limits these calls, as an item of `RateLimit-Policy` each.
    pub policies: Vec<String>,
}

/// What admitted calls run on.
pub struct Admitted {
    /// What is left, for tools that tell it.
    pub standing: tools::Standing,
    /// For each tool that is spaced out, when the turn of each of its calls comes, in microseconds since 1970.
    pub turns: Vec<(String, Vec<u64>)>,
    /// The leases of the slots that they take. Dropping them ends them.
    pub leases: Vec<Running>,
    /// What goes back if they aren't used, and to which object.
    pub returns: Vec<(String, Return)>,
}

impl<'a> Meter<'a> {
    /// Asks for all calls together: they cost the sum of their costs, and run only if that is admitted.
    pub async fn meter<'c>(&self, calls: &[Wanted<'c>], occasion: Occasion<'c>) -> Metered<'c>
    where
        'a: 'c,
    {
        let Self { config, env, context, request } = *self;
        let subject = Subject::new(occasion.caller, config);
        let spacings = spacings(calls.iter().map(|call| (call.tool, call.settings.min_gap_ms)));
        // A call that waits for its turn has its slot meanwhile.
        let held_us = if spacings.is_empty() { 0 } else { config.max_wait_ms.saturating_mul(1_000) };
        let lease_us = config.lease_us.saturating_add(held_us);
        let mut asked = question(&subject.limits, calls.iter().map(|call| (call.tool, &*call.settings)), lease_us);
        let policies = policies(&asked, &subject, &spacings);
        let cost = cost(calls, &asked);
        let per_session = config.upstream.as_ref().and_then(|upstream| upstream.max_in_flight_session);
        let session = per_session.zip(occasion.session);
        let wants_verdict = !asked.is_free()
            || cost > 0 && subject.shared.is_some()
            || session.is_some()
            || calls.iter().any(|call| call.needs_allowance);
        let limited = !policies.is_empty();
        let (Some(first), true, true) = (calls.first(), limited, wants_verdict || !spacings.is_empty()) else {
            let standing = if limited { tools::Standing::Unknown } else { tools::Standing::Unlimited };
            return Metered { verdict: Ok(Admitted::on(standing)), standing: None, policies };
        };
        if subject.unknown_plan {
            count(|counts| counts.unknown_plans = counts.unknown_plans.saturating_add(1));
        }
        let key = &occasion.caller.key;
        // 5. limiter: may it run. When that can't be said, the strictest of the tools' policies holds for a batch.
        if asked.lease.is_some() || !spacings.is_empty() || occasion.may_go_back {
            asked.id = Some(random_id());
        }
        let session = session.map(|(limit, id)| slots_of(id, limit, calls.len() as u64, lease_us, random_id()));
        let end_later = |name: &str, id| afterwards::end_later(env, context, request.signal(), name, id, lease_us);
        let own = asked.id.filter(|_| asked.lease.is_some()).map(|id| end_later(key.name(), id));
        let its = session.as_ref().and_then(|(name, asked)| Some(end_later(name, asked.id?)));
        let leases: Vec<Running> = own.into_iter().chain(its).collect();
        let admission = Admission {
            name: key.name(),
            whose: subject.whose,
            calls: calls.iter().filter(|call| call.settings.cost > 0).fold(0, |count: u64, _| count.saturating_add(1)),
            cost,
            question: asked,
            shared: subject.shared,
            session,
            spacings,
            max_wait_ms: config.max_wait_ms,
            fail: calls.iter().map(|call| call.settings.fail).max().unwrap_or(Fail::Open),
            deadline_ms: config.limiter_timeout_ms,
            may_be_overridden: config.admin_token.is_some(),
        };
        let mut outcome = admit(env, &admission).await;
        count_questions(&outcome);
        let standing = outcome.standing.take();
        let Some(refusal) = self.refusal(&outcome.ruling, calls, first.tool, occasion.in_batch) else {
            let told = match &standing {
                Some(standing) => tools::Standing::Known(standing.clone()),
                // What there is can't be counted: slots, or nothing.
                None if outcome.failed.is_empty() => tools::Standing::Unlimited,
                None => tools::Standing::Unknown,
            };
            let Outcome { turns, returns, .. } = outcome;
            let admitted = Admitted { standing: told, turns, leases, returns };
            return Metered { verdict: Ok(admitted), standing, policies };
        };
        // What nobody could tell may have been taken all the same.
        if matches!(outcome.ruling, Ruling::Refused(_)) && outcome.failed.is_empty() {
            leases.into_iter().for_each(Running::refused);
        }
        // What goes back isn't in it yet.
        let standing = standing.filter(|_| outcome.returns.is_empty());
        afterwards::give_back(env, context, std::mem::take(&mut outcome.returns));
        Metered { verdict: Err(refusal), standing, policies }
    }

    /// The refusal that a ruling makes.
    fn refusal<'c>(&self, ruling: &Ruling, calls: &[Wanted<'c>], tool: &'c str, in_batch: bool) -> Option<Refusal<'c>>
    where
        'a: 'c,
    {
        let named = match ruling {
            Ruling::Refused(refused) => refused.tool.as_str(),
            Ruling::Runs | Ruling::Unavailable(_) => "",
        };
        // The table's own name, which outlives the ruling.
        let named = self.config.tools().get_key_value(named).map(|(tool, settings)| (tool.as_str(), &**settings));
        let of_tool = calls.iter().filter(|call| named.is_some_and(|(tool, _)| call.tool == tool));
        let calls = of_tool.fold(0, |count: u64, _| count.saturating_add(1));
        let asked = Asked { tool, named, calls, max_wait_ms: self.config.max_wait_ms, in_batch };
        verdict::refusal(ruling, &asked)
    }
}

impl Admitted {
    fn on(standing: tools::Standing) -> Self {
        Self { standing, turns: Vec::new(), leases: Vec::new(), returns: Vec::new() }
    }
}

/// Micro-tokens that the calls cost together. Calls that cost nothing, but take something of limits of their tool's own, cost a shared
/// bucket a token: or made-up keys would make objects for nothing.
fn cost(calls: &[Wanted<'_>], asked: &Question) -> u64 {
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
