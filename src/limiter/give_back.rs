//! Giving back what a call was charged and did not use: it was never sent, or another allowance refused it.
//!
//! What comes back is told by a receipt, which the verdict gave. Debt drains oldest first, so what is left of a charge is
//! what is owed less what was charged after it. What comes back is that part of its cost, once; so giving back never mints
//! a token, under whatever policy either was asked. Of what was charged later some may have been given back too: that is
//! not looked at, which gives back too little, never too much.

use super::bucket::Debt;
use super::policy::SECOND;
use serde::{Deserialize, Serialize};

/// For how long a receipt is good, in microseconds: a little longer than the longest deadline of the question after it.
pub const GOOD_FOR: u64 = 65 * SECOND;

/// How many receipts are remembered as used. When there are more, nothing is given back until some are too old to be used.
pub const MOST_RETURNED: usize = 1_000;

/// What was charged since a bucket was made, in micro-tokens, whether it drained since or not. Unused while nobody asks for
/// receipts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The microsecond of the first charge.
    pub since: u64,
    /// All charges together.
    pub charged: u64,
}

/// What one bucket charged for a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// Whose bucket: a tool's, or with an empty name the caller's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// Micro-tokens.
    pub cost: u64,
    /// The ledger's sum with this cost in it.
    pub after: u64,
}

/// What one quota counted for a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Whose quota: a tool's, or with an empty name the caller's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// How many calls.
    pub calls: u64,
}

/// What a verdict tells of a call that it charged, and what is sent to have it back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Random, below 2^52.
    pub id: u64,
    /// The microsecond at which it was charged.
    pub at: u64,
    /// Bucket by bucket.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub charges: Vec<Charge>,
    /// Quota by quota.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<Counted>,
    /// Whether it is worth something only while nothing was charged later: a place in a queue, which those behind have counted on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last_only: bool,
}

/// A receipt that was used. It is remembered while something of it could come back a second time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// Its id.
    pub id: u64,
    /// When it is too old to be used again.
    pub until: u64,
    /// What it was for, when that was buckets alone: what has nothing left never has again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub charges: Vec<Charge>,
}

impl Ledger {
    /// Whether nobody ever asked for a receipt.
    pub fn is_unused(&self) -> bool {
        *self == Self::default()
    }

    /// Enters a charge of `cost` micro-tokens made at `now` (microseconds), and tells the sum with it.
    pub fn enter(&mut self, cost: u64, now: u64) -> u64 {
        if self.charged == 0 {
            self.since = now;
        }
        self.charged = self.charged.saturating_add(cost);
        self.charged
    }

    /// What of `charge`, made at `at`, is left to give back; `debt` is as of now.
    pub fn left(&self, debt: Debt, charge: &Charge, at: u64) -> u64 {
        let known = at >= self.since && charge.after <= self.charged;
        let later = self.charged.saturating_sub(charge.after);
        if known {
            charge.cost.min(debt.owed.saturating_sub(later))
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::TOKEN;

    const NOW: u64 = 1_796_000_000 * SECOND;

    fn charge(ledger: &mut Ledger, tokens: u64, now: u64) -> Charge {
        let cost = tokens * TOKEN;
        Charge { tool: String::new(), cost, after: ledger.enter(cost, now) }
    }

    fn left(ledger: &Ledger, tokens: u64, charge: &Charge, at: u64) -> u64 {
        ledger.left(Debt { owed: tokens * TOKEN, at: NOW }, charge, at) / TOKEN
    }

    #[test]
    fn a_receipt_is_good_for_longer_than_any_question_is_waited_for() {
        assert_eq!(GOOD_FOR, 65_000_000);
    }

    #[test]
    fn what_was_just_charged_comes_back_whole() {
        let mut ledger = Ledger::default();
        let one = charge(&mut ledger, 20, NOW);
        let two = charge(&mut ledger, 5, NOW);
        assert_eq!(left(&ledger, 25, &two, NOW), 5);
        assert_eq!(left(&ledger, 25, &one, NOW), 20);
        assert_eq!(left(&ledger, 20, &one, NOW), 15, "as if the other still lay above it");
    }

    #[test]
    fn what_has_drained_meanwhile_does_not_come_back() {
        let mut ledger = Ledger::default();
        let one = charge(&mut ledger, 10, NOW);
        charge(&mut ledger, 10, NOW);
        assert_eq!(left(&ledger, 14, &one, NOW), 4, "six had drained");
        assert_eq!(left(&ledger, 9, &one, NOW), 0);
    }

    #[test]
    fn a_charge_of_another_bucket_gives_nothing() {
        let mut ledger = Ledger::default();
        let one = charge(&mut ledger, 10, NOW);
        assert_eq!(left(&ledger, 10, &one, NOW), 10);
        assert_eq!(left(&ledger, 10, &one, NOW - 1), 0, "it was made before the bucket was");
        let unheard_of = Charge { after: one.after + 1, ..one.clone() };
        assert_eq!(left(&ledger, 10, &unheard_of, NOW), 0);
        charge(&mut ledger, 1, NOW + SECOND);
        assert_eq!(ledger.since, NOW, "a bucket begins with its first charge");
    }

    #[test]
    fn what_is_stored_and_sent_is_what_it_always_was() {
        let stored = r#"{"since":5,"charged":7}"#;
        assert_eq!(serde_json::to_string(&Ledger { since: 5, charged: 7 }).unwrap(), stored);
        let receipt = Receipt {
            id: 1,
            at: 2,
            charges: vec![Charge { tool: "echo".into(), cost: 3, after: 4 }],
            counted: vec![Counted { tool: String::new(), calls: 5 }],
            last_only: false,
        };
        let sent = r#"{"id":1,"at":2,"charges":[{"tool":"echo","cost":3,"after":4}],"counted":[{"calls":5}]}"#;
        assert_eq!(serde_json::to_string(&receipt).unwrap(), sent);
        assert_eq!(serde_json::from_str::<Receipt>(sent).unwrap(), receipt);
        assert!(Ledger::default().is_unused() && !Ledger { since: 0, charged: 1 }.is_unused());
    }
}
