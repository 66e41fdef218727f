//! Quotas: so many calls in a window of the calendar, in UTC.
//!
//! A window begins and ends where a clock on the wall would say so, which is what people plan with; within it calls are
//! only counted. What is stored of a quota is its window and its count, never its number, so a changed number holds at
//! once and forgives nothing.

use super::policy::SECOND;
use chrono::{DateTime, Datelike as _, Months, NaiveTime, Utc};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The span that a quota is counted over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Window {
    /// 60 s.
    Minute,
    /// 60 minutes.
    Hour,
    /// From midnight to midnight, UTC.
    Day,
    /// Of the calendar, UTC.
    Month,
}

impl Window {
    /// All of them, the shortest first.
    pub const ALL: [Self; 4] = [Self::Minute, Self::Hour, Self::Day, Self::Month];

    /// Its name in variables and texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// The first microsecond of the window that `now` is in, and the first one after it.
    pub fn bounds(self, now: u64) -> (u64, u64) {
        let fixed = |length: u64| {
            let start = now.saturating_sub(now.checked_rem(length).unwrap_or_default());
            (start, start.saturating_add(length))
        };
        match self {
            Self::Minute => fixed(60 * SECOND),
            Self::Hour => fixed(3_600 * SECOND),
            Self::Day => fixed(86_400 * SECOND),
            // No instant that a clock tells lies outside of chrono's years; for one that does, days will do.
            Self::Month => month(now).unwrap_or_else(|| fixed(31 * 86_400 * SECOND)),
        }
    }
}

fn month(now: u64) -> Option<(u64, u64)> {
    let now = DateTime::<Utc>::from_timestamp_micros(i64::try_from(now).ok()?)?;
    let first = now.date_naive().with_day(1)?;
    let micros = |day: chrono::NaiveDate| u64::try_from(day.and_time(NaiveTime::MIN).and_utc().timestamp_micros()).ok();
    Some((micros(first)?, micros(first.checked_add_months(Months::new(1))?)?))
}

/// A quota's two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Calls.
    pub limit: u64,
    /// In each of these.
    pub window: Window,
}

impl fmt::Display for Quota {
    /// As variables have it: `1000/day`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.limit, self.window.name())
    }
}

/// What is stored of a quota: the calls of one window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Whose quota: a tool's, or with an empty name the caller's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// Counted over this.
    pub window: Window,
    /// The window's first microsecond since 1970.
    pub start: u64,
    /// Calls that were admitted in it.
    pub calls: u64,
}

impl Usage {
    /// The first microsecond after its window.
    pub fn ends_at(&self) -> u64 {
        self.window.bounds(self.start).1
    }

    /// Whether its window is over at `now`. One that has not begun yet was counted by a clock that ran ahead, and counts.
    pub fn is_over(&self, now: u64) -> bool {
        self.ends_at() <= now
    }

    /// The same, of the window of `now`, where its own hasn't begun yet: a clock that went back is taken as no time passed.
    pub fn rebased(self, now: u64) -> Self {
        let (start, _) = self.window.bounds(now);
        Self { start: self.start.min(start), ..self }
    }
}

/// The calls that count in the window of `now`: those counted over that window itself, or over a shorter one within it,
/// when the operator has just made the window longer.
pub fn used(usages: &[Usage], tool: &str, window: Window, now: u64) -> u64 {
    let (start, end) = window.bounds(now);
    let within = |usage: &&Usage| usage.tool == tool && usage.start >= start && usage.ends_at() <= end;
    usages.iter().filter(within).map(|usage| usage.calls).max().unwrap_or_default()
}

/// Counts `calls` more in the window of `now`, and in every other window that is still being counted for the same tool:
/// so two plans of one caller that count differently never add up to more than the larger.
pub fn count(usages: &mut Vec<Usage>, tool: &str, window: Window, calls: u64, now: u64) {
    let (start, _) = window.bounds(now);
    let before = used(usages, tool, window, now);
    if !usages.iter().any(|usage| usage.tool == tool && usage.window == window && usage.start == start) {
        usages.push(Usage { tool: tool.to_owned(), window, start, calls: before });
    }
    for usage in usages.iter_mut().filter(|usage| usage.tool == tool && !usage.is_over(now)) {
        usage.calls = usage.calls.saturating_add(calls);
    }
}

/// Takes `calls` back that were counted in the windows of `at`; what has ended since has nothing to give.
pub fn uncount(usages: &mut [Usage], tool: &str, calls: u64, at: u64, now: u64) {
    for usage in usages.iter_mut().filter(|usage| usage.tool == tool && !usage.is_over(now)) {
        if usage.window.bounds(at).0 == usage.start {
            usage.calls = usage.calls.saturating_sub(calls);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-30T12:34:56Z
    const NOW: u64 = 1_796_042_096 * SECOND;

    fn usage(tool: &str, window: Window, calls: u64) -> Usage {
        Usage { tool: tool.to_owned(), window, start: window.bounds(NOW).0, calls }
    }

    #[test]
    fn windows_are_those_of_the_calendar_in_utc() {
        let seconds = |window: Window, now: u64| {
            let (start, end) = window.bounds(now * SECOND + 7);
            assert_eq!((start % SECOND, end % SECOND), (0, 0));
            (start / SECOND, end / SECOND)
        };
        // date -u -d @N
        assert_eq!(seconds(Window::Minute, 1_796_042_096), (1_796_042_040, 1_796_042_100));
        assert_eq!(seconds(Window::Hour, 1_796_042_096), (1_796_040_000, 1_796_043_600));
        assert_eq!(seconds(Window::Day, 1_796_042_096), (1_795_996_800, 1_796_083_200));
        assert_eq!(seconds(Window::Month, 1_796_042_096), (1_793_491_200, 1_796_083_200));
        // 2028-02-29T23:59:59Z: the month ends with the 29th.
        assert_eq!(seconds(Window::Month, 1_835_481_599), (1_832_976_000, 1_835_481_600));
        assert_eq!(seconds(Window::Month, 1_835_481_600), (1_835_481_600, 1_838_160_000));
        assert_eq!(Window::Month.bounds(u64::MAX).0 % (31 * 86_400 * SECOND), 0, "beyond every calendar");
    }

    #[test]
    fn a_window_counts_its_own_calls_and_the_next_begins_at_nothing() {
        let mut usages = Vec::new();
        count(&mut usages, "", Window::Hour, 2, NOW);
        count(&mut usages, "", Window::Hour, 3, NOW + SECOND);
        assert_eq!(usages.len(), 1, "each window is counted once");
        assert_eq!(used(&usages, "", Window::Hour, NOW), 5);
        assert_eq!(used(&usages, "other", Window::Hour, NOW), 0);
        let (_, end) = Window::Hour.bounds(NOW);
        assert_eq!(used(&usages, "", Window::Hour, end - 1), 5);
        assert_eq!(used(&usages, "", Window::Hour, end), 0);
        assert!(!usages[0].is_over(end - 1) && usages[0].is_over(end));
        assert_eq!(usages[0].ends_at(), end);
    }

    #[test]
    fn a_longer_window_takes_over_what_a_shorter_one_counted_and_both_count_on() {
        let mut usages = vec![usage("", Window::Hour, 7)];
        assert_eq!(used(&usages, "", Window::Day, NOW), 7);
        count(&mut usages, "", Window::Day, 1, NOW);
        assert_eq!((used(&usages, "", Window::Day, NOW), used(&usages, "", Window::Hour, NOW)), (8, 8));
        count(&mut usages, "", Window::Hour, 1, NOW);
        assert_eq!((used(&usages, "", Window::Day, NOW), used(&usages, "", Window::Hour, NOW)), (9, 9));
        assert_eq!(used(&[usage("", Window::Day, 9)], "", Window::Hour, NOW), 0, "nobody knows when in the day");
    }

    #[test]
    fn an_hour_that_is_over_counts_no_more_and_isnt_counted_on() {
        let mut usages = vec![usage("", Window::Hour, 7)];
        let later = NOW + 3_600 * SECOND;
        count(&mut usages, "", Window::Day, 1, later);
        assert_eq!(used(&usages, "", Window::Day, later), 8, "it lies within the day");
        assert_eq!(usages[0].calls, 7);
    }

    #[test]
    fn a_clock_that_went_back_keeps_the_count_in_its_own_window() {
        let back = NOW - 40 * 86_400 * SECOND;
        let rebased = usage("", Window::Day, 7).rebased(back);
        assert_eq!(rebased.start, Window::Day.bounds(back).0);
        assert_eq!(used(&[rebased], "", Window::Day, back), 7);
        assert_eq!(usage("", Window::Day, 7).rebased(NOW + 86_400 * SECOND), usage("", Window::Day, 7));
    }

    #[test]
    fn what_is_taken_back_comes_from_the_window_that_it_was_counted_in() {
        let mut usages = Vec::new();
        count(&mut usages, "", Window::Hour, 2, NOW);
        count(&mut usages, "", Window::Day, 1, NOW);
        uncount(&mut usages, "other", 1, NOW, NOW);
        uncount(&mut usages, "", 1, NOW - 3_600 * SECOND, NOW);
        assert_eq!((usages[0].calls, usages[1].calls), (3, 2), "an hour ago it was the same day");
        assert_eq!(used(&usages, "", Window::Day, NOW), 3, "the hour lies within it");
        uncount(&mut usages, "", 1, NOW, NOW);
        assert_eq!((usages[0].calls, usages[1].calls), (2, 1));
        let mut ended = vec![usage("", Window::Hour, 2)];
        uncount(&mut ended, "", 1, NOW, NOW + 3_600 * SECOND);
        assert_eq!(ended[0].calls, 2);
        uncount(&mut ended, "", 9, NOW, NOW);
        assert_eq!(ended[0].calls, 0);
    }

    #[test]
    fn what_is_stored_is_what_it_always_was() {
        let stored = r#"{"window":"day","start":1795996800000000,"calls":7}"#;
        assert_eq!(serde_json::to_string(&usage("", Window::Day, 7)).unwrap(), stored);
        assert_eq!(serde_json::from_str::<Usage>(stored).unwrap(), usage("", Window::Day, 7));
        let names = Window::ALL.map(|window| serde_json::to_value(window).unwrap());
        assert_eq!(names.to_vec(), Window::ALL.map(Window::name).map(serde_json::Value::from));
        assert!(serde_json::to_string(&usage("echo", Window::Day, 7)).unwrap().contains(r#""tool":"echo""#));
    }
}
