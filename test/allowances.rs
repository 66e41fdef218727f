//! Several limits at once against a plain model of the same limits, on random schedules.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used
)]

use proptest::prelude::*;
use sluice::limiter::answer::Kind;
use sluice::limiter::decision::decide;
use sluice::limiter::policy::{drained, Policy, SECOND, TOKEN};
use sluice::limiter::question::{LeaseAsked, Question, QuotaAsked, SlotsAsked, ToolBucket};
use sluice::limiter::quota::Window;
use sluice::limiter::returns::release;
use sluice::limiter::row::Row;

const NOW: u64 = 1_796_000_000 * SECOND;

const TOOL_NAMES: [&str; 2] = ["plain", "render"];

/// Calls of one of two tools under every kind of limit. The numbers are such that each refuses now and then.
fn several(tool: usize, calls: u64, id: u64) -> Question {
    let name = || TOOL_NAMES[tool].to_owned();
    let (quota, slots) = (
        |tool, limit, window| QuotaAsked { tool, calls, limit, window },
        |tool, limit| SlotsAsked { tool, calls, limit, poll: 5 * SECOND },
    );
    let mut question = Question {
        quotas: vec![quota(String::new(), 9, Window::Minute)],
        slots: vec![slots(String::new(), 5)],
        lease: Some(LeaseAsked { us: 600 * SECOND, calls: [(String::new(), calls), (name(), calls)].into() }),
        id: Some(id),
        ..Question::new(Policy::new(8 * TOKEN, TOKEN / 4).unwrap(), calls * TOKEN)
    };
    if tool == 1 {
        question.tools.push(ToolBucket { tool: name(), cost: calls * TOKEN, capacity: 4 * TOKEN, refill: TOKEN / 8 });
        question.quotas.push(quota(name(), 20, Window::Hour));
        question.slots.push(slots(name(), 3));
    }
    question
}

/// Calls that ran.
#[derive(Debug)]
struct Ran {
    id: u64,
    tool: usize,
    calls: u64,
    started: u64,
    ends: u64,
}

/// The same limits, kept as plainly as can be: every call that ran, with when and until when.
#[derive(Debug, Default)]
struct Plain {
    ran: Vec<Ran>,
    ended: Vec<u64>,
    /// Debts of the caller and of the tool, and when they were counted.
    owed: [(u64, u64); 2],
}

impl Plain {
    fn end(&mut self, now: u64) -> Vec<u64> {
        let over = self.ran.iter().filter(|ran| ran.ends <= now && !self.ended.contains(&ran.id));
        let over: Vec<u64> = over.map(|ran| ran.id).collect();
        self.ended.extend(&over);
        over
    }

    fn owed(&self, bucket: usize, now: u64) -> u64 {
        let (owed, at) = self.owed[bucket];
        owed.saturating_sub(drained(now - at, [TOKEN / 4, TOKEN / 8][bucket]))
    }

    fn admits(&self, tool: usize, calls: u64, now: u64) -> bool {
        let sum =
            |those: &dyn Fn(&Ran) -> bool| self.ran.iter().filter(|ran| those(ran)).map(|ran| ran.calls).sum::<u64>();
        let since = |window: u64| now - now % window;
        let running = |ran: &Ran| !self.ended.contains(&ran.id);
        let minute = sum(&|ran| ran.started >= since(60 * SECOND)) + calls <= 9;
        let caller = self.owed(0, now) + calls * TOKEN <= 8 * TOKEN && minute && sum(&running) + calls <= 5;
        let hour = sum(&|ran| ran.tool == 1 && ran.started >= since(3_600 * SECOND)) + calls <= 20;
        let slots = sum(&|ran| ran.tool == 1 && running(ran)) + calls <= 3;
        caller && (tool == 0 || self.owed(1, now) + calls * TOKEN <= 4 * TOKEN && hour && slots)
    }

    fn take(&mut self, ran: Ran) {
        let (cost, now) = (ran.calls * TOKEN, ran.started);
        self.owed[0] = (self.owed(0, now) + cost, now);
        if ran.tool == 1 {
            self.owed[1] = (self.owed(1, now) + cost, now);
        }
        self.ran.push(ran);
    }
}

proptest! {
    #[test]
    fn of_several_limits_all_hold_and_none_is_charged_for_what_another_refused(
        steps in proptest::collection::vec((0..20 * SECOND, 0..2_usize, 1..4_u64, 0..12 * SECOND), 1..80),
    ) {
        let (mut row, mut now): (Option<Row>, u64) = (None, NOW);
        let mut plain = Plain::default();
        for (id, (gap, tool, calls, lasts)) in steps.into_iter().enumerate() {
            now += gap;
            // Calls that are over by now have given their slots back, in the order in which they ended.
            for ended in plain.end(now) {
                row = row.clone().and_then(|row| release(row, ended, now)).or(row);
            }
            let question = several(tool, calls, id as u64);
            let decision = decide(row.clone(), &question, now).unwrap();
            let expected = plain.admits(tool, calls, now);
            prop_assert_eq!(decision.answer.admitted, expected, "{:?} at {}: {:?}", question, now, plain);
            prop_assert_eq!(decision.answer.fault(&question), None);
            prop_assert!(decision.answer.admitted == decision.write.is_some());
            if decision.answer.wait > 0 && decision.answer.by.as_ref().is_none_or(|by| by.kind != Kind::Slots) {
                // Nothing but time passes, and calls end: then it runs.
                let later = now + decision.answer.wait;
                let free = row.clone().map(|row| Row { leases: Vec::new(), ..row });
                prop_assert!(decide(free, &question, later).unwrap().answer.admitted);
            }
            if decision.answer.admitted {
                plain.take(Ran { id: id as u64, tool, calls, started: now, ends: now + lasts });
            }
            row = decision.write.or(row);
        }
    }
}
