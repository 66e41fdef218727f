//! What is done whatever becomes of the answer: a lease ends when its calls are over, and what was charged and not used goes
//! back. All of it is registered with the runtime, which goes on with it when the client has gone.

use crate::limiter::ask::give;
use crate::limiter::returns::Return;
use crate::platform::delay::Delay;
use crate::platform::gone::gone;
use crate::stats::flow::count;
use futures_channel::oneshot;
use futures_util::future::{select, Either};
use serde_json::json;
use std::pin::pin;
use worker::web_sys::AbortSignal;
use worker::{console_error, Context, Env};

/// How long an object may take to take something back, in milliseconds. Nobody waits for it.
const DEADLINE_MS: u32 = 5_000;

/// A lease that may have been taken. Dropping this ends it.
pub struct Running(oneshot::Sender<Ended>);

/// How calls ended that were to run on a lease.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// They never had it.
    Refused,
}

impl Running {
    /// The calls were refused, so there is no lease to end.
    pub fn refused(self) {
        // When nobody listens any more the lease has run out.
        let _ = self.0.send(Ended::Refused);
    }
}

/// Registers the end of the lease `id` that the object `name` keeps, before it is asked for: it ends when the calls are over,
/// when the client has gone, or when it runs out by itself after `lease_us` microseconds.
pub fn end_later(env: &Env, context: &Context, client: AbortSignal, name: &str, id: u64, lease_us: u64) -> Running {
    let (sender, over) = oneshot::channel();
    let (env, name) = (env.clone(), name.to_owned());
    context.wait_until(async move {
        let left = pin!(gone(client));
        let runs_out = pin!(Delay::new(lease_us.div_ceil(1_000)));
        let over = match select(over, select(left, runs_out)).await {
            Either::Right((Either::Right(_), _)) => return,
            Either::Left((over, _)) => over,
            Either::Right((Either::Left(_), over)) => {
                send(&env, &name, &Return::Release(id)).await;
                // The lease may not have been taken yet when the client went.
                over.await
            }
        };
        if over != Ok(Ended::Refused) {
            send(&env, &name, &Return::Release(id)).await;
        }
    });
    Running(sender)
}

/// Sends back what was charged and not used.
pub fn give_back(env: &Env, context: &Context, returns: Vec<(String, Return)>) {
    if returns.is_empty() {
        return;
    }
    let env = env.clone();
    context.wait_until(async move { send_all(&env, returns).await });
}

/// Calls that were charged and aren't sent yet. Dropping this gives back what they were charged.
pub struct Unsent(oneshot::Sender<()>);

impl Unsent {
    /// They are being sent.
    pub fn sent(self) {
        let _ = self.0.send(());
    }
}

/// Registers the giving back of `returns`, in case their calls are never sent: a client may go away while they are held back.
pub fn give_back_unsent(env: &Env, context: &Context, returns: Vec<(String, Return)>) -> Unsent {
    let (sender, is_sent) = oneshot::channel();
    let env = env.clone();
    context.wait_until(async move {
        if is_sent.await.is_err() {
            send_all(&env, returns).await;
        }
    });
    Unsent(sender)
}

async fn send_all(env: &Env, returns: Vec<(String, Return)>) {
    for (name, back) in returns {
        send(env, &name, &back).await;
    }
}

async fn send(env: &Env, name: &str, back: &Return) {
    match give(env, name, back, DEADLINE_MS).await {
        Ok(rows) => count(|counts| {
            counts.questions = counts.questions.saturating_add(1);
            counts.rows_written = counts.rows_written.saturating_add(rows);
        }),
        Err(failure) => console_error!("{}", json!({ "event": "return_failure", "cause": failure.cause() })),
    }
}
