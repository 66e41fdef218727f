//! What the operator decides for one caller: numbers of its own, or none at all, for a time. It is kept in the caller's row.

use super::policy::{Policy, LARGEST};
use super::question::{Question, QuotaAsked};
use super::quota::{Quota, Usage};
use super::row::Row;
use super::slots::running;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What holds for a caller instead of what its questions say. What isn't given stays as they say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// The microsecond since 1970 at which it ends.
    pub until: u64,
    /// Nothing that costs anything runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocked: bool,
    /// The bucket's capacity, in micro-tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// What the bucket gets back each second, in micro-tokens; 0: no bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refill: Option<u64>,
    /// The quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// How many calls may run at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u64>,
}

/// What the operator asks of a caller's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// How does the caller stand?
    Show,
    /// Fill its buckets, and forget its quotas and leases.
    Clear,
    /// From now on this holds for it, in the place of what held before; with no time left, nothing does.
    Set(Override),
}

/// How a caller stands, as its object tells the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Micro-tokens owed.
    pub debt: u64,
    /// Micro-tokens owed to buckets of single tools.
    pub tools: BTreeMap<String, u64>,
    /// What counts against quotas.
    pub quotas: Vec<Usage>,
    /// How many calls are running.
    pub running: u64,
    /// What the operator decided.
    #[serde(rename = "override")]
    pub held: Option<Override>,
}

impl Override {
    /// Whether a limiter can have been told this.
    pub fn is_possible(&self) -> bool {
        let bucket = match (self.capacity, self.refill) {
            (Some(capacity), Some(refill)) if refill > 0 => Policy::new(capacity, refill).is_ok(),
            (capacity, refill) => capacity.unwrap_or(1) <= LARGEST && refill.unwrap_or(1) <= LARGEST,
        };
        bucket && self.until <= LARGEST
    }

    /// The question with the numbers that hold instead. One that makes no policy together with the question's other number
    /// changes nothing.
    pub fn apply(&self, question: &Question) -> Question {
        let mut question = question.clone();
        if self.refill == Some(0) {
            (question.cost, question.capacity, question.refill) = (0, 0, 0);
        } else if question.refill > 0 {
            let capacity = self.capacity.unwrap_or(question.capacity);
            let refill = self.refill.unwrap_or(question.refill);
            if Policy::new(capacity, refill).is_ok() {
                (question.capacity, question.refill) = (capacity, refill);
            }
        }
        if let Some(Quota { limit, window }) = self.quota {
            for asked in question.quotas.iter_mut().filter(|asked| asked.tool.is_empty()) {
                *asked = QuotaAsked { limit, window, ..asked.clone() };
            }
        }
        if let Some(limit) = self.max_in_flight {
            question.slots.iter_mut().filter(|asked| asked.tool.is_empty()).for_each(|asked| asked.limit = limit);
        }
        question
    }
}

/// Does what the operator asks, at `now` (microseconds): the row to write, if any, and how the caller stands then.
pub fn obey(row: Option<Row>, order: &Order, now: u64) -> (Option<Row>, State) {
    let found = row.is_some();
    let (mut row, _) = row.unwrap_or_else(|| Row::empty(now)).rebased(now);
    row.prune(now);
    let write = match order {
        Order::Show => false,
        Order::Clear => {
            row = Row { alarm: row.alarm, held: row.held, ..Row::empty(now) };
            found
        }
        Order::Set(held) => {
            row.held = Some(*held).filter(|held| held.until > now);
            found || row.held.is_some()
        }
    };
    let tools = row.tools.iter().map(|(tool, bucket)| (tool.clone(), bucket.owed().drained(bucket.refill, now).owed));
    let state = State {
        debt: row.bucket("").owed().drained(row.refill, now).owed,
        tools: tools.collect(),
        quotas: row.quotas.clone(),
        running: running(&row.leases, "", now),
        held: row.held,
    };
    (write.then_some(row), state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::answer::{By, Kind};
    use crate::limiter::decision::decide;
    use crate::limiter::policy::{SECOND, TOKEN};
    use crate::limiter::question::SlotsAsked;
    use crate::limiter::quota::Window;

    const NOW: u64 = 1_796_000_000 * SECOND;

    fn held() -> Override {
        Override { until: NOW + 60 * SECOND, ..Override::default() }
    }

    fn question() -> Question {
        let asked = |limit| QuotaAsked { tool: String::new(), calls: 1, limit, window: Window::Day };
        Question {
            quotas: vec![asked(5), QuotaAsked { tool: "render".into(), ..asked(6) }],
            slots: vec![SlotsAsked { tool: String::new(), calls: 1, limit: 2, poll: 5 }],
            ..Question::new(Policy::new(30 * TOKEN, TOKEN / 2).unwrap(), TOKEN)
        }
    }

    fn row(held: Override) -> Row {
        Row { held: Some(held), ..Row::empty(NOW) }
    }

    #[test]
    fn what_is_stored_and_sent_is_what_it_always_was() {
        let full = Override {
            until: 1,
            blocked: true,
            capacity: Some(2),
            refill: Some(3),
            quota: Some(Quota { limit: 4, window: Window::Hour }),
            max_in_flight: Some(5),
        };
        let text = r#"{"until":1,"blocked":true,"capacity":2,"refill":3,"quota":{"limit":4,"window":"hour"},"max_in_flight":5}"#;
        assert_eq!(serde_json::to_string(&full).unwrap(), text);
        assert_eq!(
            serde_json::from_str::<Override>(r#"{"until":1}"#).unwrap(),
            Override { until: 1, ..Override::default() }
        );
        assert_eq!(serde_json::to_string(&Order::Show).unwrap(), r#""show""#);
        assert_eq!(serde_json::to_string(&Order::Clear).unwrap(), r#""clear""#);
        assert_eq!(serde_json::to_string(&Order::Set(held())).unwrap(), r#"{"set":{"until":1796000060000000}}"#);
        let state = State { debt: 1, held: Some(held()), ..State::default() };
        let text = r#"{"debt":1,"tools":{},"quotas":[],"running":0,"override":{"until":1796000060000000}}"#;
        assert_eq!(serde_json::to_string(&state).unwrap(), text);
    }

    #[test]
    fn only_the_numbers_that_are_given_hold_instead() {
        assert_eq!(held().apply(&question()), question());
        let other =
            Override { capacity: Some(9 * TOKEN), quota: Some(Quota { limit: 1, window: Window::Hour }), ..held() };
        let applied = Override { refill: Some(TOKEN), max_in_flight: Some(7), ..other }.apply(&question());
        assert_eq!((applied.cost, applied.capacity, applied.refill), (TOKEN, 9 * TOKEN, TOKEN));
        let quotas: Vec<_> = applied.quotas.iter().map(|asked| (asked.limit, asked.window, asked.calls)).collect();
        assert_eq!(quotas, [(1, Window::Hour, 1), (6, Window::Day, 1)], "a tool's own quota stays");
        assert_eq!(applied.slots[0].limit, 7);
        assert_eq!(other.apply(&question()).refill, TOKEN / 2);
    }

    #[test]
    fn a_bucket_can_be_switched_off_but_none_is_made_where_there_is_none() {
        let off = Override { refill: Some(0), ..held() }.apply(&question());
        assert_eq!((off.cost, off.capacity, off.refill), (0, 0, 0));
        let none = Override { refill: Some(TOKEN), capacity: Some(TOKEN), ..held() }.apply(&Question::unlimited());
        assert_eq!(none, Question::unlimited());
        let slow = Override { refill: Some(1), capacity: Some(LARGEST), ..held() }.apply(&question());
        assert_eq!(slow, question(), "two numbers that make no policy change nothing");
    }

    #[test]
    fn impossible_numbers_are_known_as_such() {
        let possible = |capacity, refill| Override { capacity, refill, ..held() }.is_possible();
        assert!(possible(None, None) && possible(Some(30 * TOKEN), Some(TOKEN)) && possible(Some(1), Some(0)));
        assert!(possible(Some(LARGEST), None) && possible(None, Some(LARGEST)));
        assert!(!possible(Some(LARGEST + 1), None) && !possible(None, Some(LARGEST + 1)));
        assert!(!possible(Some(LARGEST), Some(1)), "it would never fill");
        assert!(Override { until: LARGEST, ..held() }.is_possible());
        assert!(!Override { until: LARGEST + 1, ..held() }.is_possible());
    }

    #[test]
    fn a_decision_goes_by_the_operators_numbers_until_they_end() {
        let tight = row(Override { capacity: Some(TOKEN), ..held() });
        let asked = |tokens: u64, now| {
            decide(Some(tight.clone()), &Question::new(policy(), tokens * TOKEN), now).unwrap().answer
        };
        assert!(asked(1, NOW).admitted);
        let refused = asked(2, NOW);
        assert_eq!((refused.admitted, refused.wait, refused.held), (false, 0, tight.held));
        assert!(!asked(2, NOW + 60 * SECOND - 1).admitted);
        let over = asked(2, NOW + 60 * SECOND);
        assert_eq!((over.admitted, over.held), (true, None));
    }

    fn policy() -> Policy {
        Policy::new(30 * TOKEN, TOKEN / 2).unwrap()
    }

    #[test]
    fn a_blocked_caller_waits_until_that_is_over_and_may_still_ask() {
        let blocked = row(Override { blocked: true, ..held() });
        let asked = |cost| decide(Some(blocked.clone()), &Question::new(policy(), cost), NOW).unwrap();
        let refused = asked(TOKEN);
        assert_eq!(refused.answer.by, Some(By { kind: Kind::Blocked, tool: String::new() }));
        assert_eq!((refused.answer.wait, refused.write), (60 * SECOND, None));
        assert_eq!(refused.answer.fault(&Question::new(policy(), TOKEN)), None);
        assert!(asked(0).answer.admitted);
        let lie = crate::limiter::answer::Answer { held: None, ..refused.answer };
        assert!(lie.fault(&Question::new(policy(), TOKEN)).is_some(), "who isn't held isn't blocked");
    }

    #[test]
    fn showing_writes_nothing_and_tells_all() {
        let charged = decide(Some(row(held())), &question(), NOW).unwrap().write.unwrap();
        let (write, state) = obey(Some(charged), &Order::Show, NOW + SECOND);
        assert_eq!((write, state.debt, state.held), (None, TOKEN / 2, Some(held())));
        assert_eq!(state.quotas.len(), 2);
        assert_eq!(obey(None, &Order::Show, NOW), (None, State::default()));
    }

    #[test]
    fn clearing_leaves_what_the_operator_decided_and_nothing_else() {
        let charged = decide(Some(row(held())), &question(), NOW).unwrap().write.unwrap();
        let alarm = charged.alarm;
        let (write, state) = obey(Some(charged), &Order::Clear, NOW);
        assert_eq!(write, Some(Row { alarm, ..row(held()) }));
        assert_eq!(state, State { held: Some(held()), ..State::default() });
        assert_eq!(obey(None, &Order::Clear, NOW).0, None, "nothing is made by clearing");
    }

    #[test]
    fn what_is_set_replaces_what_held_and_with_no_time_left_ends_it() {
        let (write, state) = obey(None, &Order::Set(held()), NOW);
        assert_eq!((write, state.held), (Some(row(held())), Some(held())));
        let ended = Override { until: NOW, ..held() };
        let (write, state) = obey(Some(row(held())), &Order::Set(ended), NOW);
        assert_eq!((write, state.held), (Some(Row::empty(NOW)), None));
        assert_eq!(obey(None, &Order::Set(ended), NOW).0, None);
    }

    #[test]
    fn the_row_is_kept_as_long_as_what_the_operator_decided_holds() {
        let mut kept = row(held());
        assert_eq!(kept.rests_at(), NOW + 60 * SECOND);
        kept.prune(NOW + 60 * SECOND - 1);
        assert_eq!(kept.held, Some(held()));
        kept.prune(NOW + 60 * SECOND);
        assert_eq!(kept.held, None);
        assert!(row(held()).is_possible() && !row(Override { until: LARGEST + 1, ..held() }).is_possible());
    }
}
