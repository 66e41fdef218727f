//! Spacing: the calls of a tool start so far apart, whoever makes them.
//!
//! It needs no arithmetic of its own. It is a bucket of milliseconds, kept in an object for each tool, of which one drains each
//! millisecond: its debt is the time until the next place is free, a call adds its distance to that, and fits while it doesn't
//! have to wait longer than it may.

use super::answer::Answer;
use super::policy::TOKEN;
use super::question::Question;
use std::collections::BTreeMap;

/// The distance to keep between calls of one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spacing<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Milliseconds between the starts of two calls.
    pub gap_ms: u64,
    /// How many calls of it there are.
    pub calls: u64,
}

/// The distances to keep among `calls`: each with its tool's name, and the distance in milliseconds if there is one.
pub fn spacings<'a>(calls: impl Iterator<Item = (&'a str, Option<u64>)>) -> Vec<Spacing<'a>> {
    let mut spacings: BTreeMap<&str, Spacing<'_>> = BTreeMap::new();
    for (tool, gap_ms) in calls.filter_map(|(tool, gap_ms)| Some((tool, gap_ms?))) {
        let spacing = spacings.entry(tool).or_insert(Spacing { tool, gap_ms, calls: 0 });
        spacing.calls = spacing.calls.saturating_add(1);
    }
    spacings.into_values().collect()
}

impl Spacing<'_> {
    /// The name of the object that keeps the places, and of the limit in header fields.
    pub fn name(&self) -> String {
        format!("spacing:{}", self.tool)
    }

    /// Asks for a place for each call, on a receipt of this id, when none may wait longer than `max_wait_ms` milliseconds.
    pub fn question(&self, max_wait_ms: u64, id: u64) -> Question {
        let tokens = |ms: u64| ms.saturating_mul(TOKEN);
        let capacity = tokens(max_wait_ms.saturating_add(self.gap_ms));
        let cost = tokens(self.gap_ms.saturating_mul(self.calls));
        Question { cost, capacity, refill: tokens(1_000), id: Some(id), ..Question::unlimited() }
    }

    /// Whether there are so many calls that the last can never start in time.
    pub fn never_fits(&self, max_wait_ms: u64) -> bool {
        let asked = self.question(max_wait_ms, 0);
        asked.cost > asked.capacity
    }

    /// When the turn of each call comes, in microseconds since 1970, when the object's `answer` to `asked` came at `now`.
    pub fn turns(&self, asked: &Question, answer: &Answer, now: u64) -> Vec<u64> {
        let first = answer.debt.saturating_sub(asked.cost).div_ceil(TOKEN);
        let after_ms = |index: u64| first.saturating_add(index.saturating_mul(self.gap_ms));
        (0..self.calls).map(|index| now.saturating_add(after_ms(index).saturating_mul(1_000))).collect()
    }

    /// The item of `RateLimit-Policy`: one call in each distance, in whole seconds.
    pub fn item(&self) -> String {
        format!("\"{}\";q=1;w={}", self.name(), self.gap_ms.div_ceil(1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::decision::decide;
    use crate::limiter::policy::SECOND;
    use crate::limiter::row::Row;

    const NOW: u64 = 1_796_000_000 * SECOND;

    fn spacing(calls: u64) -> Spacing<'static> {
        Spacing { tool: "render", gap_ms: 400, calls }
    }

    fn asked(row: Option<Row>, calls: u64, now: u64) -> (Option<Row>, Answer, Vec<u64>) {
        let question = spacing(calls).question(900, 1);
        let decision = decide(row.clone(), &question, now).unwrap();
        assert_eq!(decision.answer.fault(&question), None);
        let turns = spacing(calls)
            .turns(&question, &decision.answer, now)
            .into_iter()
            .map(|turn| (turn - now) / 1_000)
            .collect();
        (decision.write.or(row), decision.answer, turns)
    }

    #[test]
    fn calls_are_grouped_by_tool_and_those_without_a_distance_left_out() {
        let calls = [("render", Some(400)), ("echo", None), ("render", Some(400)), ("draw", Some(1))];
        let draw = Spacing { tool: "draw", gap_ms: 1, calls: 1 };
        assert_eq!(spacings(calls.into_iter()), [draw, spacing(2)]);
    }

    #[test]
    fn each_call_has_its_turn_a_distance_after_the_one_before() {
        let (row, answer, turns) = asked(None, 1, NOW);
        assert_eq!((answer.admitted, turns), (true, vec![0]));
        let (row, _, turns) = asked(row, 2, NOW);
        assert_eq!(turns, [400, 800]);
        let (row, answer, _) = asked(row, 1, NOW);
        assert_eq!((answer.admitted, answer.wait), (false, 300_000), "its turn would be in 1200 ms, 300 too late");
        let (_, answer, turns) = asked(row, 1, NOW + 300_000);
        assert_eq!((answer.admitted, turns), (true, vec![900]));
    }

    #[test]
    fn a_place_is_asked_for_on_a_receipt() {
        assert_eq!(spacing(1).question(900, 7).id, Some(7));
    }

    #[test]
    fn a_turn_that_has_passed_is_now() {
        let (row, ..) = asked(None, 1, NOW);
        assert_eq!(asked(row.clone(), 1, NOW + 399_500).2, [1], "rounded up: never too early");
        assert_eq!(asked(row.clone(), 1, NOW + 400_000).2, [0]);
        assert_eq!(asked(row, 1, NOW + 60 * SECOND).2, [0]);
    }

    #[test]
    fn more_calls_than_have_a_turn_in_time_never_fit() {
        assert!(!spacing(3).never_fits(900) && spacing(4).never_fits(900));
        assert!(!spacing(1).never_fits(0) && spacing(2).never_fits(0));
    }

    #[test]
    fn names_are_what_they_always_were() {
        assert_eq!(
            (spacing(1).name(), spacing(1).item()),
            ("spacing:render".into(), r#""spacing:render";q=1;w=1"#.into())
        );
    }
}
