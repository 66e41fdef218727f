//! One Durable Object: what `src/limiter/object.rs` and its shell do, with what it costs. What it decides is the real code's.

use crate::prices::Usage;
use sluice::limiter::alarm::{after_alarm, AfterAlarm};
use sluice::limiter::answer::Answer;
use sluice::limiter::decision::decide;
use sluice::limiter::policy::SECOND;
use sluice::limiter::question::Question;
use sluice::limiter::row::Row;

/// What one object can answer in a second, as the platform's documents say.
pub const ANSWERS_PER_SECOND: u64 = 1_000;

/// How long a question may stand in its queue before the object counts as overloaded: a little less than
/// `MCP_LIMITER_TIMEOUT_MS`, after which nobody would wait for the answer.
const LONGEST_QUEUE_US: u64 = 950_000;

/// An object.
#[derive(Default)]
pub struct Object {
    row: Option<Row>,
    /// The number of the alarm that is pending: setting it anew replaces the one before.
    alarm: u32,
    free_at: u64,
    /// The last period of ten seconds in which it was at work.
    pub touched: u64,
}

/// An alarm to set: at which microsecond, and its number.
pub type SetAlarm = Option<(u64, u32)>;

impl Object {
    /// Takes a question at `now`, and answers it at the time that is told; None when it is overloaded.
    pub fn ask(&mut self, question: &Question, now: u64, usage: &mut Usage) -> Option<(Answer, u64, SetAlarm)> {
        usage.questions += 1;
        let begins = now.max(self.free_at);
        if begins - now > LONGEST_QUEUE_US {
            return None;
        }
        self.free_at = begins + SECOND / ANSWERS_PER_SECOND;
        usage.rows_read += 1;
        let decision = decide(self.row.clone(), question, whole_ms(begins)).expect("the policy is possible");
        let mut alarm = None;
        if let Some(row) = decision.write {
            usage.rows_written += 1;
            if decision.set_alarm {
                alarm = Some(self.set_alarm(row.alarm, usage));
            }
            self.row = Some(row);
        }
        Some((decision.answer, self.free_at, alarm))
    }

    /// Its alarm goes off.
    pub fn alarm(&mut self, number: u32, now: u64, usage: &mut Usage) -> SetAlarm {
        if number != self.alarm {
            return None;
        }
        usage.alarms += 1;
        usage.rows_read += 1;
        // It stands in the queue like a question.
        match after_alarm(self.row.take(), whole_ms(now.max(self.free_at))) {
            AfterAlarm::Nothing => None,
            AfterAlarm::Delete => {
                usage.rows_written += 1;
                None
            }
            AfterAlarm::Again(row) => {
                usage.rows_written += 1;
                let alarm = self.set_alarm(row.alarm, usage);
                self.row = Some(*row);
                Some(alarm)
            }
        }
    }

    /// Whether anything is stored. An alarm is pending then, and only then.
    pub fn is_stored(&self) -> bool {
        self.row.is_some()
    }

    fn set_alarm(&mut self, at: u64, usage: &mut Usage) -> (u64, u32) {
        usage.rows_written += 1;
        self.alarm += 1;
        (at.div_ceil(1_000) * 1_000, self.alarm)
    }
}

/// The clock of Workers has whole milliseconds.
pub fn whole_ms(us: u64) -> u64 {
    us / 1_000 * 1_000
}
