//! The little that is needed of Workers beyond HTTP: a clock, chance, a deadline, one row of storage, a question to an
//! object, whether a client has gone, and what a panic does.

pub mod ask;
pub mod crypto;
pub mod fetch;
pub mod gone;
pub mod panics;
pub mod store;

use worker::Date;

/// Microseconds since 1970. The clock of Workers moves in milliseconds, only when something arrives, and may step
/// back.
pub fn now_us() -> u64 {
    Date::now().as_millis().saturating_mul(1_000)
}

/// A random number below 2^52, which passes through JSON and JavaScript unchanged.
pub fn random_id() -> u64 {
    // Workers always have randomness. Were there none, an id that is taken twice ends a lease early at the worst.
    getrandom::u64().unwrap_or_else(|_| now_us()) >> 12
}
