//! What an object does when its alarm fires: a function of (row, now), safe to run early, late and twice.

use super::row::Row;

/// What an alarm comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterAlarm {
    /// Nothing is stored: an alarm that came twice, or too late.
    Nothing,
    /// All is at rest: delete everything.
    Delete,
    /// Something isn't: write this row and set its alarm.
    Again(Box<Row>),
}

/// Decides what an alarm that fires at `now` (microseconds) does.
pub fn after_alarm(row: Option<Row>, now: u64) -> AfterAlarm {
    let Some(row) = row else {
        return AfterAlarm::Nothing;
    };
    let (mut row, _) = row.rebased(now);
    row.prune(now);
    let rests_at = row.rests_at();
    if rests_at <= now {
        AfterAlarm::Delete
    } else {
        AfterAlarm::Again(Box::new(Row { alarm: rests_at, ..row }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::{SECOND, TOKEN};
    use crate::limiter::quota::{Usage, Window};
    use crate::limiter::slots::Lease;

    const NOW: u64 = 1_796_000_000 * SECOND;

    fn row(debt: u64) -> Row {
        Row { debt, refill: TOKEN / 2, alarm: NOW + 2 * SECOND, ..Row::empty(NOW) }
    }

    #[test]
    fn an_alarm_deletes_at_rest_and_comes_again_while_something_is_left() {
        assert_eq!(after_alarm(Some(row(TOKEN)), NOW + 2 * SECOND), AfterAlarm::Delete);
        let early = after_alarm(Some(row(TOKEN)), NOW + 2 * SECOND - 1);
        assert_eq!(early, AfterAlarm::Again(Box::new(row(TOKEN))));
        let busy = after_alarm(Some(row(30 * TOKEN)), NOW + 2 * SECOND);
        assert_eq!(busy, AfterAlarm::Again(Box::new(Row { alarm: NOW + 60 * SECOND, ..row(30 * TOKEN) })));
        let counted = Row {
            quotas: vec![Usage {
                tool: String::new(),
                window: Window::Day,
                start: Window::Day.bounds(NOW).0,
                calls: 1,
            }],
            leases: vec![Lease { id: 1, from: NOW, until: NOW + 1, calls: [].into() }],
            ..row(TOKEN)
        };
        let (_, end) = Window::Day.bounds(NOW);
        let kept = Row { alarm: end, leases: vec![], ..counted.clone() };
        assert_eq!(after_alarm(Some(counted.clone()), NOW + 3 * SECOND), AfterAlarm::Again(Box::new(kept)));
        assert_eq!(after_alarm(Some(counted), end), AfterAlarm::Delete);
    }

    #[test]
    fn an_alarm_a_minute_late_or_twice_or_after_the_storage_is_gone_does_no_harm() {
        assert_eq!(after_alarm(Some(row(TOKEN)), NOW + 62 * SECOND), AfterAlarm::Delete);
        assert_eq!(after_alarm(None, NOW), AfterAlarm::Nothing);
        let AfterAlarm::Again(again) = after_alarm(Some(row(30 * TOKEN)), NOW) else { panic!("deleted") };
        assert_eq!(after_alarm(Some(Row::clone(&again)), NOW), AfterAlarm::Again(again));
    }

    #[test]
    fn an_alarm_after_the_clock_went_back_waits_no_longer_than_one_refill() {
        let back = NOW - 3_600 * SECOND;
        let AfterAlarm::Again(again) = after_alarm(Some(row(30 * TOKEN)), back) else { panic!("deleted") };
        assert_eq!(again.alarm, back + 60 * SECOND);
    }
}
