//! The token bucket, kept as a debt.
//!
//! The state is what a caller owes and when that was counted. The debt drains at the refill rate; a call runs if the
//! debt and its cost together stay within the capacity. Debt is counted in tokens, not in time, so it means the same
//! under every policy: a smaller capacity forgives nothing, and two policies that alternate never add up to more than
//! the larger. Rounding always goes against admission, and never against the told wait: who waits for exactly as long
//! as a refusal says is admitted.
//!
//! Pure: no clock is read here. Giving back is in `give_back.rs`, the stored row in `row.rs`.

use super::policy::{drained, span, Policy, LARGEST, TOKEN};

/// What a caller owes. No state at all means no debt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// Micro-tokens owed at `at`.
    pub owed: u64,
    /// The microsecond since 1970 at which it was counted.
    pub at: u64,
}

/// What the bucket says to one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The call runs, and this is owed afterwards.
    Admitted(Debt),
    /// Not yet.
    Refused {
        /// What is owed, as of now.
        debt: Debt,
        /// Microseconds from now until the same question would be admitted; 0 is never told.
        wait: u64,
    },
    /// Never: the cost is above the capacity.
    NeverFits,
}

impl Debt {
    /// The debt as of `now`. A clock that went back is taken as no time passed, and the new time counts from here on,
    /// which bounds what a wrong clock can lock out to one full refill.
    pub fn as_of(self, policy: Policy, now: u64) -> Self {
        self.drained(policy.refill(), now)
    }

    /// The same, where all that is known of the policy is what drains each second.
    pub fn drained(self, refill: u64, now: u64) -> Self {
        Self { owed: self.owed.saturating_sub(drained(now.saturating_sub(self.at), refill)), at: now }
    }

    /// The microsecond at which nothing is owed any more, if nothing is added; at the latest in the year 2255, so that it
    /// can be stored and an alarm set to it.
    pub fn rests_at(self, refill: u64) -> u64 {
        self.at.saturating_add(span(self.owed, refill)).min(LARGEST.saturating_mul(2))
    }

    /// Whole tokens that can be spent at the moment of `self.at`.
    pub fn remaining(self, policy: Policy) -> u64 {
        policy.capacity().saturating_sub(self.owed) / TOKEN
    }

    /// Microseconds from `self.at` until one more whole token can be spent; 0 when the bucket is full.
    pub fn next_token(self, policy: Policy) -> u64 {
        let one_more = self.remaining(policy).saturating_add(1).saturating_mul(TOKEN);
        let enough = policy.capacity().saturating_sub(one_more);
        if self.owed == 0 {
            0
        } else {
            span(self.owed.saturating_sub(enough), policy.refill())
        }
    }
}

/// Asks whether a call of `cost` micro-tokens may run at `now` (microseconds). A cost of nothing is always admitted.
pub fn ask(debt: Debt, policy: Policy, cost: u64, now: u64) -> Verdict {
    let current = debt.as_of(policy, now);
    if cost == 0 {
        return Verdict::Admitted(current);
    }
    if cost > policy.capacity() {
        return Verdict::NeverFits;
    }
    let wanted = current.owed.saturating_add(cost);
    if wanted <= policy.capacity() {
        return Verdict::Admitted(Debt { owed: wanted, at: now });
    }
    // The wait is counted from the stored debt, not from the rounded current one: only then is the told instant exact.
    let counted = Debt { at: debt.at.min(now), ..debt };
    let too_much = counted.owed.saturating_add(cost).saturating_sub(policy.capacity());
    let ready = counted.at.saturating_add(span(too_much, policy.refill()));
    Verdict::Refused { debt: current, wait: ready.saturating_sub(now) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::SECOND;

    const NOW: u64 = 1_796_000_000 * SECOND;

    fn default_policy() -> Policy {
        Policy::new(30 * TOKEN, TOKEN / 2).unwrap()
    }

    #[test]
    fn thirty_calls_run_and_the_next_waits_two_seconds() {
        let mut debt = Debt::default();
        for _ in 0..30 {
            match ask(debt, default_policy(), TOKEN, NOW) {
                Verdict::Admitted(after) => debt = after,
                other => panic!("{other:?}"),
            }
        }
        let refused = ask(debt, default_policy(), TOKEN, NOW);
        assert_eq!(refused, Verdict::Refused { debt, wait: 2 * SECOND });
        assert!(matches!(ask(debt, default_policy(), TOKEN, NOW + 2 * SECOND - 1), Verdict::Refused { wait: 1, .. }));
        assert!(matches!(ask(debt, default_policy(), TOKEN, NOW + 2 * SECOND), Verdict::Admitted(_)));
    }

    // https://github.com/boinkor-net/governor/issues/107: the refill instant itself must admit.
    #[test]
    fn the_refill_instant_itself_admits() {
        let policy = Policy::new(TOKEN, TOKEN).unwrap();
        let debt = Debt { owed: TOKEN, at: NOW };
        assert!(matches!(ask(debt, policy, TOKEN, NOW + SECOND - 1), Verdict::Refused { wait: 1, .. }));
        assert!(matches!(ask(debt, policy, TOKEN, NOW + SECOND), Verdict::Admitted(Debt { owed: TOKEN, .. })));
    }

    #[test]
    fn a_cost_above_the_capacity_never_fits_and_one_equal_to_it_does() {
        let policy = default_policy();
        assert_eq!(ask(Debt::default(), policy, 30 * TOKEN + 1, NOW), Verdict::NeverFits);
        assert!(matches!(ask(Debt::default(), policy, 30 * TOKEN, NOW), Verdict::Admitted(_)));
    }

    #[test]
    fn a_call_that_costs_nothing_runs_even_on_a_debt_above_the_capacity() {
        let policy = Policy::new(TOKEN, TOKEN).unwrap();
        let debt = Debt { owed: 5 * TOKEN, at: NOW };
        assert_eq!(ask(debt, policy, 0, NOW), Verdict::Admitted(debt));
    }

    #[test]
    fn a_clock_that_stepped_back_an_hour_locks_out_for_no_more_than_one_refill() {
        let policy = default_policy();
        let debt = Debt { owed: 30 * TOKEN, at: NOW };
        let back = NOW - 3_600 * SECOND;
        let Verdict::Refused { debt: counted, wait } = ask(debt, policy, TOKEN, back) else { panic!("admitted") };
        assert_eq!(counted, Debt { owed: 30 * TOKEN, at: back }, "the new time is what is written");
        assert_eq!(wait, 2 * SECOND);
        assert!(matches!(ask(counted, policy, TOKEN, back + wait), Verdict::Admitted(_)));
        assert_eq!(counted.rests_at(policy.refill()), back + 60 * SECOND);
    }

    #[test]
    fn a_smaller_capacity_forgives_nothing() {
        let small = Policy::new(10 * TOKEN, TOKEN).unwrap();
        let debt = Debt { owed: 30 * TOKEN, at: NOW };
        assert!(matches!(ask(debt, small, TOKEN, NOW), Verdict::Refused { wait, .. } if wait == 21 * SECOND));
    }

    #[test]
    fn a_larger_capacity_gives_the_difference_and_no_more() {
        let large = Policy::new(40 * TOKEN, TOKEN).unwrap();
        let debt = Debt { owed: 30 * TOKEN, at: NOW };
        assert!(matches!(ask(debt, large, 10 * TOKEN, NOW), Verdict::Admitted(_)));
        assert!(matches!(ask(debt, large, 10 * TOKEN + 1, NOW), Verdict::Refused { wait: 1, .. }));
    }

    #[test]
    fn a_debt_that_outlives_every_clock_still_has_an_instant_at_which_it_rests() {
        let debt = Debt { owed: LARGEST, at: NOW };
        assert_eq!(debt.rests_at(1), 2 * LARGEST);
        assert_eq!(debt.rests_at(0), 2 * LARGEST);
    }

    #[test]
    fn what_is_left_and_when_the_next_token_comes() {
        let policy = default_policy();
        let full = Debt { owed: 0, at: NOW };
        assert_eq!((full.remaining(policy), full.next_token(policy)), (30, 0));
        let one_used = Debt { owed: TOKEN, at: NOW };
        assert_eq!((one_used.remaining(policy), one_used.next_token(policy)), (29, 2 * SECOND));
        let part_used = Debt { owed: TOKEN / 4, at: NOW };
        assert_eq!((part_used.remaining(policy), part_used.next_token(policy)), (29, SECOND / 2));
        let empty = Debt { owed: 30 * TOKEN, at: NOW };
        assert_eq!((empty.remaining(policy), empty.next_token(policy)), (0, 2 * SECOND));
        let over = Debt { owed: 31 * TOKEN, at: NOW };
        assert_eq!((over.remaining(policy), over.next_token(policy)), (0, 4 * SECOND));
        assert_eq!(empty.rests_at(policy.refill()), NOW + 60 * SECOND);
    }
}
