//! Whether a call may run: from memory, from the caller's object, or by what the operator decided for when that can't
//! answer.

use super::allowance::Allowance;
use super::bucket::Debt;
use super::memory::{Insured, Memory};
use super::message::{Answer, Question};
use super::object::BINDING;
use super::policy::Policy;
use crate::caller::CallerKey;
use crate::config::Fail;
use crate::platform::ask::{ask, Failure};
use crate::platform::now_us;
use serde_json::json;
use std::cell::RefCell;
use worker::{console_error, Env};

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// What is asked for: one call, or a batch as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Admission<'a> {
    /// Whose bucket.
    pub caller: &'a CallerKey,
    /// Its numbers.
    pub policy: Policy,
    /// Micro-tokens.
    pub cost: u64,
    /// What happens when the object can't answer.
    pub fail: Fail,
    /// How long it may take to, in milliseconds.
    pub deadline_ms: u32,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It runs.
    Runs,
    /// It waits for so many microseconds.
    Waits(u64),
    /// It costs more than the bucket holds.
    NeverFits,
    /// Nobody can say, and so it doesn't run.
    Unavailable,
}

/// A ruling, with what is left and what there is to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it runs.
    pub ruling: Ruling,
    /// What is left, where the object told.
    pub allowance: Option<Allowance>,
    /// Whether the object was asked.
    pub asked: bool,
    /// Rows that it wrote.
    pub rows_written: u64,
    /// Whether this was refused on a remembered debt.
    pub remembered: bool,
    /// The policy that decided, when the object couldn't.
    pub failed: Option<Fail>,
}

impl Outcome {
    fn new(ruling: Ruling) -> Self {
        Self { ruling, allowance: None, asked: false, rows_written: 0, remembered: false, failed: None }
    }
}

/// Asks for admission. What is admitted has been charged.
pub async fn admit(env: &Env, admission: &Admission<'_>) -> Outcome {
    let Admission { caller, policy, cost, .. } = *admission;
    if cost > policy.capacity() {
        return Outcome::new(Ruling::NeverFits);
    }
    if let Some(outcome) = from_memory(admission) {
        return outcome;
    }
    let question = Question::new(policy, cost);
    let sent = now_us();
    let answer = ask::<_, Answer>(env, BINDING, caller.name(), &question, admission.deadline_ms).await;
    let answer = answer.and_then(|answer| match answer.fault(&question) {
        None => Ok(answer),
        Some(fault) => Err(Failure::Broken(format!("the object answered nonsense: {fault}"))),
    });
    let outcome = match answer {
        Ok(answer) => answered(admission, &answer, sent),
        Err(failure) => unanswered(admission, &failure),
    };
    Outcome { asked: true, ..outcome }
}

/// A refusal or a status, where the last debt that was heard of is enough.
fn from_memory(admission: &Admission<'_>) -> Option<Outcome> {
    let Admission { caller, policy, cost, .. } = *admission;
    let now = now_us();
    MEMORY.with_borrow(|memory| {
        if cost == 0 {
            let debt = memory.status(caller.name(), policy, now)?;
            return Some(Outcome { allowance: Some(Allowance::new(debt, policy)), ..Outcome::new(Ruling::Runs) });
        }
        let refused = memory.refuses(caller.name(), policy, cost, now)?;
        let allowance = Some(Allowance::new(refused.debt, policy));
        Some(Outcome { allowance, remembered: true, ..Outcome::new(Ruling::Waits(refused.wait)) })
    })
}

fn answered(admission: &Admission<'_>, answer: &Answer, sent: u64) -> Outcome {
    let Admission { caller, policy, .. } = *admission;
    MEMORY.with_borrow_mut(|memory| memory.hear(caller.name(), answer.debt, sent, now_us(), policy));
    let ruling = if answer.admitted { Ruling::Runs } else { Ruling::Waits(answer.wait) };
    let allowance = Some(Allowance::new(Debt { owed: answer.debt, at: answer.at }, policy));
    Outcome { allowance, rows_written: answer.rows, ..Outcome::new(ruling) }
}

/// The object can't answer: the operator's policy decides, with one exception. An overloaded object, and one that
/// doesn't answer in time, is what a caller's own flood makes of it; were that open, a flood would be its own way
/// out.
fn unanswered(admission: &Admission<'_>, failure: &Failure) -> Outcome {
    let Admission { caller, policy, cost, fail, .. } = *admission;
    let own_doing = matches!(failure, Failure::Overloaded(_) | Failure::Deadline(_));
    let applied = if fail == Fail::Open && own_doing { Fail::Insured } else { fail };
    let line = json!({ "event": "limiter_failure", "cause": failure.cause(), "policy": applied.name() });
    console_error!("{line}");
    let ruling = match applied {
        // What costs nothing is never refused.
        _ if cost == 0 => Ruling::Runs,
        Fail::Open => Ruling::Runs,
        Fail::Closed => Ruling::Unavailable,
        Fail::Insured => match MEMORY.with_borrow_mut(|memory| memory.insure(caller.name(), policy, cost, now_us())) {
            Insured::Admitted => Ruling::Runs,
            Insured::Refused(wait) => Ruling::Waits(wait),
            Insured::NoRoom => Ruling::Unavailable,
        },
    };
    Outcome { failed: Some(applied), ..Outcome::new(ruling) }
}
