//! What must hold of the limiter on any schedule. What a search has found is in `properties.proptest-regressions`.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used
)]

use proptest::prelude::*;
use sluice::limiter::alarm::{after_alarm, AfterAlarm};
use sluice::limiter::bucket::{ask, Debt, Verdict};
use sluice::limiter::decision::decide;
use sluice::limiter::give_back::Receipt;
use sluice::limiter::memory::{Heard, Insured, Memory};
use sluice::limiter::policy::{drained, span, Policy, SECOND, TOKEN};
use sluice::limiter::question::Question;
use sluice::limiter::returns::give_back;
use sluice::limiter::row::Row;

const NOW: u64 = 1_796_000_000 * SECOND;

fn policies() -> impl Strategy<Value = Policy> {
    (1..60_u64, 1..5_000_000_u64).prop_map(|(tokens, refill)| Policy::new(tokens * TOKEN, refill).unwrap())
}

/// Calls, as microseconds since the one before and tokens.
fn schedules() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![Just(0), 0..2_000_u64, 0..3 * SECOND, 0..200 * SECOND];
    proptest::collection::vec((gap, 1..5_u64), 1..80)
}

/// Runs a schedule, and gives what was admitted as (when, micro-tokens).
fn admitted(policy: Policy, schedule: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut debt, mut now, mut ran) = (Debt::default(), NOW, Vec::new());
    for (gap, tokens) in schedule {
        now += gap;
        if let Verdict::Admitted(after) = ask(debt, policy, tokens * TOKEN, now) {
            debt = after;
            ran.push((now, tokens * TOKEN));
        }
    }
    ran
}

/// No span of what ran may hold more than the capacity and what came back in it.
fn within(ran: &[(u64, u64)], capacity: u64, refill: u64) -> Result<(), TestCaseError> {
    for (first, (start, _)) in ran.iter().enumerate() {
        let mut sum = 0;
        for (end, cost) in &ran[first..] {
            sum += cost;
            prop_assert!(sum <= capacity + drained(end - start, refill), "{sum} in {} us", end - start);
        }
    }
    Ok(())
}

/// A bucket of unbounded precision: debt in millionths of a micro-token, drained each microsecond.
struct Reference {
    owed: u128,
    at: u64,
}

impl Reference {
    fn drain(&mut self, policy: Policy, now: u64) {
        self.owed = self.owed.saturating_sub(u128::from(now - self.at) * u128::from(policy.refill()));
        self.at = now;
    }

    fn fits(&self, policy: Policy, cost: u64, slack: u64) -> bool {
        self.owed + u128::from(cost + slack) * 1_000_000 <= u128::from(policy.capacity()) * 1_000_000
    }
}

proptest! {
    #[test]
    fn never_more_than_the_capacity_and_what_came_back(policy in policies(), schedule in schedules()) {
        within(&admitted(policy, &schedule), policy.capacity(), policy.refill())?;
    }

    #[test]
    fn as_a_bucket_of_unbounded_precision_decides_but_for_a_micro_token_a_call(policy in policies(), schedule in schedules()) {
        let (mut debt, mut exact, mut now, mut calls) = (Debt::default(), Reference { owed: 0, at: NOW }, NOW, 0);
        for (gap, tokens) in schedule {
            now += gap;
            exact.drain(policy, now);
            let cost = tokens * TOKEN;
            match ask(debt, policy, cost, now) {
                Verdict::Admitted(after) => {
                    prop_assert!(exact.fits(policy, cost, 0), "admitted too much");
                    debt = after;
                    exact.owed += u128::from(cost) * 1_000_000;
                    calls += 1;
                }
                _ => prop_assert!(!exact.fits(policy, cost, calls + 1), "refused too much"),
            }
        }
    }

    #[test]
    fn refused_until_exactly_the_told_instant_and_then_admitted(policy in policies(), schedule in schedules(), early in 1..1_000_u64) {
        let (mut debt, mut now) = (Debt::default(), NOW);
        for (gap, tokens) in schedule {
            now += gap;
            let cost = tokens * TOKEN;
            match ask(debt, policy, cost, now) {
                Verdict::Admitted(after) => debt = after,
                Verdict::NeverFits => prop_assert!(cost > policy.capacity()),
                Verdict::Refused { wait, .. } => {
                    prop_assert!(wait > 0);
                    let admitted = |at| matches!(ask(debt, policy, cost, at), Verdict::Admitted(_));
                    prop_assert!(admitted(now + wait));
                    prop_assert!(!admitted(now + wait - 1));
                    prop_assert!(!admitted(now + wait.saturating_sub(early)) || wait < early);
                }
            }
        }
    }

    #[test]
    fn a_refusal_changes_nothing(policy in policies(), schedule in schedules(), extra in proptest::collection::vec(0..80_usize, 0..20)) {
        // The same schedule, with calls in between that are refused.
        let (mut debt, mut now, mut ran) = (Debt::default(), NOW, Vec::new());
        for (index, (gap, tokens)) in schedule.iter().enumerate() {
            now += gap;
            if extra.contains(&index) {
                let dear = policy.capacity().saturating_sub(debt.as_of(policy, now).owed) + 1;
                prop_assert!(!matches!(ask(debt, policy, dear, now), Verdict::Admitted(_)));
            }
            if let Verdict::Admitted(after) = ask(debt, policy, tokens * TOKEN, now) {
                debt = after;
                ran.push((now, tokens * TOKEN));
            }
        }
        prop_assert_eq!(ran, admitted(policy, &schedule));
    }

    #[test]
    fn policies_that_alternate_never_add_up_to_more_than_the_larger(
        one in policies(), other in policies(), schedule in schedules(), turns in proptest::collection::vec(any::<bool>(), 80),
    ) {
        let (mut debt, mut now, mut ran) = (Debt::default(), NOW, Vec::new());
        for ((gap, tokens), turn) in schedule.into_iter().zip(turns) {
            now += gap;
            if let Verdict::Admitted(after) = ask(debt, if turn { one } else { other }, tokens * TOKEN, now) {
                debt = after;
                ran.push((now, tokens * TOKEN));
            }
        }
        within(&ran, one.capacity().max(other.capacity()), one.refill().max(other.refill()))?;
    }

    #[test]
    fn a_changed_policy_locks_nobody_out_beyond_draining_what_is_owed(
        old in policies(), new in policies(), schedule in schedules(),
    ) {
        let ran = admitted(old, &schedule);
        let (mut debt, mut last) = (Debt::default(), NOW);
        for (when, cost) in ran {
            if let Verdict::Admitted(after) = ask(debt, old, cost, when) { debt = after; }
            last = when;
        }
        let drained_by = last + span(debt.owed, new.refill());
        prop_assert!(matches!(ask(debt, new, new.capacity(), drained_by), Verdict::Admitted(_)));
    }

    #[test]
    fn a_clock_that_goes_back_locks_nobody_out_beyond_one_refill(
        policy in policies(), steps in proptest::collection::vec((-4_000_000_000_i64..4_000_000_000, 1..5_u64), 1..60),
    ) {
        let full = span(policy.capacity(), policy.refill());
        let (mut row, mut now): (Option<Row>, u64) = (None, NOW);
        for (step, tokens) in steps {
            now = now.saturating_add_signed(step);
            let question = Question::new(policy, tokens * TOKEN);
            let decision = decide(row.clone(), &question, now).unwrap();
            let wait = decision.answer.wait;
            prop_assert!(wait <= full, "told to wait {wait} us, and a refill takes {full}");
            row = decision.write.or(row);
            // Whatever the clock did before: from now on, one refill later everything runs.
            let later = decide(row.clone(), &Question::new(policy, policy.capacity()), now + full).unwrap();
            prop_assert!(later.answer.admitted);
        }
    }

    #[test]
    fn no_answer_of_an_object_is_taken_for_nonsense(
        one in policies(), other in policies(), schedule in schedules(), turns in proptest::collection::vec(any::<bool>(), 80),
    ) {
        let (mut row, mut now): (Option<Row>, u64) = (None, NOW);
        for ((gap, tokens), turn) in schedule.into_iter().zip(turns) {
            now += gap;
            let policy = if turn { one } else { other };
            for cost in [0, tokens * TOKEN] {
                let question = Question::new(policy, cost);
                let decision = decide(row.clone(), &question, now).unwrap();
                prop_assert_eq!(decision.answer.fault(&question), None);
                row = decision.write.or(row);
            }
        }
    }

    #[test]
    fn alarms_early_late_or_twice_change_no_verdict(
        policy in policies(), schedule in schedules(), alarms in proptest::collection::vec(0..3_usize, 80),
    ) {
        let (mut with, mut without, mut now): (Option<Row>, Option<Row>, u64) = (None, None, NOW);
        for ((gap, tokens), alarms) in schedule.into_iter().zip(alarms) {
            now += gap;
            for _ in 0..alarms {
                with = match after_alarm(with.clone(), now) {
                    AfterAlarm::Nothing => with,
                    AfterAlarm::Delete => None,
                    AfterAlarm::Again(row) => Some(*row),
                };
            }
            let question = Question::new(policy, tokens * TOKEN);
            let [left, right] = [&with, &without].map(|row| decide(row.clone(), &question, now).unwrap());
            prop_assert_eq!(left.answer, right.answer);
            (with, without) = (left.write.or(with), right.write.or(without));
            if let Some(row) = &with {
                prop_assert!(row.alarm > 0 && row.alarm <= row.rests_at(), "an alarm is pending, and never later than needed");
            }
        }
    }

    #[test]
    fn a_remembered_debt_refuses_only_what_the_object_would_and_its_wait_is_enough(
        policy in policies(),
        calls in proptest::collection::vec((0..3 * SECOND, 0..20_000_u64, 0..20_000_u64, 1..5_u64), 1..60),
    ) {
        let (mut object, mut memory, mut now) = (Debt::default(), Memory::default(), NOW);
        for (gap, there, back, tokens) in calls {
            now += gap;
            let cost = tokens * TOKEN;
            if let Some(refused) = memory.refuses("a", policy, cost, 1, now) {
                prop_assert!(matches!(ask(object, policy, cost, now), Verdict::Refused { .. }), "the object would have admitted it");
                let told = now + refused.wait;
                prop_assert!(matches!(ask(object, policy, cost, told), Verdict::Admitted(_)), "the wait was too short");
                continue;
            }
            let (sent, decided) = (now, now + there);
            now = decided + back;
            let owed = match ask(object, policy, cost, decided) {
                Verdict::Admitted(after) => {
                    object = after;
                    after.owed
                }
                Verdict::Refused { debt, .. } => debt.owed,
                Verdict::NeverFits => continue,
            };
            memory.hear("a", Heard { owed, sent, received: now, calls_left: u64::MAX }, policy);
        }
    }

    #[test]
    fn an_insured_bucket_holds_to_the_policy_whatever_is_heard_meanwhile(
        policy in policies(), schedule in schedules(), heard in proptest::collection::vec(proptest::option::of(0..60_u64), 80),
    ) {
        let (mut memory, mut now, mut ran) = (Memory::default(), NOW, Vec::new());
        for ((gap, tokens), heard) in schedule.into_iter().zip(heard) {
            now += gap;
            if let Some(tokens) = heard {
                memory.hear("a", Heard { owed: tokens * TOKEN, sent: now, received: now, calls_left: u64::MAX }, policy);
            }
            if memory.insure("a", policy, tokens * TOKEN, now) == Insured::Admitted {
                ran.push((now, tokens * TOKEN));
            }
        }
        within(&ran, policy.capacity(), policy.refill())?;
    }

    #[test]
    fn giving_back_never_mints(
        one in policies(), other in policies(), schedule in schedules(),
        backs in proptest::collection::vec(proptest::option::of((0..40_usize, 0..3_usize)), 80),
        turns in proptest::collection::vec(any::<bool>(), 80),
    ) {
        let (mut row, mut now): (Option<Row>, u64) = (None, NOW);
        let mut charges: Vec<(Receipt, bool)> = Vec::new();
        for (((gap, tokens), back), turn) in schedule.into_iter().zip(backs).zip(turns) {
            now += gap;
            let policy = if turn { one } else { other };
            let question = Question { id: Some(charges.len() as u64), ..Question::new(policy, tokens * TOKEN) };
            let decision = decide(row.clone(), &question, now).unwrap();
            row = decision.write.or(row);
            charges.extend(decision.answer.receipt.map(|receipt| (receipt, false)));
            let index = back.map(|(ago, _)| charges.len().saturating_sub(ago + 1));
            let (Some((_, times)), Some((receipt, given))) = (back, index.and_then(|index| charges.get_mut(index))) else {
                continue;
            };
            for _ in 0..times {
                let Some(stored) = row.clone() else { break };
                let owed = stored.bucket("").owed().drained(stored.refill, now).owed;
                let returned = give_back(stored, receipt, now);
                prop_assert!(!*given || returned.is_none(), "it came back twice");
                let left = returned.as_ref().map_or(owed, |row| row.bucket("").owed().drained(row.refill, now).owed);
                prop_assert!(left + receipt.charges[0].cost >= owed, "more came back than was charged");
                *given |= returned.is_some();
                row = returned.or(row);
            }
        }
        // What was never given back keeps to the larger policy.
        let kept = charges.iter().filter(|(_, given)| !given).map(|(receipt, _)| (receipt.at, receipt.charges[0].cost));
        within(&kept.collect::<Vec<_>>(), one.capacity().max(other.capacity()), one.refill().max(other.refill()))?;
    }
}
