//! When to try again: exponential, with full jitter, and never before the server behind said.

use crate::limiter::policy::SECOND;

/// The most attempts for one call.
const MOST_ATTEMPTS: u32 = 4;

/// The longest wait after the first failure, in microseconds; it doubles with each one.
const FIRST: u64 = SECOND / 4;

/// Random numbers are below this.
const RANDOM: u128 = 1 << 52;

/// How long to wait after so many `failures`, in microseconds; None when that was the last attempt. `floor` is what the server
/// asked for, `left` how long the call can still be held back, `random` a number below 2^52.
pub fn wait(failures: u32, floor: u64, left: u64, random: u64) -> Option<u64> {
    if failures >= MOST_ATTEMPTS || floor > left {
        return None;
    }
    let most = FIRST.saturating_mul(1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX));
    let jitter = u128::from(most).saturating_mul(u128::from(random)) / RANDOM;
    let jitter = u64::try_from(jitter).unwrap_or(most);
    Some(floor.saturating_add(jitter).min(left))
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

    proptest! {
        #[test]
        fn a_wait_lies_between_floor_and_what_is_left(
            failures in 1..4_u32, floor in 0..5 * SECOND, left in 0..5 * SECOND, random in 0..1_u64 << 52,
        ) {
            match wait(failures, floor, left, random) {
                Some(wait) => prop_assert!((floor..=left).contains(&wait)),
                None => prop_assert!(floor > left),
            }
        }
    }
}
