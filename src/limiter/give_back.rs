//! Giving back what a call was charged and did not use: it was never sent, or another allowance refused it.
//!
//! Debt drains oldest first, so what is left of a charge is what is owed less what was charged after it. What comes back
//! is that part of its cost, once; so giving back never mints a token, under whatever policy either was asked. Of what
//! was charged later some may have been given back too: that is not looked at, which gives back too little, never too
//! much.
//!
//! Nothing asks for this yet: a caller's own bucket is the only allowance. The first that is shared has to put the ledger
//! into the row, and the charge into the messages.

use super::bucket::Debt;
use super::policy::Policy;

/// What a verdict would tell of a call that was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Never used twice.
    pub id: u64,
    /// The microsecond at which it was charged.
    pub at: u64,
    /// Micro-tokens.
    pub cost: u64,
    /// All micro-tokens that had been charged by then, this cost included, whether they drained since or not.
    pub charged_after: u64,
}

/// What was charged and given back since the bucket was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    since: u64,
    charged: u64,
    returned: Vec<Charge>,
}

impl Ledger {
    /// Enters a charge of `cost` micro-tokens, made at `now` (microseconds).
    pub fn charge(&mut self, id: u64, cost: u64, now: u64) -> Charge {
        if self.charged == 0 {
            self.since = now;
        }
        self.charged = self.charged.saturating_add(cost);
        Charge { id, at: now, cost, charged_after: self.charged }
    }

    /// Gives back what is left of `charge` at `now` (microseconds), and tells what is owed then.
    pub fn give_back(&mut self, debt: Debt, policy: Policy, charge: Charge, now: u64) -> Debt {
        let current = debt.as_of(policy, now);
        let charged = self.charged;
        let left = |charge: &Charge| {
            let later = charged.saturating_sub(charge.charged_after);
            charge.cost.min(current.owed.saturating_sub(later))
        };
        let known = charge.at >= self.since && charge.charged_after <= charged;
        if !known || self.returned.iter().any(|returned| returned.id == charge.id) {
            return current;
        }
        let owed = current.owed.saturating_sub(left(&charge));
        // What has nothing left never has again, so its id need not be kept.
        self.returned.retain(|returned| left(returned) > 0);
        self.returned.push(charge);
        Debt { owed, at: now }
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
        let Verdict::Admitted(after) = ask(*debt, policy(), tokens * TOKEN, now) else { panic!("refused") };
        *debt = after;
        ledger.charge(id, tokens * TOKEN, now)
    }

    #[test]
    fn what_was_just_charged_comes_back_whole_and_once() {
        let (mut debt, mut ledger) = (Debt::default(), Ledger::default());
        let one = charge(&mut debt, &mut ledger, 1, 20, NOW);
        let two = charge(&mut debt, &mut ledger, 2, 5, NOW);
        let after = ledger.give_back(debt, policy(), two, NOW);
        assert_eq!(after, Debt { owed: 20 * TOKEN, at: NOW });
        assert_eq!(ledger.give_back(after, policy(), two, NOW), after, "twice gives nothing");
        assert_eq!(ledger.give_back(after, policy(), one, NOW).owed, 5 * TOKEN, "as if the other still lay above it");
    }

    #[test]
    fn what_has_drained_meanwhile_does_not_come_back() {
        let (mut debt, mut ledger) = (Debt::default(), Ledger::default());
        let one = charge(&mut debt, &mut ledger, 1, 10, NOW);
        let later = NOW + 12 * SECOND;
        charge(&mut debt, &mut ledger, 2, 10, later);
        assert_eq!(
            ledger.give_back(debt, policy(), one, later).owed,
            10 * TOKEN,
            "six had drained, and four come back"
        );
    }

    #[test]
    fn nothing_is_minted_when_the_refill_changed_in_between() {
        let fast = Policy::new(30 * TOKEN, 10 * TOKEN).unwrap();
        let slow = Policy::new(30 * TOKEN, TOKEN / 10).unwrap();
        let mut ledger = Ledger::default();
        let one = ledger.charge(1, 10 * TOKEN, NOW);
        let later = NOW + 9 * SECOND / 10;
        let Verdict::Admitted(debt) = ask(Debt { owed: 10 * TOKEN, at: NOW }, fast, 10 * TOKEN, later) else {
            panic!()
        };
        ledger.charge(2, 10 * TOKEN, later);
        assert_eq!(debt.owed, 11 * TOKEN);
        assert_eq!(ledger.give_back(debt, slow, one, later).owed, 10 * TOKEN, "one token of the first was left");
    }

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
    fn a_charge_of_another_bucket_gives_nothing() {
        let (mut debt, mut ledger) = (Debt::default(), Ledger::default());
        let one = charge(&mut debt, &mut ledger, 1, 10, NOW);
        assert_eq!(ledger.give_back(debt, policy(), Charge { at: NOW - 1, ..one }, NOW).owed, 10 * TOKEN);
        let unheard_of = Charge { charged_after: one.charged_after + 1, ..one };
        assert_eq!(ledger.give_back(debt, policy(), unheard_of, NOW).owed, 10 * TOKEN);
        charge(&mut debt, &mut ledger, 2, 1, NOW + SECOND);
        assert_eq!(ledger.since, NOW, "a bucket begins with its first charge");
        assert_eq!(ledger.give_back(debt, policy(), one, NOW + SECOND).owed, TOKEN);
    }

    #[test]
    fn the_ledger_forgets_what_has_nothing_left() {
        let (mut debt, mut ledger) = (Debt::default(), Ledger::default());
        for id in 0..10 {
            let now = NOW + id * 100 * SECOND;
            let back = charge(&mut debt, &mut ledger, id, 1, now);
            debt = ledger.give_back(debt, policy(), back, now);
            assert_eq!(ledger.returned.len(), 1);
        }
        let first = charge(&mut debt, &mut ledger, 100, 5, NOW + 2_000 * SECOND);
        let second = charge(&mut debt, &mut ledger, 101, 5, NOW + 2_000 * SECOND);
        debt = ledger.give_back(debt, policy(), second, NOW + 2_000 * SECOND);
        debt = ledger.give_back(debt, policy(), first, NOW + 2_000 * SECOND);
        assert_eq!(debt.owed, 5 * TOKEN, "too little rather than too much");
        assert_eq!(ledger.returned.len(), 2, "what could still come back is remembered");
    }
}
