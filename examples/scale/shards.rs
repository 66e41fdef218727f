//! A shared bucket that is split: each shard an object with an equal share of rate and capacity. How much is refused that
//! one bucket would admit, by how calls find their shard.

use crate::random::Random;
use sluice::limiter::bucket::{ask, Debt, Verdict};
use sluice::limiter::policy::{Policy, SECOND, TOKEN};
use sluice::limiter::shards::share;

/// How a call finds its shard.
#[derive(Clone, Copy)]
pub enum Choice {
    /// By the caller, of so many who call alike.
    HashedEven(u64),
    /// By the caller, of so many of whom the n-th calls a n-th as often as the first.
    HashedSkewed(u64),
    /// Any, for each call.
    Random,
}

/// What is admitted of a load of one-token calls that come evenly for a minute, `load` percent of what `whole` refills, or
/// all at once a full bucket's worth when that is 0: as a part of what comes.
pub fn admitted(whole: Policy, shards: usize, choice: Choice, load: u64) -> f64 {
    let mut random = Random::new(7);
    let share = share(whole, shards as u64);
    let mut debts = vec![Debt::default(); shards];
    // A bucket that was in use for long, at less load than it can take, owes nothing; one at more is empty. A minute to get there.
    let per_second = whole.refill() / TOKEN * load / 100;
    let (calls, skipped) = if load == 0 { (whole.capacity() / TOKEN, 0) } else { (per_second * 120, per_second * 60) };
    let (mut admitted, mut in_all) = (0_u64, 0_u64);
    let ranks = Ranks::new(choice);
    for call in 0..calls {
        let now = (call * SECOND).checked_div(per_second).unwrap_or_default();
        let shard = match choice {
            Choice::Random => random.below(shards as u64) as usize,
            Choice::HashedEven(callers) => shard_of(random.below(callers) as usize, shards),
            Choice::HashedSkewed(_) => shard_of(ranks.pick(&mut random), shards),
        };
        let debt = &mut debts[shard];
        if let Verdict::Admitted(after) = ask(*debt, share, TOKEN, now) {
            *debt = after;
            in_all += 1;
            admitted += u64::from(call >= skipped);
            // The bound of one bucket, from its first call on.
            let most = u128::from(whole.capacity()) + u128::from(now) * u128::from(whole.refill()) / u128::from(SECOND);
            assert!(u128::from(in_all * TOKEN) <= most, "shards admitted more than one bucket");
        }
    }
    admitted as f64 / (calls - skipped) as f64
}

/// A caller's shard.
pub fn shard_of(caller: usize, shards: usize) -> usize {
    Random::new(caller as u64).below(shards as u64) as usize
}

/// Callers of whom the n-th calls a n-th as often as the first.
struct Ranks(Vec<u64>);

impl Ranks {
    fn new(choice: Choice) -> Self {
        let callers = if let Choice::HashedSkewed(callers) = choice { callers } else { 1 };
        let mut sum = 0;
        Self(
            (1..=callers)
                .map(|rank| {
                    sum += 1_000_000_000 / rank;
                    sum
                })
                .collect(),
        )
    }

    fn pick(&self, random: &mut Random) -> usize {
        let weight = random.below(self.0.last().copied().unwrap_or(1));
        self.0.partition_point(|sum| *sum <= weight)
    }
}
