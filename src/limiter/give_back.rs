//! Giving back what a call was charged and did not use: it was never sent, or another allowance refused it.
//!
//! Debt drains oldest first. What comes back is the part of the call's cost that hasn't drained yet, once; so giving
//! back never mints a token. What was given back meanwhile lay in the debt too: it is taken off as if all of it had
//! lain below this charge, which can give back too little, never too much. Nothing asks for this yet: a caller's own
//! bucket is the only allowance, and the first that is shared brings the message to the object.

use super::bucket::Debt;
use super::policy::{drained, span, Policy};

/// What a verdict told of a call that was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Made by the asker, never used twice.
    pub id: u64,
    /// The microsecond at which it was charged.
    pub at: u64,
    /// Micro-tokens owed afterwards, the cost included.
    pub owed_after: u64,
    /// Micro-tokens.
    pub cost: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Returned {
    id: u64,
    at: u64,
    amount: u64,
}

/// What was given back in this busy period. It is forgotten with the debt, when all of that has drained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    since: u64,
    returned: Vec<Returned>,
}

impl Ledger {
    /// To be told of each charge before it is made: a charge on no debt begins a new busy period.
    pub fn charging(&mut self, owed_before: u64, now: u64) {
        if owed_before == 0 {
            self.since = now;
            // What came back in this very instant may be asked for again in it.
            self.returned.retain(|returned| returned.at >= now);
        }
    }

    /// Gives back what is left of `charge` at `now` (microseconds), and tells what is owed then.
    pub fn give_back(&mut self, debt: Debt, policy: Policy, charge: Charge, now: u64) -> Debt {
        let current = debt.as_of(policy, now);
        let oldest = now.saturating_sub(span(policy.capacity(), policy.refill()));
        self.returned.retain(|returned| returned.at >= oldest);
        if charge.at < self.since || charge.at > now || self.returned.iter().any(|returned| returned.id == charge.id) {
            return current;
        }
        let meanwhile: u64 =
            self.returned.iter().filter(|r| r.at >= charge.at).fold(0, |sum, r| sum.saturating_add(r.amount));
        // Rounded up: what may have drained has.
        let gone = drained(now.saturating_sub(charge.at), policy.refill()).saturating_add(1).saturating_add(meanwhile);
        let gone = if now == charge.at { meanwhile } else { gone };
        let amount = charge.cost.min(charge.owed_after.saturating_sub(gone)).min(current.owed);
        self.returned.push(Returned { id: charge.id, at: now, amount });
        Debt { owed: current.owed.saturating_sub(amount), at: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::bucket::{ask, Verdict};
    use crate::limiter::policy::{SECOND, TOKEN};

    const NOW: u64 = 1_796_000_000 * SECOND;

    fn policy() -> Policy {
        Policy::new(30 * TOKEN, TOKEN / 2).unwrap()
    }

    fn charge(debt: &mut Debt, ledger: &mut Ledger, id: u64, tokens: u64, now: u64) -> Charge {
        ledger.charging(debt.as_of(policy(), now).owed, now);
        let Verdict::Admitted(after) = ask(*debt, policy(), tokens * TOKEN, now) else { panic!("refused") };
        *debt = after;
        Charge { id, at: now, owed_after: after.owed, cost: tokens * TOKEN }
    }

    #[test]
    fn what_was_just_charged_comes_back_whole_and_once() {
        let (mut debt, mut ledger) = (Debt::default(), Ledger::default());
        let one = charge(&mut debt, &mut ledger, 1, 20, NOW);
        let two = charge(&mut debt, &mut ledger, 2, 5, NOW);
        let after = ledger.give_back(debt, policy(), two, NOW);
        assert_eq!(after, Debt { owed: 20 * TOKEN, at: NOW });
        assert_eq!(ledger.give_back(after, policy(), two, NOW), after, "twice gives nothing");
        assert_eq!(ledger.give_back(after, policy(), one, NOW).owed, 5 * TOKEN, "as if the other had lain below it");
    }

    #[test]
    fn what_has_drained_meanwhile_does_not_come_back() {
        let (mut debt, mut ledger) = (Debt::default(), Ledger::default());
        let one = charge(&mut debt, &mut ledger, 1, 10, NOW);
        let later = NOW + 12 * SECOND;
        charge(&mut debt, &mut ledger, 2, 10, later);
        let after = ledger.give_back(debt, policy(), one, later);
        assert_eq!(after.owed, 10 * TOKEN + 1, "six of the ten had drained, and the rest but a rounding comes back");
        let (mut debt, mut ledger) = (Debt::default(), Ledger::default());
        let old = charge(&mut debt, &mut ledger, 1, 10, NOW);
        charge(&mut debt, &mut ledger, 2, 10, NOW + 20 * SECOND);
        assert_eq!(ledger.give_back(debt, policy(), old, NOW + 20 * SECOND).owed, 10 * TOKEN);
    }

    // Three charges, the second given back: the third drains earlier than it knew, and would be given back out of a
    // fourth.
    #[test]
    fn giving_back_never_takes_from_a_later_charge() {
        let (mut debt, mut ledger) = (Debt::default(), Ledger::default());
        charge(&mut debt, &mut ledger, 1, 1, NOW);
        let two = charge(&mut debt, &mut ledger, 2, 1, NOW);
        let three = charge(&mut debt, &mut ledger, 3, 1, NOW);
        debt = ledger.give_back(debt, policy(), two, NOW);
        let later = NOW + 4 * SECOND;
        charge(&mut debt, &mut ledger, 4, 1, later);
        assert_eq!(ledger.give_back(debt, policy(), three, later).owed, TOKEN);
    }

    #[test]
    fn a_charge_of_the_future_or_of_an_earlier_busy_period_gives_nothing() {
        let (mut debt, mut ledger) = (Debt::default(), Ledger::default());
        let one = charge(&mut debt, &mut ledger, 1, 10, NOW);
        assert_eq!(ledger.give_back(debt, policy(), one, NOW - 1).owed, 10 * TOKEN);
        charge(&mut debt, &mut ledger, 2, 10, NOW + 20 * SECOND);
        assert_eq!(
            ledger.give_back(debt, policy(), Charge { owed_after: 30 * TOKEN, ..one }, NOW + 20 * SECOND).owed,
            10 * TOKEN
        );
    }

    #[test]
    fn a_new_busy_period_in_the_same_instant_gives_nothing_back_twice() {
        let (mut debt, mut ledger) = (Debt::default(), Ledger::default());
        let one = charge(&mut debt, &mut ledger, 1, 1, NOW);
        debt = ledger.give_back(debt, policy(), one, NOW);
        charge(&mut debt, &mut ledger, 2, 1, NOW);
        assert_eq!(ledger.give_back(debt, policy(), one, NOW).owed, TOKEN);
    }

    #[test]
    fn the_ledger_forgets_what_no_charge_can_need() {
        let (mut debt, mut ledger) = (Debt::default(), Ledger::default());
        for id in 0..10 {
            let now = NOW + id * 50 * SECOND;
            let extra = charge(&mut debt, &mut ledger, 100 + id, 20, now);
            let back = charge(&mut debt, &mut ledger, id, 1, now);
            debt = ledger.give_back(debt, policy(), back, now);
            assert!(ledger.returned.len() <= 2, "{extra:?}");
        }
        charge(&mut debt, &mut ledger, 1_000, 1, NOW + 10_000 * SECOND);
        assert!(ledger.returned.is_empty());
    }
}
