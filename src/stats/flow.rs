//! The way of counts from an isolate to the object: gathered here, sent about once a second, after the answer has
//! gone.

use super::counts::Counts;
use super::object::{BINDING, NAME};
use crate::platform::ask::{ask, Failure};
use crate::platform::delay::Delay;
use crate::platform::now_us;
use futures_channel::oneshot;
use serde_json::json;
use std::cell::RefCell;
use worker::{console_error, Context, Env};

/// For how long counts gather, in milliseconds.
const GATHER_MS: u64 = 1_000;

/// How long the object may take, in milliseconds.
const DEADLINE_MS: u32 = 5_000;

/// After how long a sending that was planned counts as lost, in microseconds: whatever happened to the request that
/// was to do it, the next one plans another.
const LOST_AFTER: u64 = 10_000_000;

#[derive(Default)]
struct Gathered {
    counts: Counts,
    /// When the sending was planned.
    planned: Option<u64>,
}

thread_local! {
    static GATHERED: RefCell<Gathered> = RefCell::default();
}

/// Counts something.
pub fn count(counting: impl FnOnce(&mut Counts)) {
    GATHERED.with_borrow_mut(|gathered| counting(&mut gathered.counts));
}

/// Has what was counted sent once the answer has gone, unless that is planned already.
pub fn send_later(env: &Env, context: &Context) {
    if plan() {
        let env = env.clone();
        context.wait_until(async move { send_planned(&env).await });
    }
}

/// The same for what is counted until an answer is over that goes on for long: until what this gives is dropped.
pub fn send_when(env: &Env, context: &Context) -> oneshot::Sender<()> {
    let (over, is_over) = oneshot::channel();
    let env = env.clone();
    context.wait_until(async move {
        // Nothing is ever sent: whoever has the other end drops it.
        let _ = is_over.await;
        if plan() {
            send_planned(&env).await;
        }
    });
    over
}

/// Whether somebody has to send what was counted; then it is planned.
fn plan() -> bool {
    let now = now_us();
    GATHERED.with_borrow_mut(|gathered| {
        let pending = gathered.planned.is_some_and(|since| since <= now && now < since.saturating_add(LOST_AFTER));
        let plan = !pending && !gathered.counts.is_empty();
        if plan {
            gathered.planned = Some(now);
        }
        plan
    })
}

async fn send_planned(env: &Env) {
    Delay::new(GATHER_MS).await;
    // Somebody may have read the counts meanwhile, which sends them.
    if GATHERED.with_borrow(|gathered| gathered.counts.is_empty()) {
        return GATHERED.with_borrow_mut(|gathered| gathered.planned = None);
    }
    if let Err(failure) = send(env).await {
        console_error!("{}", json!({ "event": "stats_failure", "cause": failure.cause() }));
    }
}

/// Sends what was counted, and tells the sum of all. What couldn't be sent is kept for the next time; when only the
/// answer was lost, it is counted twice.
pub async fn send(env: &Env) -> Result<Counts, Failure> {
    let counts = GATHERED.with_borrow_mut(|gathered| {
        gathered.planned = None;
        std::mem::take(&mut gathered.counts)
    });
    let sum = ask(env, BINDING, NAME, &counts, DEADLINE_MS).await;
    if sum.is_err() {
        GATHERED.with_borrow_mut(|gathered| gathered.counts.merge(counts));
    }
    sum
}
