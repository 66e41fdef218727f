//! What an object stores of its caller, and what it does with it: all of it in one row of JSON.
//!
//! No row means no debt. The object's whole behaviour is two functions of (row, question or alarm, now); `object.rs`
//! only reads and writes. The row remembers when its alarm is due, so that an object which has just been woken knows
//! whether one is pending without asking for it.

use super::bucket::{ask, Debt, Verdict};
use super::message::Question;
use super::policy::{Policy, LARGEST, SECOND};
use serde::{Deserialize, Serialize};

/// How late an alarm can be before it is taken for lost, in microseconds. The platform says "up to about a minute".
/// (<https://developers.cloudflare.com/durable-objects/api/alarms/>)
const ALARM_LATENESS: u64 = 60 * SECOND;

/// The stored row. Fields that a later version adds need a default: rows outlive deploys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Micro-tokens owed at `at`.
    pub debt: u64,
    /// Microseconds since 1970.
    pub at: u64,
    /// Micro-tokens a second at which it drains: the alarm has no question that would tell.
    pub refill: u64,
    /// When the alarm that was last set is due, in microseconds since 1970; 0 when none was.
    #[serde(default)]
    pub alarm: u64,
}

impl Row {
    /// Whether this can have been written by a limiter. What can't must not be decided on, nor kept for ever.
    pub fn is_possible(&self) -> bool {
        self.debt <= LARGEST && self.at <= LARGEST && (1..=LARGEST).contains(&self.refill)
    }
}

/// What a question comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to tell.
    pub verdict: Verdict,
    /// What is owed as of now, whatever the verdict.
    pub debt: Debt,
    /// The row to write, if any.
    pub write: Option<Row>,
    /// Whether the alarm has to be set to the row's.
    pub set_alarm: bool,
}

/// What an alarm comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAlarm {
    /// Nothing is stored: an alarm that came twice, or too late.
    Nothing,
    /// Nothing is owed any more: delete everything.
    Delete,
    /// Something is still owed: write this row and set its alarm.
    Again(Row),
}

/// Decides one question at `now` (microseconds).
pub fn decide(row: Option<Row>, policy: Policy, question: &Question, now: u64) -> Decision {
    let stored = row.map_or(Debt::default(), |row| Debt { owed: row.debt, at: row.at });
    let debt = stored.as_of(policy, now);
    let verdict = ask(stored, policy, question.cost, now);
    let alarm = row.map_or(0, |row| row.alarm);
    // An alarm that was set by a clock which ran ahead would come as much too late.
    let back = stored.at > now;
    let to_row = |debt: Debt, alarm: u64| Row { debt: debt.owed, at: debt.at, refill: policy.refill(), alarm };
    let (write, set_alarm) = match verdict {
        Verdict::Admitted(after) if question.cost > 0 => {
            let pending = alarm.saturating_add(ALARM_LATENESS) > now && !back;
            let due = if pending { alarm } else { after.rests_at(policy.refill()) };
            (Some(to_row(after, due)), !pending)
        }
        // Nothing else writes, unless the clock went back: then the new time has to count from now on.
        _ if back => (Some(to_row(debt, debt.rests_at(policy.refill()))), true),
        _ => (None, false),
    };
    Decision { verdict, debt, write, set_alarm }
}

/// Decides what an alarm that fires at `now` (microseconds) does. Safe to run early, late and twice.
pub fn after_alarm(row: Option<Row>, now: u64) -> AfterAlarm {
    let Some(row) = row else {
        return AfterAlarm::Nothing;
    };
    let rests_at = Debt { owed: row.debt, at: row.at.min(now) }.rests_at(row.refill);
    if rests_at <= now {
        AfterAlarm::Delete
    } else {
        AfterAlarm::Again(Row { alarm: rests_at, ..row })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::TOKEN;

    const NOW: u64 = 1_796_000_000 * SECOND;
    const STORED: &str = r#"{"debt":1000000,"at":1796000000000000,"refill":500000,"alarm":1796000002000000}"#;

    fn policy() -> Policy {
        Policy::new(30 * TOKEN, TOKEN / 2).unwrap()
    }

    fn row(debt: u64) -> Row {
        Row { debt, at: NOW, refill: TOKEN / 2, alarm: NOW + 2 * SECOND }
    }

    fn asked(row: Option<Row>, cost: u64, now: u64) -> Decision {
        decide(row, policy(), &Question::new(policy(), cost), now)
    }

    #[test]
    fn the_stored_row_is_what_it_always_was() {
        assert_eq!(serde_json::to_string(&row(TOKEN)).unwrap(), STORED);
        assert_eq!(serde_json::from_str::<Row>(STORED).unwrap(), row(TOKEN));
        let newer = r#"{"debt":1,"at":2,"refill":3,"alarm":4,"quota":{"used":5}}"#;
        assert_eq!(serde_json::from_str::<Row>(newer).unwrap(), Row { debt: 1, at: 2, refill: 3, alarm: 4 });
        let older = r#"{"debt":1,"at":2,"refill":3}"#;
        assert_eq!(serde_json::from_str::<Row>(older).unwrap(), Row { debt: 1, at: 2, refill: 3, alarm: 0 });
    }

    #[test]
    fn a_row_that_no_limiter_wrote_is_known_as_such() {
        assert!(row(TOKEN).is_possible());
        let extreme = Row { debt: LARGEST, at: LARGEST, refill: LARGEST, alarm: 0 };
        assert!(extreme.is_possible() && Row { debt: 0, at: 0, refill: 1, alarm: 0 }.is_possible());
        for impossible in [
            Row { debt: LARGEST + 1, ..extreme },
            Row { at: LARGEST + 1, ..extreme },
            Row { refill: LARGEST + 1, ..extreme },
            Row { refill: 0, ..extreme },
        ] {
            assert!(!impossible.is_possible(), "{impossible:?}");
        }
    }

    #[test]
    fn the_first_call_writes_one_row_and_sets_the_alarm_to_when_nothing_is_owed() {
        let first = asked(None, TOKEN, NOW);
        assert_eq!(first.write, Some(row(TOKEN)));
        assert!(first.set_alarm);
        assert_eq!(first.debt, Debt { owed: 0, at: NOW });
    }

    #[test]
    fn the_alarm_is_set_once_in_a_busy_period() {
        let second = asked(Some(row(TOKEN)), TOKEN, NOW);
        assert_eq!(second.write, Some(row(2 * TOKEN)), "the alarm that is pending stays");
        assert!(!second.set_alarm);
    }

    #[test]
    fn an_alarm_that_is_a_minute_late_is_pending_and_then_counts_as_lost() {
        let due = NOW + 2 * SECOND;
        let late = asked(Some(row(TOKEN)), TOKEN, due + 60 * SECOND - 1);
        assert!(!late.set_alarm);
        let lost = asked(Some(row(TOKEN)), TOKEN, due + 60 * SECOND);
        assert!(lost.set_alarm);
        assert_eq!(lost.write.unwrap().alarm, due + 62 * SECOND);
    }

    #[test]
    fn refusals_and_questions_that_charge_nothing_write_nothing() {
        let full = Some(row(30 * TOKEN));
        let refused = asked(full, TOKEN, NOW + 1);
        assert!(matches!(refused.verdict, Verdict::Refused { .. }));
        assert_eq!((refused.write, refused.set_alarm), (None, false));
        let status = asked(full, 0, NOW + 2 * SECOND);
        assert_eq!(status.verdict, Verdict::Admitted(Debt { owed: 29 * TOKEN, at: NOW + 2 * SECOND }));
        assert_eq!((status.write, status.set_alarm), (None, false));
        assert_eq!(status.debt.owed, 29 * TOKEN);
        let never = asked(full, 31 * TOKEN, NOW);
        assert_eq!((never.verdict, never.write), (Verdict::NeverFits, None));
        assert_eq!(asked(None, 0, NOW).write, None, "asking creates nothing");
    }

    #[test]
    fn a_refusal_after_the_clock_went_back_writes_the_new_time() {
        let back = NOW - 3_600 * SECOND;
        let refused = asked(Some(row(30 * TOKEN)), TOKEN, back);
        assert_eq!(refused.write, Some(Row { at: back, alarm: back + 60 * SECOND, ..row(30 * TOKEN) }));
        assert!(refused.set_alarm, "the alarm that is pending is an hour too late");
        let admitted = asked(Some(row(TOKEN)), TOKEN, back);
        assert_eq!(admitted.write.unwrap().alarm, back + 4 * SECOND);
        assert!(admitted.set_alarm);
        assert_eq!(asked(Some(row(30 * TOKEN)), 0, back).write, refused.write);
        assert_eq!(asked(Some(row(30 * TOKEN)), 31 * TOKEN, back).write, refused.write);
        let same = asked(Some(row(30 * TOKEN)), TOKEN, NOW);
        assert_eq!(same.write, None, "the same instant is not back");
    }

    #[test]
    fn an_alarm_deletes_at_rest_and_comes_again_while_something_is_owed() {
        assert_eq!(after_alarm(Some(row(TOKEN)), NOW + 2 * SECOND), AfterAlarm::Delete);
        let early = after_alarm(Some(row(TOKEN)), NOW + 2 * SECOND - 1);
        assert_eq!(early, AfterAlarm::Again(row(TOKEN)));
        let busy = after_alarm(Some(row(30 * TOKEN)), NOW + 2 * SECOND);
        assert_eq!(busy, AfterAlarm::Again(Row { alarm: NOW + 60 * SECOND, ..row(30 * TOKEN) }));
    }

    #[test]
    fn an_alarm_a_minute_late_or_twice_or_after_the_storage_is_gone_does_no_harm() {
        assert_eq!(after_alarm(Some(row(TOKEN)), NOW + 62 * SECOND), AfterAlarm::Delete);
        assert_eq!(after_alarm(None, NOW), AfterAlarm::Nothing);
        let AfterAlarm::Again(again) = after_alarm(Some(row(30 * TOKEN)), NOW) else { panic!("deleted") };
        assert_eq!(after_alarm(Some(again), NOW), AfterAlarm::Again(again));
    }

    #[test]
    fn an_alarm_after_the_clock_went_back_waits_no_longer_than_one_refill() {
        let back = NOW - 3_600 * SECOND;
        let AfterAlarm::Again(again) = after_alarm(Some(row(30 * TOKEN)), back) else { panic!("deleted") };
        assert_eq!(again.alarm, back + 60 * SECOND);
    }
}
