//! The little that is needed of Workers beyond HTTP: a clock, a deadline, one row of storage, a question to an
//! object, and what a panic does.

pub mod ask;
pub mod panics;
pub mod store;

use worker::Date;

/// Microseconds since 1970. The clock of Workers moves in milliseconds, only when something arrives, and may step
/// back.
pub fn now_us() -> u64 {
    Date::now().as_millis().saturating_mul(1_000)
}
