//! One question to one object, and what happens when it can't answer: what the operator decided for that.

use super::answer::Answer;
use super::memory::{Insured, Memory};
use super::object::BINDING;
use super::operator::{Order, State};
use super::policy::Policy;
use super::question::Question;
use super::returns::{Return, Taken};
use super::window::{Came, Sending, Window};
use crate::config::Fail;
use crate::platform::ask::{ask, Failure};
use crate::platform::now_us;
use serde_json::json;
use std::cell::RefCell;
use std::collections::HashMap;
use worker::{console_error, Env};

thread_local! {
    /// Of the buckets that many callers share, by the names of their objects: a few, of 32 shards at the most.
    static WINDOWS: RefCell<HashMap<String, Window>> = RefCell::default();
}

/// Asks the object `name`. Nonsense is no answer.
pub async fn question(env: &Env, name: &str, question: &Question, deadline_ms: u32) -> Result<Answer, Failure> {
    let answer: Answer = ask(env, BINDING, name, question, deadline_ms).await?;
    let fault = match answer.held {
        None => answer.fault(question),
        Some(held) => answer.fault(&held.apply(question)),
    };
    match fault {
        None => Ok(answer),
        Some(fault) => Err(Failure::Broken(format!("the object answered nonsense: {fault}"))),
    }
}

/// Asks the object `name`, whose bucket many callers share. None when that would be one question too many: then the bucket is as good as
/// empty. What takes nothing of it is always asked for.
pub async fn question_of_many(
    env: &Env,
    name: &str,
    asked: &Question,
    deadline_ms: u32,
) -> Option<Result<Answer, Failure>> {
    if asked.cost == 0 || asked.capacity == 0 {
        return Some(question(env, name, asked, deadline_ms).await);
    }
    let sent = now_us();
    match in_window(name, |window| window.send(sent)) {
        Sending::Sent => {}
        Sending::Refused => return None,
        Sending::Late => return Some(Err(Failure::Unasked)),
    }
    let answer = question(env, name, asked, deadline_ms).await;
    let came = match &answer {
        Ok(answer) => Came::of(answer, asked),
        Err(failure) if failure.is_of_a_flood() => Came::Overloaded,
        Err(_) => Came::Failed,
    };
    in_window(name, |window| window.hear(sent, came, now_us()));
    Some(answer)
}

fn in_window<T>(name: &str, does: impl FnOnce(&mut Window) -> T) -> T {
    WINDOWS.with_borrow_mut(|windows| does(windows.entry(name.to_owned()).or_default()))
}

/// Gives something back to the object `name`, and tells the rows that it wrote.
pub async fn give(env: &Env, name: &str, back: &Return, deadline_ms: u32) -> Result<u64, Failure> {
    let Taken { rows } = ask(env, BINDING, name, back, deadline_ms).await?;
    Ok(rows)
}

/// Has the object `name` do what the operator asks.
pub async fn order(env: &Env, name: &str, order: &Order, deadline_ms: u32) -> Result<State, Failure> {
    ask(env, BINDING, name, order, deadline_ms).await
}

/// What decides in the place of an object that can't answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// The calls run.
    Runs,
    /// Not before so many microseconds.
    Waits(u64),
    /// They don't.
    Unavailable,
}

/// The operator's policy for when the object `name` can't answer, applied to calls that cost `cost` micro-tokens of its bucket; and the
/// policy that it came to. There is one exception: an overloaded object, and one that doesn't answer in time, is what a caller's own
/// flood makes of it; were that open, a flood would be its own way out. Without a bucket an isolate has nothing to decide by.
pub fn instead(
    memory: &mut Memory,
    (name, bucket, cost): (&str, Option<Policy>, u64),
    fail: Fail,
    failure: &Failure,
    now: u64,
) -> (Instead, Fail) {
    let applied = if fail == Fail::Open && failure.is_of_a_flood() { Fail::Insured } else { fail };
    let line = json!({ "event": "limiter_failure", "cause": failure.cause(), "policy": applied.name() });
    console_error!("{line}");
    let instead = match (applied, bucket) {
        (Fail::Closed, _) => Instead::Unavailable,
        (Fail::Open, _) | (Fail::Insured, None) => Instead::Runs,
        (Fail::Insured, Some(_)) if cost == 0 => Instead::Runs,
        (Fail::Insured, Some(bucket)) => match memory.insure(name, bucket, cost, now) {
            Insured::Admitted => Instead::Runs,
            Insured::Refused(wait) => Instead::Waits(wait),
            Insured::NoRoom => Instead::Unavailable,
        },
    };
    (instead, applied)
}
