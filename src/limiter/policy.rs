//! What a caller may use: how many tokens at once, and how fast they come back.
//!
//! All amounts are integers. A token is a million micro-tokens, a rate is micro-tokens a second, an instant is a
//! microsecond since 1970. Every one of them, and every product that has to be stored, stays at or below 2^52, so
//! that it passes through JSON and JavaScript numbers unchanged.

use std::fmt;

/// Micro-tokens in one token.
pub const TOKEN: u64 = 1_000_000;

/// Microseconds in one second.
pub const SECOND: u64 = 1_000_000;

/// The largest amount, rate or span that is stored or sent (2^52).
pub const LARGEST: u64 = 1 << 52;

/// A token bucket's two numbers. Made only by [`Policy::new`], so that a wrong one can't be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    capacity: u64,
    refill: u64,
}

/// Why two numbers make no policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyFault {
    /// The bucket would hold nothing.
    NoCapacity,
    /// Nothing would ever come back.
    NoRefill,
    /// The capacity passes 2^52 micro-tokens.
    CapacityTooLarge,
    /// The refill passes 2^52 micro-tokens a second.
    RefillTooLarge,
    /// An empty bucket would take more than 2^52 us (142 years) to fill.
    FillsTooSlowly,
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCapacity => "the bucket must hold at least one token",
            Self::NoRefill => "the rate must be above 0",
            Self::CapacityTooLarge => "the bucket can hold at most 4503599627 tokens",
            Self::RefillTooLarge => "the rate can be at most 4503599627 tokens a second",
            Self::FillsTooSlowly => "an empty bucket would take more than 142 years to fill",
        })
    }
}

impl Policy {
    /// A policy of `capacity` micro-tokens, refilled at `refill` micro-tokens a second.
    pub fn new(capacity: u64, refill: u64) -> Result<Self, PolicyFault> {
        if capacity < TOKEN {
            return Err(PolicyFault::NoCapacity);
        }
        if refill == 0 {
            return Err(PolicyFault::NoRefill);
        }
        if capacity > LARGEST {
            return Err(PolicyFault::CapacityTooLarge);
        }
        if refill > LARGEST {
            return Err(PolicyFault::RefillTooLarge);
        }
        if span(capacity, refill) > LARGEST {
            return Err(PolicyFault::FillsTooSlowly);
        }
        Ok(Self { capacity, refill })
    }

    /// The most that can be owed, in micro-tokens.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// What comes back each second, in micro-tokens.
    pub fn refill(&self) -> u64 {
        self.refill
    }

    /// The capacity in whole tokens, rounded down.
    pub fn capacity_tokens(&self) -> u64 {
        self.capacity / TOKEN
    }

    /// The whole seconds in which an empty bucket fills, rounded up: the `w` of `RateLimit-Policy`.
    pub fn window_seconds(&self) -> u64 {
        span(self.capacity, self.refill).div_ceil(SECOND)
    }
}

/// The microseconds in which `amount` micro-tokens drain at `refill` micro-tokens a second, rounded up; the largest
/// number when that is never.
pub fn span(amount: u64, refill: u64) -> u64 {
    let scaled = u128::from(amount).saturating_mul(u128::from(SECOND));
    match scaled.checked_add(u128::from(refill.saturating_sub(1))).and_then(|sum| sum.checked_div(u128::from(refill))) {
        Some(us) => u64::try_from(us).unwrap_or(u64::MAX),
        None => u64::MAX,
    }
}

/// The micro-tokens that drain in `us` microseconds at `refill` micro-tokens a second, rounded down.
pub fn drained(us: u64, refill: u64) -> u64 {
    let scaled = u128::from(us).saturating_mul(u128::from(refill)).checked_div(u128::from(SECOND));
    scaled.and_then(|amount| u64::try_from(amount).ok()).unwrap_or(u64::MAX)
}

/// Micro-tokens as tokens. Exact: what is below 2^52 is, and so is the decimal number that it was read from.
pub fn tokens(micro: u64) -> f64 {
    micro as f64 / TOKEN as f64
}

/// Microseconds as milliseconds, rounded up: a wait must never be told too short.
pub fn whole_ms(us: u64) -> u64 {
    us.div_ceil(1_000)
}

/// Milliseconds as seconds, rounded up, and at least one: a wait of 0 s starts a storm of retries.
pub fn whole_seconds(ms: u64) -> u64 {
    ms.div_ceil(1_000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_policy_fills_in_a_minute() {
        let policy = Policy::new(30 * TOKEN, TOKEN / 2).unwrap();
        assert_eq!(policy.window_seconds(), 60);
        assert_eq!(policy.capacity_tokens(), 30);
        assert_eq!((policy.capacity(), policy.refill()), (30_000_000, 500_000));
    }

    #[test]
    fn each_fault_has_its_bound() {
        assert_eq!(Policy::new(TOKEN - 1, 1), Err(PolicyFault::NoCapacity));
        assert!(Policy::new(TOKEN, 1).is_ok());
        assert_eq!(Policy::new(TOKEN, 0), Err(PolicyFault::NoRefill));
        assert!(Policy::new(LARGEST, LARGEST).is_ok());
        assert_eq!(Policy::new(LARGEST + 1, LARGEST), Err(PolicyFault::CapacityTooLarge));
        assert_eq!(Policy::new(LARGEST, LARGEST + 1), Err(PolicyFault::RefillTooLarge));
        // 2^52 us at one micro-token a second drain 4503599627 micro-tokens.
        assert!(Policy::new(4_503_599_627, 1).is_ok());
        assert_eq!(Policy::new(4_503_599_628, 1), Err(PolicyFault::FillsTooSlowly));
    }

    #[test]
    fn each_fault_says_what_is_wrong() {
        assert_eq!(PolicyFault::NoCapacity.to_string(), "the bucket must hold at least one token");
        assert_eq!(PolicyFault::NoRefill.to_string(), "the rate must be above 0");
        assert_eq!(PolicyFault::CapacityTooLarge.to_string(), "the bucket can hold at most 4503599627 tokens");
        assert_eq!(PolicyFault::RefillTooLarge.to_string(), "the rate can be at most 4503599627 tokens a second");
        assert_eq!(PolicyFault::FillsTooSlowly.to_string(), "an empty bucket would take more than 142 years to fill");
    }

    #[test]
    fn a_span_is_rounded_up_and_what_drains_down() {
        assert_eq!(span(1, 3), 333_334);
        assert_eq!(drained(333_333, 3), 0);
        assert_eq!(drained(333_334, 3), 1);
        assert_eq!(span(0, 3), 0);
        assert_eq!(span(1, 0), u64::MAX);
        assert_eq!(span(u64::MAX, 1), u64::MAX);
        assert_eq!(drained(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn waits_are_rounded_up_and_seconds_are_at_least_one() {
        assert_eq!((whole_ms(0), whole_ms(1), whole_ms(1_000), whole_ms(1_001)), (0, 1, 1, 2));
        assert_eq!((whole_seconds(0), whole_seconds(1), whole_seconds(1_000), whole_seconds(1_001)), (1, 1, 1, 2));
    }
}
