//! What the front asks a caller's object, as JSON.
//!
//! During a deploy front and object can be of different versions, so unknown fields are ignored, and a field that is added
//! later needs a default. The literal form is pinned by the tests below. Amounts are micro-tokens, instants and spans
//! microseconds (`policy.rs`). An empty tool name is the caller itself.

use super::policy::{Policy, PolicyFault};
use super::quota::{Quota, Window};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// May calls that take this much run? The policy comes with the question, since the object has no configuration of its
/// own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Micro-tokens; 0 asks without charging.
    pub cost: u64,
    /// Micro-tokens that the bucket holds; 0 when there is none.
    pub capacity: u64,
    /// Micro-tokens that come back each second; 0 when there is no bucket.
    pub refill: u64,
    /// Buckets of single tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolBucket>,
    /// Quotas, of the caller and of single tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaAsked>,
    /// Slots, of the caller and of single tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotsAsked>,
    /// The lease that the calls run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseAsked>,
    /// Random, below 2^52: the id of the lease, and of the receipt that is wanted then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
}

/// What calls take of one tool's bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolBucket {
    /// The tool.
    pub tool: String,
    /// As in [`Question`].
    pub cost: u64,
    /// As in [`Question`].
    pub capacity: u64,
    /// As in [`Question`].
    pub refill: u64,
}

/// What calls take of a quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaAsked {
    /// Whose.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// How many calls; 0 asks without counting.
    pub calls: u64,
    /// Calls that the window allows.
    pub limit: u64,
    /// Over which they are counted.
    pub window: Window,
}

/// What calls take of the slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotsAsked {
    /// Whose.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// How many calls; 0 asks without taking any.
    pub calls: u64,
    /// Calls that may run at the same time.
    pub limit: u64,
    /// After how long asking again makes sense, in microseconds.
    pub poll: u64,
}

/// The lease that calls run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseAsked {
    /// For how long at the most, in microseconds.
    pub us: u64,
    /// How many calls of which tools; with an empty name those that count for the caller.
    pub calls: BTreeMap<String, u64>,
}

impl Question {
    /// A question to the caller's bucket alone.
    pub fn new(policy: Policy, cost: u64) -> Self {
        Self { cost, capacity: policy.capacity(), refill: policy.refill(), ..Self::unlimited() }
    }

    /// A question that nothing limits yet.
    pub fn unlimited() -> Self {
        let (tools, quotas, slots) = Default::default();
        Self { cost: 0, capacity: 0, refill: 0, tools, quotas, slots, lease: None, id: None }
    }

    /// The policy of the caller's bucket, checked again: a message is input like any other. None when there is no bucket.
    pub fn policy(&self) -> Result<Option<Policy>, PolicyFault> {
        match (self.capacity, self.refill) {
            (0, 0) => Ok(None),
            (capacity, refill) => Policy::new(capacity, refill).map(Some),
        }
    }

    /// Whether nothing is charged, counted or taken.
    pub fn is_free(&self) -> bool {
        self.cost == 0
            && self.tools.iter().all(|bucket| bucket.cost == 0)
            && self.quotas.iter().all(|quota| quota.calls == 0)
            && self.slots.iter().all(|slots| slots.calls == 0)
    }
}

impl QuotaAsked {
    /// Its two numbers.
    pub fn quota(&self) -> Quota {
        Quota { limit: self.limit, window: self.window }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::TOKEN;

    const QUESTION: &str = r#"{"cost":1000000,"capacity":30000000,"refill":500000}"#;

    fn question() -> Question {
        Question::new(Policy::new(30 * TOKEN, TOKEN / 2).unwrap(), TOKEN)
    }

    fn full() -> Question {
        let (tool, calls) = ("render".to_owned(), 1);
        Question {
            tools: vec![ToolBucket { tool: tool.clone(), cost: 1, capacity: 2, refill: 3 }],
            quotas: vec![QuotaAsked { tool: String::new(), calls, limit: 5, window: Window::Month }],
            slots: vec![SlotsAsked { tool: tool.clone(), calls, limit: 6, poll: 7 }],
            lease: Some(LeaseAsked { us: 8, calls: [(tool, calls)].into() }),
            id: Some(9),
            ..question()
        }
    }

    #[test]
    fn the_question_is_what_it_always_was() {
        assert_eq!(serde_json::to_string(&question()).unwrap(), QUESTION);
        assert_eq!(serde_json::from_str::<Question>(QUESTION).unwrap(), question());
        let newer = r#"{"cost":1000000,"capacity":30000000,"refill":500000,"later":{"limit":5}}"#;
        assert_eq!(serde_json::from_str::<Question>(newer).unwrap(), question());
    }

    #[test]
    fn a_full_question_is_what_it_always_was() {
        let text = concat!(
            r#"{"cost":1000000,"capacity":30000000,"refill":500000,"#,
            r#""tools":[{"tool":"render","cost":1,"capacity":2,"refill":3}],"#,
            r#""quotas":[{"calls":1,"limit":5,"window":"month"}],"#,
            r#""slots":[{"tool":"render","calls":1,"limit":6,"poll":7}],"#,
            r#""lease":{"us":8,"calls":{"render":1}},"id":9}"#
        );
        assert_eq!(serde_json::to_string(&full()).unwrap(), text);
        assert_eq!(serde_json::from_str::<Question>(text).unwrap(), full());
    }

    #[test]
    fn a_question_with_an_impossible_policy_is_seen_and_one_without_a_bucket_is_none() {
        assert_eq!(Question { capacity: 0, ..question() }.policy(), Err(PolicyFault::NoCapacity));
        assert_eq!(Question { refill: 0, ..question() }.policy(), Err(PolicyFault::NoRefill));
        assert_eq!(question().policy(), Policy::new(30 * TOKEN, TOKEN / 2).map(Some));
        assert_eq!(Question::unlimited().policy(), Ok(None));
    }

    #[test]
    fn a_question_is_free_when_it_wants_nothing_of_anything() {
        assert!(Question { cost: 0, ..question() }.is_free() && Question::unlimited().is_free());
        assert!(!question().is_free());
        let none = || Question { cost: 0, tools: vec![], quotas: vec![], slots: vec![], ..full() };
        assert!(none().is_free());
        assert!(!Question { tools: full().tools, ..none() }.is_free());
        assert!(!Question { quotas: full().quotas, ..none() }.is_free());
        assert!(!Question { slots: full().slots, ..none() }.is_free());
    }
}
