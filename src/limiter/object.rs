//! The Durable Object of one caller, or of one shared bucket: what it does on each message, and when its alarm goes off, as a function of
//! (message, row, now). Its shell (`src/shell/object.mjs`) reads and writes the row.

use super::alarm::{after_alarm, AfterAlarm};
use super::decision::decide;
use super::operator::{obey, Order};
use super::question::Question;
use super::returns::{give_back, release, Return, Taken};
use super::row::Row;
use crate::platform::step::{self, Step};
use serde_json::Value;

/// The binding of these objects.
pub const BINDING: &str = "RATE_LIMITER";

/// Answers one [`Question`], takes one [`Return`], or obeys one [`Order`], at `now` (microseconds). An error fails the message, and changes
/// nothing.
pub fn step(message: &str, row: Option<&str>, now: u64) -> Result<Step, String> {
    if let Ok(question) = serde_json::from_str::<Question>(message) {
        return asked(&question, read(row)?, now);
    }
    if let Ok(back) = serde_json::from_str::<Return>(message) {
        return returned(&back, read(row)?, now);
    }
    match serde_json::from_str::<Order>(message) {
        Ok(order) => ordered(&order, read(row), now),
        Err(_) => Err("the message can't be read".to_owned()),
    }
}

/// Cleans up once all is at rest. Safe to run late, twice, and on nothing.
pub fn alarm(row: Option<&str>, now: u64) -> Result<Step, String> {
    let nothing = Step::answering(&Value::Null)?;
    match read(row).map(|row| after_alarm(row, now)) {
        Ok(AfterAlarm::Nothing) => Ok(nothing),
        Ok(AfterAlarm::Again(row)) => nothing.writing(&row, Some(row.alarm)),
        Ok(AfterAlarm::Delete) => Ok(nothing.deleting()),
        // It would fail every question for ever.
        Err(cause) => Ok(Step { unreadable: Some(cause), ..nothing.deleting() }),
    }
}

/// Decides, and tells.
fn asked(question: &Question, row: Option<Row>, now: u64) -> Result<Step, String> {
    let mut decision = decide(row, question, now).map_err(|_| "the question's policy is impossible")?;
    let Some(row) = decision.write else {
        return Step::answering(&decision.answer);
    };
    decision.answer.rows = if decision.set_alarm { 2 } else { 1 };
    Step::answering(&decision.answer)?.writing(&row, decision.set_alarm.then_some(row.alarm))
}

/// Takes back. An alarm is pending already, so none is set.
fn returned(back: &Return, row: Option<Row>, now: u64) -> Result<Step, String> {
    let row = row.and_then(|row| match back {
        Return::GiveBack(receipt) => give_back(row, receipt, now),
        Return::Release(id) => release(row, *id, now),
    });
    match row {
        Some(row) => Step::answering(&Taken { rows: 1 })?.writing(&row, None),
        None => Step::answering(&Taken { rows: 0 }),
    }
}

/// Does what the operator asks.
fn ordered(order: &Order, row: Result<Option<Row>, String>, now: u64) -> Result<Step, String> {
    let (row, unreadable) = match row {
        Ok(row) => (row, None),
        // What can't be read is no state, and clearing it is what helps.
        Err(cause) if *order == Order::Clear => (None, Some(cause)),
        Err(cause) => return Err(cause),
    };
    let (write, state) = obey(row, order, now);
    let told = Step { unreadable, ..Step::answering(&state)? };
    match write {
        Some(mut row) if row.rests_at() > now => {
            let set_alarm = row.schedule(now);
            told.writing(&row, set_alarm.then_some(row.alarm))
        }
        Some(_) => Ok(told.deleting()),
        None if told.unreadable.is_some() => Ok(told.deleting()),
        None => Ok(told),
    }
}

/// The stored row. One that no limiter can have written counts as unreadable.
fn read(row: Option<&str>) -> Result<Option<Row>, String> {
    match step::read::<Row>(row)? {
        Some(row) if !row.is_possible() => Err("the stored row is impossible".to_owned()),
        row => Ok(row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::step::Stored;

    const NOW: u64 = 1_796_000_000_000_000;
    const QUESTION: &str = r#"{"cost":1000000,"capacity":30000000,"refill":500000}"#;
    const ROW: &str = r#"{"debt":1000000,"at":1796000000000000,"refill":500000,"alarm":1796000002000000}"#;

    #[test]
    fn the_first_question_writes_a_row_and_sets_the_alarm_and_the_next_writes_alone() {
        let first = step(QUESTION, None, NOW).unwrap();
        assert_eq!(first.stored, Stored::Written(ROW.to_owned(), Some(NOW + 2_000_000)));
        assert_eq!(first.answer, r#"{"admitted":true,"debt":1000000,"at":1796000000000000,"wait":0,"rows":2}"#);
        let Stored::Written(row, alarm) = step(QUESTION, Some(ROW), NOW).unwrap().stored else { panic!("kept") };
        assert!(row.starts_with(r#"{"debt":2000000,"#) && alarm.is_none(), "{row} {alarm:?}");
    }

    #[test]
    fn what_cant_be_read_changes_nothing_and_says_so() {
        for (message, row, fault) in [
            ("", None, "the message can't be read"),
            (r#"{"cost":1,"capacity":0,"refill":5}"#, None, "the question's policy is impossible"),
            (QUESTION, Some("{"), "the stored row can't be read"),
            (QUESTION, Some(r#"{"debt":1,"at":2,"refill":0}"#), "the stored row is impossible"),
        ] {
            let told = step(message, row, NOW).unwrap_err();
            assert!(told.starts_with(fault), "{told}");
        }
    }

    #[test]
    fn an_unreadable_row_goes_with_the_alarm_or_when_the_operator_clears_it() {
        for gone in [alarm(Some("{"), NOW), step(r#""clear""#, Some("{"), NOW)] {
            let gone = gone.unwrap();
            assert_eq!((gone.stored, gone.unreadable.is_some()), (Stored::Deleted, true));
        }
        assert!(step(r#""show""#, Some("{"), NOW).is_err());
    }

    #[test]
    fn an_order_writes_what_is_left_deletes_what_is_at_rest_and_only_shows_where_nothing_is() {
        let set = r#"{"set":{"until":1796000060000000,"blocked":true}}"#;
        let Stored::Written(row, alarm) = step(set, None, NOW).unwrap().stored else { panic!("not written") };
        assert_eq!((row.contains("blocked"), alarm), (true, Some(NOW + 60_000_000)));
        // With its bucket full and nothing else held, the row rests at this very instant.
        assert_eq!(step(r#""clear""#, Some(ROW), NOW).unwrap().stored, Stored::Deleted);
        for (order, row) in [(r#""show""#, Some(ROW)), (r#""show""#, None), (r#""clear""#, None)] {
            assert_eq!(step(order, row, NOW).unwrap().stored, Stored::Kept, "{order}");
        }
    }

    #[test]
    fn an_alarm_deletes_what_is_at_rest_and_comes_again_for_the_rest() {
        assert_eq!(alarm(None, NOW).unwrap().stored, Stored::Kept);
        assert_eq!(alarm(Some(ROW), NOW + 2_000_000).unwrap().stored, Stored::Deleted);
        let early = alarm(Some(ROW), NOW).unwrap().stored;
        assert_eq!(early, Stored::Written(ROW.to_owned(), Some(NOW + 2_000_000)));
    }
}
