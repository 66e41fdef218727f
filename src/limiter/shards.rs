//! A bucket that callers share, split where it gives more than one object can be asked for.
//!
//! An object answers about a thousand questions a second
//! (<https://developers.cloudflare.com/durable-objects/platform/limits/>). A bucket with a higher rate is several objects, shards, each with its
//! share of rate and capacity; a caller always meets the same one. Together they never admit more than one bucket would, but one
//! can be empty when another isn't (docs/scale.md). Below that rate a bucket is one object, and exact.

use super::policy::{Policy, TOKEN};

/// Tokens a second that one object is to give.
const PER_SHARD: u64 = 500;

/// The most shards of one bucket.
const MOST: u64 = 32;

/// How many shards a bucket of these numbers is. `burst` are the micro-tokens of a caller's own bucket, the most that calls which come together
/// may cost: each shard must hold as much.
pub fn count(bucket: Policy, burst: u64) -> u64 {
    let by_rate = bucket.refill().checked_div(PER_SHARD.saturating_mul(TOKEN)).unwrap_or_default();
    let by_capacity = bucket.capacity().checked_div(burst.max(TOKEN)).unwrap_or(1);
    by_rate.min(by_capacity).clamp(1, MOST)
}

/// The share of each of so many shards, rounded down.
pub fn share(bucket: Policy, shards: u64) -> Policy {
    let of = |whole: u64| whole.checked_div(shards).unwrap_or(whole);
    // What a shard can't be, the whole bucket is.
    Policy::new(of(bucket.capacity()), of(bucket.refill())).unwrap_or(bucket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bucket(rate: u64) -> Policy {
        Policy::new(2 * rate * TOKEN, rate * TOKEN).unwrap()
    }

    #[test]
    fn a_bucket_is_split_from_where_one_object_is_asked_too_much() {
        let shards = |rate| count(bucket(rate), 30 * TOKEN);
        assert_eq!([100, 500, 999].map(shards), [1, 1, 1]);
        assert_eq!([1_000, 10_000, 1_000_000].map(shards), [2, 20, 32]);
    }

    #[test]
    fn a_shard_holds_what_calls_that_come_together_may_cost() {
        assert_eq!(count(bucket(10_000), 20_000 * TOKEN), 1);
        assert_eq!(count(bucket(10_000), 3_000 * TOKEN), 6);
        assert_eq!(count(bucket(10_000), 0), 20, "where callers have no bucket of their own");
    }

    proptest! {
        #[test]
        fn shards_together_are_never_more_than_the_bucket(rate in 1..1_000_000_u64, capacity in 1..2_000_000_u64, burst in 0..100_000_u64) {
            let bucket = Policy::new(capacity * TOKEN, rate * TOKEN).unwrap();
            let shards = count(bucket, burst * TOKEN);
            let share = share(bucket, shards);
            prop_assert!(shards * share.capacity() <= bucket.capacity() && shards * share.refill() <= bucket.refill());
            prop_assert!(shards == 1 || share.capacity() >= burst * TOKEN);
        }
    }
}
