//! The little that is needed of Workers beyond HTTP: a clock, chance, signatures, a deadline, what runs and what it waits for, what an
//! object does next, a question to one, whether a client has gone, and what a panic does, also to a body that is being sent.

pub mod ask;
pub mod crypto;
pub mod delay;
pub mod fetch;
pub mod gone;
pub mod panics;
pub mod run;
pub mod shell;
pub mod step;
pub mod waiting;
pub mod watched;

use delay::Delay;
use futures_util::future::{select, Either};
use std::future::Future;
use std::pin::pin;
use worker::js_sys::Date;
use worker::Error;

/// An error is told this far, in characters.
const LONGEST_CAUSE: usize = 200;

/// Microseconds since 1970. The clock of Workers moves in milliseconds, only when something arrives, and may step
/// back.
pub fn now_us() -> u64 {
    us(Date::now())
}

/// An instant of JavaScript's, in milliseconds since 1970, in microseconds.
pub fn us(ms: f64) -> u64 {
    (ms as u64).saturating_mul(1_000)
}

/// What `work` comes to, if it does within so many milliseconds.
pub async fn within<T>(ms: u32, work: impl Future<Output = T>) -> Option<T> {
    match select(pin!(work), Delay::new(u64::from(ms))).await {
        Either::Left((result, _)) => Some(result),
        Either::Right(((), _)) => None,
    }
}

/// An error as a line for the log.
pub fn cause(error: &Error) -> String {
    cut(&error.to_string())
}

/// A text of no more than can be told of an error.
fn cut(text: &str) -> String {
    text.chars().take(LONGEST_CAUSE).collect()
}

/// A random number below 2^52, which passes through JSON and JavaScript unchanged.
pub fn random_id() -> u64 {
    // Workers always have randomness. Were there none, an id that is taken twice ends a lease early at the worst.
    getrandom::u64().unwrap_or_else(|_| now_us()) >> 12
}
