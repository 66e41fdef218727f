//! When to try again: exponential, with full jitter, and never before the server behind said.

use crate::limiter::policy::SECOND;

/// The most attempts for one call.
const MOST_ATTEMPTS: u32 = 4;

/// The attempts of one request.
#[derive(Debug)]
pub struct Attempts {
    began: u64,
    most: u64,
    failures: u32,
}

impl Attempts {
    /// The first one begins at `now`, and none more than `most` microseconds later.
    pub fn new(now: u64, most: u64) -> Self {
        Self { began: now, most, failures: 0 }
    }

    /// One more has failed.
    pub fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// How long to wait at `now` before the next one; None when there is none. `floor` and `random` are as for [`wait`].
    pub fn wait(&self, floor: u64, now: u64, random: u64) -> Option<u64> {
        let left = self.most.saturating_sub(now.saturating_sub(self.began));
        wait(self.failures, floor, left, random)
    }

    /// Whether there was more than one.
    pub fn are_several(&self) -> bool {
        self.failures > 1
    }
}

/// The longest wait after the first failure, in microseconds; it doubles with each one.
const FIRST: u64 = SECOND / 4;

/// Random numbers are below this.
const RANDOM: u128 = 1 << 52;

/// How long to wait after so many `failures`, in microseconds; None when that was the last attempt. `floor` is what the server
/// asked for, `left` how long the call can still be held back, `random` a number below 2^52.
pub fn wait(failures: u32, floor: u64, left: u64, random: u64) -> Option<u64> {
    if failures >= MOST_ATTEMPTS || floor > left || left == 0 {
        return None;
    }
    let most = FIRST.saturating_mul(1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX));
    let most = most.min(left.saturating_sub(floor));
    let jitter = u128::from(most).saturating_mul(u128::from(random)) / RANDOM;
    let jitter = u64::try_from(jitter).unwrap_or(most);
    Some(floor.saturating_add(jitter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HALF: u64 = 1 << 51;

    #[test]
    fn the_jitter_is_full_and_doubles() {
        assert_eq!(wait(1, 0, 10 * SECOND, 0), Some(0));
        assert_eq!(wait(1, 0, 10 * SECOND, HALF), Some(125_000));
        assert_eq!(wait(2, 0, 10 * SECOND, HALF), Some(250_000));
        assert_eq!(wait(3, 0, 10 * SECOND, HALF), Some(500_000));
        assert_eq!(wait(3, 0, 10 * SECOND, (1 << 52) - 1), Some(999_999));
    }

    #[test]
    fn after_the_fourth_attempt_there_is_none() {
        assert_eq!(wait(4, 0, 10 * SECOND, 0), None);
    }

    #[test]
    fn what_the_server_asked_for_is_a_floor_and_what_is_left_a_ceiling() {
        assert_eq!(wait(1, SECOND, 2 * SECOND, HALF), Some(1_125_000));
        assert_eq!(wait(1, 2 * SECOND, 2 * SECOND, HALF), Some(2 * SECOND));
        assert_eq!(wait(1, 2 * SECOND + 1, 2 * SECOND, HALF), None);
    }

    #[test]
    fn where_nothing_may_be_held_back_nothing_is_tried_again() {
        assert_eq!(wait(1, 0, 0, 0), None);
    }

    #[test]
    fn the_time_that_attempts_take_counts() {
        let mut attempts = Attempts::new(5, 2 * SECOND);
        attempts.failed();
        assert_eq!(attempts.wait(0, SECOND, HALF), Some(125_000));
        assert_eq!(attempts.wait(SECOND, SECOND + 5, HALF), Some(SECOND));
        assert_eq!(attempts.wait(SECOND, SECOND + 6, HALF), None);
        assert_eq!(attempts.wait(0, 2 * SECOND + 5, HALF), None, "there is no time left");
        assert!(!attempts.are_several());
        (0..3).for_each(|_| attempts.failed());
        assert_eq!(attempts.wait(0, SECOND, HALF), None, "it was the fourth");
        assert!(attempts.are_several());
    }

    #[test]
    fn what_little_is_left_is_spread_too() {
        assert_eq!(wait(3, 0, SECOND / 10, HALF), Some(50_000));
        assert_eq!(wait(3, SECOND, SECOND + 100_000, HALF), Some(SECOND + 50_000));
    }

    proptest! {
        #[test]
        fn a_wait_lies_between_floor_and_what_is_left(
            failures in 1..4_u32, floor in 0..5 * SECOND, left in 0..5 * SECOND, random in 0..1_u64 << 52,
        ) {
            match wait(failures, floor, left, random) {
                Some(wait) => prop_assert!((floor..=left).contains(&wait)),
                None => prop_assert!(floor > left || left == 0),
            }
        }
    }
}
