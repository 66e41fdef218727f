//! What the front and a caller's object say to each other, as JSON.
//!
//! During a deploy the two can be of different versions, so unknown fields are ignored, and a field that is added
//! later needs a default. The literal forms are pinned by the tests below. Amounts are micro-tokens, instants and
//! spans microseconds (`policy.rs`).

use super::bucket::{Debt, Verdict};
use super::policy::{span, Policy, PolicyFault, LARGEST};
use serde::{Deserialize, Serialize};

/// May a call of this cost run? The policy comes with the question, since the object has no configuration of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Micro-tokens; 0 asks without charging.
    pub cost: u64,
    /// Micro-tokens that the bucket holds.
    pub capacity: u64,
    /// Micro-tokens that come back each second.
    pub refill: u64,
}

impl Question {
    /// The question that `policy` and `cost` make.
    pub fn new(policy: Policy, cost: u64) -> Self {
        Self { cost, capacity: policy.capacity(), refill: policy.refill() }
    }

    /// The policy in it, checked again: a message is input like any other.
    pub fn policy(&self) -> Result<Policy, PolicyFault> {
        Policy::new(self.capacity, self.refill)
    }
}

/// What the object answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the call runs; it has been charged then.
    pub admitted: bool,
    /// Micro-tokens owed, with the cost when it was admitted.
    pub debt: u64,
    /// The object's clock.
    pub at: u64,
    /// Microseconds until the same question would be admitted; 0 when it was, and when it never will be.
    #[serde(default)]
    pub wait: u64,
    /// Rows that this question wrote, as they are billed (an alarm is one).
    #[serde(default)]
    pub rows: u64,
}

impl Answer {
    /// The answer that tells `verdict`, given at `now`, after `rows` were written.
    pub fn new(verdict: Verdict, debt: Debt, rows: u64) -> Self {
        let (admitted, debt, wait) = match verdict {
            Verdict::Admitted(after) => (true, after, 0),
            // A debt far above a new and slow policy may take longer than can be told; 142 years will do.
            Verdict::Refused { debt, wait } => (false, debt, wait.min(LARGEST)),
            Verdict::NeverFits => (false, debt, 0),
        };
        Self { admitted, debt: debt.owed, at: debt.at, wait, rows }
    }

    /// What is wrong with it as an answer to `question`, if anything: an object that talks nonsense has not answered.
    pub fn fault(&self, question: &Question) -> Option<&'static str> {
        if self.debt > LARGEST || self.at > LARGEST.saturating_mul(2) || self.wait > LARGEST {
            return Some("an amount is out of bounds");
        }
        if self.admitted && question.cost > 0 && (self.debt < question.cost || self.debt > question.capacity) {
            return Some("an admitted call left an impossible debt");
        }
        if self.admitted {
            return None;
        }
        if question.cost == 0 {
            return Some("what is free was refused");
        }
        let too_much = self.debt.saturating_add(question.cost).saturating_sub(question.capacity);
        if too_much == 0 {
            return Some("a call was refused that fits");
        }
        let fits_some_day = question.cost <= question.capacity;
        if fits_some_day && (self.wait == 0 || self.wait > span(too_much, question.refill)) {
            return Some("a refusal told a wait that its debt doesn't explain");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::TOKEN;

    const QUESTION: &str = r#"{"cost":1000000,"capacity":30000000,"refill":500000}"#;
    const ANSWER: &str = r#"{"admitted":false,"debt":30000000,"at":1796000000000000,"wait":2000000,"rows":0}"#;

    fn question() -> Question {
        Question::new(Policy::new(30 * TOKEN, TOKEN / 2).unwrap(), TOKEN)
    }

    #[test]
    fn the_messages_are_what_they_always_were() {
        assert_eq!(serde_json::to_string(&question()).unwrap(), QUESTION);
        assert_eq!(serde_json::from_str::<Question>(QUESTION).unwrap(), question());
        let answer: Answer = serde_json::from_str(ANSWER).unwrap();
        assert_eq!(serde_json::to_string(&answer).unwrap(), ANSWER);
    }

    #[test]
    fn a_newer_version_may_add_fields_and_an_older_one_may_lack_some() {
        let newer = r#"{"cost":1000000,"capacity":30000000,"refill":500000,"quota":{"limit":5}}"#;
        assert_eq!(serde_json::from_str::<Question>(newer).unwrap(), question());
        let older: Answer = serde_json::from_str(r#"{"admitted":true,"debt":1000000,"at":5}"#).unwrap();
        assert_eq!(older, Answer { admitted: true, debt: TOKEN, at: 5, wait: 0, rows: 0 });
    }

    #[test]
    fn a_question_with_an_impossible_policy_is_seen() {
        let fault = Question { cost: 1, capacity: 0, refill: 1 }.policy();
        assert_eq!(fault, Err(PolicyFault::NoCapacity));
        assert_eq!(question().policy(), Policy::new(30 * TOKEN, TOKEN / 2));
    }

    #[test]
    fn each_verdict_becomes_its_answer() {
        let debt = Debt { owed: 7, at: 9 };
        let admitted = Answer::new(Verdict::Admitted(debt), Debt::default(), 2);
        assert_eq!(admitted, Answer { admitted: true, debt: 7, at: 9, wait: 0, rows: 2 });
        let refused = Answer::new(Verdict::Refused { debt, wait: 3 }, Debt::default(), 0);
        assert_eq!(refused, Answer { admitted: false, debt: 7, at: 9, wait: 3, rows: 0 });
        let long = Answer::new(Verdict::Refused { debt, wait: u64::MAX }, Debt::default(), 0);
        assert_eq!(long.wait, LARGEST);
        let never = Answer::new(Verdict::NeverFits, debt, 0);
        assert_eq!(never, Answer { admitted: false, debt: 7, at: 9, wait: 0, rows: 0 });
    }

    #[test]
    fn nonsense_is_seen_and_every_sound_answer_passes() {
        let asked = question();
        let sound = Answer { admitted: true, debt: 30 * TOKEN, at: LARGEST * 2, wait: 0, rows: 1 };
        assert_eq!(sound.fault(&asked), None);
        assert_eq!(Answer { debt: TOKEN, ..sound }.fault(&asked), None);
        assert!(Answer { debt: TOKEN - 1, ..sound }.fault(&asked).is_some());
        assert!(Answer { debt: 30 * TOKEN + 1, ..sound }.fault(&asked).is_some());
        assert!(Answer { at: LARGEST * 2 + 1, ..sound }.fault(&asked).is_some());
        let refused = Answer { admitted: false, debt: 30 * TOKEN, at: 0, wait: 2_000_000, rows: 0 };
        assert_eq!(refused.fault(&asked), None);
        assert_eq!(Answer { wait: 1, ..refused }.fault(&asked), None, "a debt is told as of now, rounded");
        assert_eq!(Answer { debt: LARGEST, wait: LARGEST, ..refused }.fault(&asked), None);
        for nonsense in [
            Answer { debt: LARGEST + 1, ..refused },
            Answer { debt: LARGEST, wait: LARGEST + 1, ..refused },
            Answer { wait: 0, ..refused },
            Answer { wait: 2_000_001, ..refused },
            Answer { debt: 29 * TOKEN, ..refused },
            Answer { debt: 0, ..refused },
        ] {
            assert!(nonsense.fault(&asked).is_some(), "{nonsense:?}");
        }
        let free = Question { cost: 0, ..asked };
        assert_eq!(Answer { debt: 0, ..sound }.fault(&free), None, "asking for nothing leaves any debt");
        assert_eq!(Answer { debt: 31 * TOKEN, ..sound }.fault(&free), None);
        assert!(Answer { debt: 31 * TOKEN, ..refused }.fault(&free).is_some(), "what is free is never refused");
        let huge = Question { cost: 31 * TOKEN, ..asked };
        assert_eq!(Answer { wait: 0, debt: 0, ..refused }.fault(&huge), None, "what never fits has no wait");
        let exact = Question { cost: 30 * TOKEN, ..asked };
        assert!(Answer { wait: 0, ..refused }.fault(&exact).is_some());
    }
}
