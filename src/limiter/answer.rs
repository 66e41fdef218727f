//! What a caller's object answers, as JSON.
//!
//! During a deploy front and object can be of different versions, so unknown fields are ignored, and a field that is added
//! later needs a default. The literal form is pinned by the tests below. Amounts are micro-tokens, instants and spans
//! microseconds (`policy.rs`). An empty tool name is the caller itself.

use super::give_back::Receipt;
use super::operator::Override;
use super::policy::{span, LARGEST};
use super::question::Question;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the object answers to a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the calls run; they have been charged then.
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
    /// Which limit refused; absent when it was the caller's bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
    /// What is owed to the tools' buckets that were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, u64>,
    /// What is used of the quotas that were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quotas: BTreeMap<String, u64>,
    /// How many calls are running, these included, of the slots that were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slots: BTreeMap<String, u64>,
    /// With which this can be given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    /// What the operator decided for this caller: the numbers that this was decided by.
    #[serde(default, rename = "override", skip_serializing_if = "Option::is_none")]
    pub held: Option<Override>,
}

/// A limit that refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct By {
    /// What kind of limit.
    pub kind: Kind,
    /// Whose.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
}

/// A kind of limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Tokens that come back.
    Bucket,
    /// Calls in a window.
    Quota,
    /// Calls at the same time.
    Slots,
    /// Nothing at all: the operator has blocked the caller.
    Blocked,
}

impl Answer {
    /// What a bucket with nothing left answers to `question` at `now` (microseconds).
    pub fn of_empty_bucket(question: &Question, now: u64) -> Self {
        let wait = span(question.cost, question.refill);
        Self { debt: question.capacity, at: now, wait, ..Self::default() }
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
        let blocked = self.by.as_ref().is_some_and(|by| by.kind == Kind::Blocked);
        if question.is_free() && !blocked {
            return Some("what is free was refused");
        }
        match &self.by {
            None => self.fault_of_bucket(question.cost, question.capacity, question.refill),
            Some(by) => self.fault_of(by, question),
        }
    }

    /// A refusal by the caller's own bucket has to be explained by the debt that it tells.
    fn fault_of_bucket(&self, cost: u64, capacity: u64, refill: u64) -> Option<&'static str> {
        let too_much = self.debt.saturating_add(cost).saturating_sub(capacity);
        if too_much == 0 {
            return Some("a call was refused that fits");
        }
        if cost <= capacity && (self.wait == 0 || self.wait > span(too_much, refill)) {
            return Some("a refusal told a wait that its debt doesn't explain");
        }
        None
    }

    /// One by another limit has to name one that was asked for.
    fn fault_of(&self, by: &By, question: &Question) -> Option<&'static str> {
        let asked = match by.kind {
            Kind::Bucket => question.tools.iter().any(|bucket| bucket.tool == by.tool && bucket.cost > 0),
            Kind::Quota => question.quotas.iter().any(|quota| quota.tool == by.tool && quota.calls > 0),
            Kind::Blocked => self.held.is_some_and(|held| held.blocked) && self.wait > 0,
            Kind::Slots => question.slots.iter().any(|slots| slots.tool == by.tool && slots.calls > 0),
        };
        (!asked).then_some("a limit refused that wasn't asked for")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::{Policy, TOKEN};
    use crate::limiter::question::{QuotaAsked, SlotsAsked, ToolBucket};
    use crate::limiter::quota::Window;

    const ANSWER: &str = r#"{"admitted":false,"debt":30000000,"at":1796000000000000,"wait":2000000,"rows":0}"#;

    fn question() -> Question {
        Question::new(Policy::new(30 * TOKEN, TOKEN / 2).unwrap(), TOKEN)
    }

    fn full() -> Question {
        let (tool, calls) = ("render".to_owned(), 1);
        Question {
            tools: vec![ToolBucket { tool: tool.clone(), cost: 1, capacity: 2, refill: 3 }],
            quotas: vec![QuotaAsked { tool: String::new(), calls, limit: 5, window: Window::Month }],
            slots: vec![SlotsAsked { tool, calls, limit: 6, poll: 7 }],
            ..question()
        }
    }

    #[test]
    fn the_answer_is_what_it_always_was() {
        let answer: Answer = serde_json::from_str(ANSWER).unwrap();
        assert_eq!(serde_json::to_string(&answer).unwrap(), ANSWER);
        let older: Answer = serde_json::from_str(r#"{"admitted":true,"debt":1000000,"at":5}"#).unwrap();
        assert_eq!(older, Answer { admitted: true, debt: TOKEN, at: 5, ..Answer::default() });
    }

    #[test]
    fn a_full_answer_is_what_it_always_was() {
        let text = concat!(
            r#"{"admitted":false,"debt":0,"at":1,"wait":2,"rows":0,"by":{"kind":"slots","tool":"render"},"#,
            r#""tools":{"render":3},"quotas":{"":4},"slots":{"render":5},"receipt":{"id":6,"at":7}}"#
        );
        let answer: Answer = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&answer).unwrap(), text);
        assert_eq!(answer.by, Some(By { kind: Kind::Slots, tool: "render".into() }));
    }

    #[test]
    fn nonsense_is_seen_and_every_sound_answer_passes() {
        let asked = question();
        let sound =
            || Answer { admitted: true, debt: 30 * TOKEN, at: LARGEST * 2, wait: 0, rows: 1, ..Answer::default() };
        assert_eq!(sound().fault(&asked), None);
        assert_eq!(Answer { debt: TOKEN, ..sound() }.fault(&asked), None);
        assert!(Answer { debt: TOKEN - 1, ..sound() }.fault(&asked).is_some());
        assert!(Answer { debt: 30 * TOKEN + 1, ..sound() }.fault(&asked).is_some());
        assert!(Answer { at: LARGEST * 2 + 1, ..sound() }.fault(&asked).is_some());
        let refused = || Answer { admitted: false, debt: 30 * TOKEN, at: 0, wait: 2_000_000, ..Answer::default() };
        assert_eq!(refused().fault(&asked), None);
        assert_eq!(Answer { wait: 1, ..refused() }.fault(&asked), None, "a debt is told as of now, rounded");
        assert_eq!(Answer { debt: LARGEST, wait: LARGEST, ..refused() }.fault(&asked), None);
        for nonsense in [
            Answer { debt: LARGEST + 1, ..refused() },
            Answer { debt: LARGEST, wait: LARGEST + 1, ..refused() },
            Answer { wait: 0, ..refused() },
            Answer { wait: 2_000_001, ..refused() },
            Answer { debt: 29 * TOKEN, ..refused() },
            Answer { debt: 0, ..refused() },
        ] {
            assert!(nonsense.fault(&asked).is_some(), "{nonsense:?}");
        }
        let free = Question { cost: 0, ..question() };
        assert_eq!(Answer { debt: 0, ..sound() }.fault(&free), None, "asking for nothing leaves any debt");
        assert_eq!(Answer { debt: 31 * TOKEN, ..sound() }.fault(&free), None);
        assert!(Answer { debt: 31 * TOKEN, ..refused() }.fault(&free).is_some(), "what is free is never refused");
        let huge = Question { cost: 31 * TOKEN, ..question() };
        assert_eq!(Answer { wait: 0, debt: 0, ..refused() }.fault(&huge), None, "what never fits has no wait");
        let exact = Question { cost: 30 * TOKEN, ..question() };
        assert!(Answer { wait: 0, ..refused() }.fault(&exact).is_some());
    }

    #[test]
    fn what_became_free_by_the_operators_word_may_be_blocked_by_it() {
        let held = Override { until: 9, blocked: true, ..Override::default() };
        let by = Some(By { kind: Kind::Blocked, tool: String::new() });
        let refused = Answer { by, held: Some(held), wait: 1, ..Answer::default() };
        let free = Question { cost: 0, ..question() };
        assert_eq!(refused.fault(&free), None);
        assert!(Answer { wait: 0, ..refused.clone() }.fault(&free).is_some(), "until that is over");
        assert!(Answer { held: None, ..refused }.fault(&free).is_some());
    }

    #[test]
    fn a_refusal_by_a_limit_that_wasnt_asked_for_is_nonsense() {
        let refused = |kind, tool: &str| {
            let by = Some(By { kind, tool: tool.to_owned() });
            Answer { by, wait: 1, ..Answer::default() }.fault(&full()).is_some()
        };
        assert!(!refused(Kind::Bucket, "render") && !refused(Kind::Quota, "") && !refused(Kind::Slots, "render"));
        assert!(refused(Kind::Bucket, "echo") && refused(Kind::Quota, "render") && refused(Kind::Slots, ""));
        let mut free = full();
        (free.tools[0].cost, free.quotas[0].calls, free.slots[0].calls) = (0, 0, 0);
        for (kind, tool) in [(Kind::Bucket, "render"), (Kind::Quota, ""), (Kind::Slots, "render")] {
            let by = Some(By { kind, tool: tool.to_owned() });
            assert!(Answer { by, wait: 1, ..Answer::default() }.fault(&free).is_some(), "nothing was wanted of it");
        }
    }

    #[test]
    fn a_bucket_with_nothing_left_answers_what_its_object_could() {
        let question = question();
        let answer = Answer::of_empty_bucket(&question, 1_796_000_000_000_000);
        assert_eq!((answer.admitted, answer.debt, answer.wait, answer.rows), (false, 30 * TOKEN, 2_000_000, 0));
        assert_eq!(answer.fault(&question), None);
    }
}
