//! What an isolate remembers of its callers' buckets: a bounded map, with `now` (microseconds) as an argument.
//!
//! Of each caller it keeps two things apart. **Heard**: the debt that the object's last verdict told. Counted from
//! when the question was *sent* it can only be too low, so a call that is refused on it would be refused by the
//! object too, and the object need not be asked. **Insured**: the debt of the isolate's own bucket, which decides
//! when the object can't answer; it starts from the last debt heard of, and the two never replace each other, so that
//! a caller whose object answers now and then gains nothing by that.

use super::bucket::{ask, Debt, Verdict};
use super::policy::{Policy, SECOND};
use std::collections::HashMap;

/// How many callers are remembered at the most: about 2 MB of an isolate's 128.
pub const BOUND: usize = 10_000;

/// For how long a debt that was heard of can refuse a call, in microseconds: an operator's change is seen within it.
const HEARD_FOR: u64 = 10 * SECOND;

/// For how long it answers a question that charges nothing, in microseconds.
const STATUS_FOR: u64 = SECOND;

/// For how long a full map isn't searched again for something to forget, in microseconds.
const SEARCH_EVERY: u64 = SECOND;

/// What was heard from a caller's object.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// Micro-tokens owed.
    pub owed: u64,
    /// When the question was sent.
    pub sent: u64,
    /// When its answer had come.
    pub received: u64,
    /// Calls that the caller's quota had left; [`u64::MAX`] when it has none.
    pub calls_left: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    heard: Option<Heard>,
    insured: Option<Debt>,
    /// When nothing of it is owed any more: the entry can be forgotten then.
    rests_at: u64,
}

/// The map.
#[derive(Debug, Default)]
pub struct Memory {
    callers: HashMap<String, Entry>,
    search_after: u64,
}

/// What the isolate's own bucket says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insured {
    /// The call runs.
    Admitted,
    /// Not before so many microseconds.
    Refused(u64),
    /// The caller isn't remembered, and there is no room for one more: nothing can be said.
    NoRoom,
}

/// A refusal, or the state of a bucket, from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// What is owed, as of now.
    pub debt: Debt,
    /// Microseconds to wait; at least as long as the object would say.
    pub wait: u64,
}

impl Memory {
    /// Keeps what an object told.
    pub fn hear(&mut self, caller: &str, heard: Heard, policy: Policy) {
        let Heard { owed, sent, received: now, .. } = heard;
        let Some(entry) = self.entry(caller, now) else {
            return;
        };
        // Answers can overtake each other; of two questions sent in one instant the higher debt is the later one.
        if entry.heard.is_some_and(|old| (sent, owed) < (old.sent, old.owed) && old.sent <= now) {
            return;
        }
        entry.heard = Some(heard);
        let rests_at = Debt { owed, at: now }.rests_at(policy.refill());
        entry.rests_at = entry.rests_at.max(rests_at);
    }

    /// Forgets what an object told, since that isn't so any more.
    pub fn forget(&mut self, caller: &str) {
        if let Some(entry) = self.callers.get_mut(caller) {
            entry.heard = None;
        }
    }

    /// A refusal of `calls` that cost `cost` together, if what is remembered is enough to give one. It isn't when the quota
    /// would refuse them too, and tell a longer wait.
    pub fn refuses(&self, caller: &str, policy: Policy, cost: u64, calls: u64, now: u64) -> Option<Remembered> {
        let heard = self.callers.get(caller)?.heard?;
        let fresh = now < heard.sent.saturating_add(HEARD_FOR) && now >= heard.received;
        if !fresh || cost == 0 || heard.calls_left < calls {
            return None;
        }
        let lowest = Debt { owed: heard.owed, at: heard.sent };
        let highest = Debt { owed: heard.owed, at: heard.received };
        match (ask(lowest, policy, cost, now), ask(highest, policy, cost, now)) {
            // Refused on the lowest debt that it can be, the wait told from the highest: whoever waits for it is
            // admitted.
            (Verdict::Refused { .. }, Verdict::Refused { debt, wait }) => Some(Remembered { debt, wait }),
            _ => None,
        }
    }

    /// What is owed, when that was heard of within the last second.
    pub fn status(&self, caller: &str, policy: Policy, now: u64) -> Option<Debt> {
        let heard = self.callers.get(caller)?.heard?;
        let fresh = now < heard.received.saturating_add(STATUS_FOR) && now >= heard.received;
        fresh.then(|| Debt { owed: heard.owed, at: heard.received }.as_of(policy, now))
    }

    /// Asks the isolate's own bucket, and charges it.
    pub fn insure(&mut self, caller: &str, policy: Policy, cost: u64, now: u64) -> Insured {
        let Some(entry) = self.entry(caller, now) else {
            return Insured::NoRoom;
        };
        let heard = entry.heard.map_or(Debt::default(), |heard| Debt { owed: heard.owed, at: heard.sent });
        let own = entry.insured.unwrap_or_default();
        let owed = own.as_of(policy, now).owed.max(heard.as_of(policy, now).owed);
        match ask(Debt { owed, at: now }, policy, cost, now) {
            Verdict::Admitted(after) => {
                entry.insured = Some(after);
                entry.rests_at = entry.rests_at.max(after.rests_at(policy.refill()));
                Insured::Admitted
            }
            Verdict::Refused { wait, .. } => Insured::Refused(wait),
            Verdict::NeverFits => Insured::NoRoom,
        }
    }

    /// The caller's entry, made if there is room. Only what is over is forgotten to make some.
    fn entry(&mut self, caller: &str, now: u64) -> Option<&mut Entry> {
        if !self.callers.contains_key(caller) && self.callers.len() >= BOUND {
            // A flood of new callers must not have the whole map searched for each one.
            if now < self.search_after && self.search_after <= now.saturating_add(SEARCH_EVERY) {
                return None;
            }
            self.callers.retain(|_, entry| entry.rests_at > now);
            self.search_after = now.saturating_add(SEARCH_EVERY);
            if self.callers.len() >= BOUND {
                return None;
            }
        }
        Some(self.callers.entry(caller.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::TOKEN;

    const NOW: u64 = 1_796_000_000 * SECOND;

    fn policy() -> Policy {
        Policy::new(30 * TOKEN, TOKEN / 2).unwrap()
    }

    fn told(owed: u64, sent: u64, received: u64) -> Heard {
        Heard { owed, sent, received, calls_left: u64::MAX }
    }

    fn heard(owed: u64, sent: u64, received: u64) -> Memory {
        let mut memory = Memory::default();
        memory.hear("a", told(owed, sent, received), policy());
        memory
    }

    #[test]
    fn a_remembered_debt_refuses_what_the_object_would_and_tells_no_shorter_wait() {
        let memory = heard(30 * TOKEN, NOW, NOW + 5_000);
        let refused = memory.refuses("a", policy(), TOKEN, 1, NOW + 5_000).unwrap();
        assert_eq!(refused.wait, 2 * SECOND, "as if the object had counted when its answer came");
        assert_eq!(refused.debt, Debt { owed: 30 * TOKEN, at: NOW + 5_000 });
        assert!(memory.refuses("a", policy(), TOKEN, 1, NOW + 2 * SECOND - 1).is_some());
        assert_eq!(memory.refuses("a", policy(), TOKEN, 1, NOW + 2 * SECOND), None, "as if it had counted when asked");
    }

    #[test]
    fn what_went_back_isnt_remembered() {
        let mut memory = heard(30 * TOKEN, NOW, NOW);
        memory.forget("b");
        assert!(memory.refuses("a", policy(), TOKEN, 1, NOW).is_some());
        memory.forget("a");
        assert_eq!(memory.refuses("a", policy(), TOKEN, 1, NOW), None);
    }

    #[test]
    fn what_isnt_refused_from_memory_is_left_to_the_object() {
        let memory = heard(29 * TOKEN, NOW, NOW);
        assert_eq!(memory.refuses("a", policy(), TOKEN, 1, NOW), None);
        assert!(memory.refuses("a", policy(), 2 * TOKEN, 1, NOW).is_some(), "a dearer tool is refused all the same");
        assert_eq!(memory.refuses("a", policy(), 0, 1, NOW), None);
        assert_eq!(memory.refuses("a", policy(), 31 * TOKEN, 1, NOW), None, "what never fits has no wait");
        assert_eq!(memory.refuses("b", policy(), TOKEN, 1, NOW), None);
    }

    #[test]
    fn what_the_quota_would_refuse_too_is_left_to_the_object() {
        let mut memory = Memory::default();
        memory.hear("a", Heard { calls_left: 2, ..told(30 * TOKEN, NOW, NOW) }, policy());
        assert!(memory.refuses("a", policy(), TOKEN, 2, NOW).is_some());
        assert_eq!(memory.refuses("a", policy(), TOKEN, 3, NOW), None);
    }

    #[test]
    fn an_answer_that_was_overtaken_changes_nothing() {
        let mut memory = heard(30 * TOKEN, NOW, NOW + 5);
        memory.hear("a", told(29 * TOKEN, NOW, NOW + 6), policy());
        assert!(memory.refuses("a", policy(), TOKEN, 1, NOW + 6).is_some(), "sent in the same instant, lower");
        memory.hear("a", told(30 * TOKEN, NOW, NOW + 7), policy());
        assert_eq!(memory.refuses("a", policy(), TOKEN, 1, NOW + 7).unwrap().wait, 2 * SECOND, "the same, heard later");
        memory.hear("a", told(0, NOW - 1, NOW + 7), policy());
        assert!(memory.refuses("a", policy(), TOKEN, 1, NOW + 7).is_some(), "sent before");
        memory.hear("a", told(0, NOW + 1, NOW + 8), policy());
        assert_eq!(memory.refuses("a", policy(), TOKEN, 1, NOW + 8), None, "sent later");
        let mut ahead = heard(30 * TOKEN, NOW, NOW);
        ahead.hear("a", told(TOKEN, NOW - SECOND, NOW - SECOND), policy());
        assert!(ahead.status("a", policy(), NOW - SECOND).is_some(), "the clock went back: the old one is void");
    }

    #[test]
    fn a_debt_is_remembered_for_ten_seconds() {
        let slow = Policy::new(TOKEN, TOKEN / 100).unwrap();
        let memory = heard(TOKEN, NOW, NOW + 1);
        assert!(memory.refuses("a", slow, TOKEN, 1, NOW + 10 * SECOND - 1).is_some());
        assert_eq!(memory.refuses("a", slow, TOKEN, 1, NOW + 10 * SECOND), None);
        assert!(memory.refuses("a", slow, TOKEN, 1, NOW + 1).is_some());
        assert_eq!(memory.refuses("a", slow, TOKEN, 1, NOW), None, "a clock that went back forgets");
    }

    #[test]
    fn a_status_is_answered_from_memory_for_one_second() {
        let memory = heard(30 * TOKEN, NOW, NOW);
        let half = memory.status("a", policy(), NOW + SECOND / 2).unwrap();
        assert_eq!(half, Debt { owed: 30 * TOKEN - TOKEN / 4, at: NOW + SECOND / 2 });
        assert!(memory.status("a", policy(), NOW + SECOND - 1).is_some());
        assert_eq!(memory.status("a", policy(), NOW + SECOND), None);
        assert_eq!(memory.status("a", policy(), NOW - 1), None);
        assert!(memory.status("a", policy(), NOW).is_some());
    }

    #[test]
    fn an_insured_bucket_starts_from_none_or_from_the_last_debt_heard_of() {
        let mut memory = heard(28 * TOKEN, NOW, NOW);
        assert_eq!(memory.insure("a", policy(), TOKEN, NOW), Insured::Admitted);
        assert_eq!(memory.insure("a", policy(), TOKEN, NOW), Insured::Admitted);
        assert_eq!(memory.insure("a", policy(), TOKEN, NOW), Insured::Refused(2 * SECOND));
        assert_eq!(memory.insure("a", policy(), 31 * TOKEN, NOW), Insured::NoRoom, "what never fits is refused");
        for _ in 0..30 {
            assert_eq!(memory.insure("b", policy(), TOKEN, NOW), Insured::Admitted);
        }
        assert_eq!(memory.insure("b", policy(), TOKEN, NOW), Insured::Refused(2 * SECOND));
        assert_eq!(memory.insure("b", policy(), TOKEN, NOW + 2 * SECOND), Insured::Admitted);
    }

    #[test]
    fn an_object_that_answers_now_and_then_gives_the_insured_bucket_nothing_back() {
        let mut memory = Memory::default();
        for _ in 0..30 {
            assert_eq!(memory.insure("a", policy(), TOKEN, NOW), Insured::Admitted);
        }
        memory.hear("a", told(TOKEN, NOW, NOW), policy());
        assert!(matches!(memory.insure("a", policy(), TOKEN, NOW), Insured::Refused(_)));
        assert_eq!(memory.refuses("a", policy(), TOKEN, 1, NOW), None, "insured charges are none of the object's");
    }

    #[test]
    fn at_its_bound_the_map_forgets_only_what_is_over() {
        let mut memory = Memory::default();
        for n in 0..BOUND {
            memory.hear(&n.to_string(), told(if n == 7 { TOKEN } else { 30 * TOKEN }, NOW, NOW), policy());
        }
        assert_eq!(memory.callers.len(), BOUND);
        assert_eq!(memory.insure("new", policy(), TOKEN, NOW), Insured::NoRoom);
        memory.hear("new", told(TOKEN, NOW, NOW), policy());
        assert_eq!(memory.status("new", policy(), NOW), None, "nothing new is remembered");
        assert_eq!(memory.insure("8", policy(), TOKEN, NOW), Insured::Refused(2 * SECOND), "the known still are");
        // Number 7 is over after two seconds, and makes room for one.
        assert_eq!(memory.insure("new", policy(), TOKEN, NOW + 2 * SECOND), Insured::Admitted);
        assert_eq!(memory.insure("newer", policy(), TOKEN, NOW + 2 * SECOND), Insured::NoRoom);
        assert_eq!(memory.callers.len(), BOUND);
        assert_eq!(memory.insure("newer", policy(), TOKEN, NOW + 60 * SECOND), Insured::Admitted);
        assert_eq!(memory.callers.len(), 1, "all are over after a full refill");
    }

    #[test]
    fn a_full_map_is_searched_at_most_once_a_second() {
        let mut memory = Memory::default();
        for n in 0..BOUND {
            memory.hear(&n.to_string(), told(if n == 7 { TOKEN / 4 } else { 30 * TOKEN }, NOW, NOW), policy());
        }
        assert_eq!(memory.insure("new", policy(), TOKEN, NOW), Insured::NoRoom);
        let over = NOW + SECOND / 2;
        assert_eq!(memory.insure("new", policy(), TOKEN, over), Insured::NoRoom, "searched half a second ago");
        assert_eq!(memory.insure("new", policy(), TOKEN, NOW + SECOND), Insured::Admitted);
        // A clock that goes back far doesn't stop the search for as long.
        assert_eq!(memory.insure("newer", policy(), TOKEN, NOW + SECOND), Insured::NoRoom);
        memory.callers.remove("8");
        memory.callers.insert("8".into(), Entry::default());
        assert_eq!(memory.insure("newer", policy(), TOKEN, NOW - 3_600 * SECOND), Insured::Admitted);
    }

    #[test]
    fn an_insured_debt_is_not_forgotten_before_it_is_over() {
        let mut memory = Memory::default();
        memory.insure("a", policy(), TOKEN, NOW);
        for n in 1..BOUND {
            memory.hear(&n.to_string(), told(0, NOW, NOW), policy());
        }
        assert_eq!(memory.insure("new", policy(), TOKEN, NOW + 1), Insured::Admitted);
        assert_eq!(memory.callers.len(), 2);
        assert_eq!(memory.callers["a"].insured, Some(Debt { owed: TOKEN, at: NOW }));
    }
}
