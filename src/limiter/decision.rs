//! The object's whole behaviour on a question: one function of (row, question, now). `object.rs` only reads and writes.

use super::allowance::{limits, refusing, Demand, Limit};
use super::answer::{Answer, By, Kind};
use super::give_back::{Charge, Counted, Receipt};
use super::policy::{PolicyFault, LARGEST};
use super::question::Question;
use super::quota::{count, used};
use super::row::{Bucket, Row};
use super::slots::{running, Lease};

/// What a question comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to tell.
    pub answer: Answer,
    /// The row to write, if any.
    pub write: Option<Row>,
    /// Whether the alarm has to be set to the row's.
    pub set_alarm: bool,
}

/// Decides one question at `now` (microseconds). An error is a question that makes no sense.
pub fn decide(row: Option<Row>, question: &Question, now: u64) -> Result<Decision, PolicyFault> {
    let (mut row, went_back) = row.unwrap_or_else(|| Row::empty(now)).rebased(now);
    let held = row.held.filter(|held| held.until > now);
    let blocked = held.filter(|held| held.blocked && !question.is_free()).map(|held| held.until.saturating_sub(now));
    let instead = held.map(|held| held.apply(question));
    let question = instead.as_ref().unwrap_or(question);
    let limits = limits(question)?;
    let refusing = match blocked {
        Some(wait) => Some((Some(By { kind: Kind::Blocked, tool: String::new() }), wait)),
        None => refusing(&limits, &row, now).map(|(limit, wait)| (limit.by(), wait)),
    };
    let (mut receipt, charges) = (None, refusing.is_none() && !question.is_free());
    if charges {
        receipt = take(&mut row, question, &limits, now);
    }
    let answer = Answer { held, ..answer(&row, &limits, refusing, receipt, now) };
    // Nothing else writes, unless the clock went back: then the new time has to count from now on.
    if !charges && !went_back {
        return Ok(Decision { answer, write: None, set_alarm: false });
    }
    row.prune(now);
    let set_alarm = row.schedule(now);
    Ok(Decision { answer, write: Some(row), set_alarm })
}

/// Takes of every limit what is wanted of it. With an id in the question it tells how that could be given back.
fn take(row: &mut Row, question: &Question, limits: &[Limit<'_>], now: u64) -> Option<Receipt> {
    let mut receipt = Receipt { id: question.id.unwrap_or_default(), at: now, ..Receipt::default() };
    for Limit { tool, demand } in limits {
        match *demand {
            Demand::Tokens(_, 0) | Demand::Calls(_, 0) | Demand::Slots { .. } => {}
            Demand::Tokens(policy, cost) => {
                let bucket = row.bucket(tool);
                let debt = bucket.owed().as_of(policy, now).owed.saturating_add(cost);
                let mut ledger = bucket.ledger;
                if question.id.is_some() || !ledger.is_unused() {
                    let after = ledger.enter(cost, now);
                    receipt.charges.push(Charge { tool: (*tool).to_owned(), cost, after });
                }
                row.set_bucket(tool, Bucket { debt, at: now, refill: policy.refill(), ledger });
            }
            Demand::Calls(quota, calls) => {
                count(&mut row.quotas, tool, quota.window, calls, now);
                receipt.counted.push(Counted { tool: (*tool).to_owned(), calls });
            }
        }
    }
    if let (Some(lease), Some(id)) = (&question.lease, question.id) {
        let until = now.saturating_add(lease.us.min(LARGEST));
        row.leases.push(Lease { id, from: now, until, calls: lease.calls.clone() });
    }
    question.id.map(|_| receipt)
}

fn answer(
    row: &Row,
    limits: &[Limit<'_>],
    refusing: Option<(Option<By>, u64)>,
    receipt: Option<Receipt>,
    now: u64,
) -> Answer {
    let admitted = refusing.is_none();
    let (by, wait) = refusing.unwrap_or_default();
    // A debt far above a new and slow policy may take longer than can be told; 142 years will do.
    let mut answer = Answer { admitted, at: now, wait: wait.min(LARGEST), by, receipt, ..Answer::default() };
    for Limit { tool, demand } in limits {
        match *demand {
            Demand::Tokens(policy, _) => {
                let owed = row.bucket(tool).owed().as_of(policy, now).owed;
                if tool.is_empty() {
                    answer.debt = owed;
                } else {
                    answer.tools.insert((*tool).to_owned(), owed);
                }
            }
            Demand::Calls(quota, _) => {
                answer.quotas.insert((*tool).to_owned(), used(&row.quotas, tool, quota.window, now));
            }
            Demand::Slots { .. } => {
                answer.slots.insert((*tool).to_owned(), running(&row.leases, tool, now));
            }
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::{Policy, SECOND, TOKEN};
    use crate::limiter::question::{LeaseAsked, QuotaAsked, SlotsAsked, ToolBucket};
    use crate::limiter::quota::Window;

    const NOW: u64 = 1_796_000_000 * SECOND;

    fn policy() -> Policy {
        Policy::new(30 * TOKEN, TOKEN / 2).unwrap()
    }

    fn row(debt: u64) -> Row {
        Row { debt, refill: TOKEN / 2, alarm: NOW + 2 * SECOND, ..Row::empty(NOW) }
    }

    fn plain(tokens: u64) -> Question {
        Question::new(policy(), tokens * TOKEN)
    }

    /// Three calls of render, with everything that can limit them.
    fn full() -> Question {
        let tool = || "render".to_owned();
        let quota = |tool, calls, limit| QuotaAsked { tool, calls, limit, window: Window::Day };
        let slots = |tool, calls, limit| SlotsAsked { tool, calls, limit, poll: 5 * SECOND };
        Question {
            tools: vec![ToolBucket { tool: tool(), cost: 3 * TOKEN, capacity: 6 * TOKEN, refill: TOKEN }],
            quotas: vec![quota(String::new(), 3, 20), quota(tool(), 3, 10)],
            slots: vec![slots(String::new(), 3, 8), slots(tool(), 3, 4)],
            lease: Some(LeaseAsked { us: 60 * SECOND, calls: [(String::new(), 3), (tool(), 3)].into() }),
            id: Some(7),
            ..plain(3)
        }
    }

    fn asked(row: Option<Row>, question: &Question, now: u64) -> Decision {
        decide(row, question, now).unwrap()
    }

    fn by(kind: Kind, tool: &str) -> Option<By> {
        Some(By { kind, tool: tool.to_owned() })
    }

    #[test]
    fn the_first_call_writes_one_row_and_sets_the_alarm_to_when_nothing_is_owed() {
        let first = asked(None, &plain(1), NOW);
        assert_eq!(first.write, Some(row(TOKEN)));
        assert!(first.set_alarm);
        assert_eq!(first.answer, Answer { admitted: true, debt: TOKEN, at: NOW, ..Answer::default() });
    }

    #[test]
    fn the_alarm_is_set_once_in_a_busy_period() {
        let second = asked(Some(row(TOKEN)), &plain(1), NOW);
        assert_eq!(second.write, Some(row(2 * TOKEN)), "the alarm that is pending stays");
        assert!(!second.set_alarm);
    }

    #[test]
    fn refusals_and_questions_that_charge_nothing_write_nothing() {
        let full = || Some(row(30 * TOKEN));
        let refused = asked(full(), &plain(1), NOW + 1);
        assert_eq!((refused.write, refused.set_alarm), (None, false));
        assert_eq!((refused.answer.admitted, refused.answer.wait, refused.answer.by), (false, 2 * SECOND - 1, None));
        let status = asked(full(), &plain(0), NOW + 2 * SECOND);
        assert_eq!(
            (status.answer.admitted, status.answer.debt, status.answer.at),
            (true, 29 * TOKEN, NOW + 2 * SECOND)
        );
        assert_eq!((status.write, status.set_alarm), (None, false));
        let never = asked(full(), &plain(31), NOW);
        assert_eq!((never.answer.admitted, never.answer.wait, never.write), (false, 0, None));
        assert_eq!(asked(None, &plain(0), NOW).write, None, "asking creates nothing");
    }

    #[test]
    fn a_refusal_after_the_clock_went_back_writes_the_new_time() {
        let back = NOW - 3_600 * SECOND;
        let written = Row { at: back, alarm: back + 60 * SECOND, ..row(30 * TOKEN) };
        for question in [plain(1), plain(0), plain(31)] {
            let refused = asked(Some(row(30 * TOKEN)), &question, back);
            assert_eq!(
                (refused.write.as_ref(), refused.set_alarm),
                (Some(&written), true),
                "the alarm is an hour too late"
            );
        }
        let admitted = asked(Some(row(TOKEN)), &plain(1), back);
        assert_eq!(admitted.write.unwrap().alarm, back + 4 * SECOND);
        assert!(admitted.set_alarm);
        assert_eq!(asked(Some(row(30 * TOKEN)), &plain(1), NOW).write, None, "the same instant is not back");
    }

    #[test]
    fn a_call_that_all_admit_is_charged_to_all_in_one_row() {
        let Decision { answer, write, set_alarm } = asked(None, &full(), NOW);
        let row = write.unwrap();
        assert!(answer.admitted && set_alarm);
        assert_eq!((row.debt, row.bucket("render").debt), (3 * TOKEN, 3 * TOKEN));
        assert_eq!(
            row.quotas.iter().map(|usage| (usage.tool.as_str(), usage.calls)).collect::<Vec<_>>(),
            [("", 3), ("render", 3)]
        );
        let both = |count: u64| -> std::collections::BTreeMap<String, u64> {
            [(String::new(), count), ("render".to_owned(), count)].into()
        };
        let lease = Lease { id: 7, from: NOW, until: NOW + 60 * SECOND, calls: both(3) };
        assert_eq!(row.leases, [lease]);
        assert_eq!(row.alarm, Window::Day.bounds(NOW).1, "as long as the day's count is kept");
        assert_eq!((answer.debt, &answer.tools), (3 * TOKEN, &[("render".to_owned(), 3 * TOKEN)].into()));
        assert_eq!((answer.quotas, answer.slots), (both(3), both(3)));
        let receipt = answer.receipt.unwrap();
        assert_eq!((receipt.id, receipt.at, receipt.charges.len(), receipt.counted.len()), (7, NOW, 2, 2));
    }

    #[test]
    fn each_limit_refuses_alone_and_leaves_the_others_as_they_were() {
        let row = asked(None, &full(), NOW).write.unwrap();
        let (_, midnight) = Window::Day.bounds(NOW);
        type Change = fn(&mut Question);
        let cases: [(Change, Option<By>, u64); 6] = [
            (|asked| (asked.cost, asked.capacity) = (4 * TOKEN, 6 * TOKEN), None, 2 * SECOND),
            (|asked| asked.tools[0].cost = 4 * TOKEN, by(Kind::Bucket, "render"), SECOND),
            (|asked| asked.quotas[0].limit = 5, by(Kind::Quota, ""), midnight - NOW),
            (|asked| asked.quotas[1].limit = 5, by(Kind::Quota, "render"), midnight - NOW),
            (|asked| asked.slots[0].limit = 5, by(Kind::Slots, ""), 5 * SECOND),
            (|asked| asked.slots[1].limit = 5, by(Kind::Slots, "render"), 5 * SECOND),
        ];
        for (change, by, wait) in cases {
            let mut question = full();
            question.slots[1].limit = 8;
            change(&mut question);
            let refused = asked(Some(row.clone()), &question, NOW);
            assert_eq!((refused.answer.admitted, &refused.answer.by, refused.answer.wait), (false, &by, wait));
            assert_eq!((refused.write, refused.answer.receipt), (None, None), "{by:?}");
        }
    }

    #[test]
    fn of_several_that_refuse_the_longest_wait_is_told_and_what_never_fits_comes_first() {
        let row = asked(None, &full(), NOW).write.unwrap();
        let mut question = full();
        question.tools[0].cost = 5 * TOKEN;
        let refused = asked(Some(row.clone()), &question, NOW).answer;
        assert_eq!((refused.by, refused.wait), (by(Kind::Slots, "render"), 5 * SECOND), "two seconds and five");
        question.quotas[0].limit = 2;
        let refused = asked(Some(row), &question, NOW).answer;
        assert_eq!((refused.by, refused.wait), (by(Kind::Quota, ""), 0));
    }

    #[test]
    fn of_two_that_tell_the_same_wait_the_callers_own_is_named() {
        let bucket = policy();
        let of_tool =
            |cost| ToolBucket { tool: "render".to_owned(), cost, capacity: bucket.capacity(), refill: bucket.refill() };
        let question = |tokens: u64| Question { tools: vec![of_tool(tokens * TOKEN)], ..plain(tokens) };
        let row = asked(None, &question(30), NOW).write;
        let refused = asked(row, &question(1), NOW).answer;
        assert_eq!((refused.admitted, refused.by, refused.wait), (false, None, 2 * SECOND));
    }

    #[test]
    fn as_many_calls_as_a_quota_allows_fit_at_once() {
        let mut question = full();
        question.quotas[0].limit = 3;
        assert!(asked(None, &question, NOW).answer.admitted);
        question.quotas[0].limit = 2;
        assert!(!asked(None, &question, NOW).answer.admitted);
    }

    #[test]
    fn who_waits_as_long_as_the_longest_says_is_admitted_by_all() {
        let mut question = full();
        question.slots.clear();
        (question.capacity, question.quotas[1].limit) = (3 * TOKEN, 5);
        let (mut row, mut now) = (asked(None, &question, NOW).write, NOW);
        for _ in 0..2 {
            let wait = asked(row.clone(), &question, now).answer.wait;
            assert!(!asked(row.clone(), &question, now + wait - 1).answer.admitted);
            now += wait;
            let later = asked(row, &question, now);
            assert!(later.answer.admitted);
            (row, question.quotas[1].limit) = (later.write, 50);
        }
    }

    #[test]
    fn slots_tell_no_longer_wait_than_until_asking_again_makes_sense() {
        let row = asked(None, &full(), NOW).write.unwrap();
        let mut question = full();
        question.tools.clear();
        let wait = |question: &Question, now: u64| asked(Some(row.clone()), question, now).answer.wait;
        assert_eq!(wait(&question, NOW), 5 * SECOND);
        assert_eq!(wait(&question, NOW + 58 * SECOND), 2 * SECOND, "then the lease is over");
        question.slots[1].poll = 0;
        assert_eq!(wait(&question, NOW), 1, "a wait of nothing would be told as never");
    }

    #[test]
    fn a_question_without_a_bucket_leaves_the_bucket_alone() {
        let mut question = full();
        (question.cost, question.capacity, question.refill) = (0, 0, 0);
        let row = asked(Some(row(5 * TOKEN)), &question, NOW).write.unwrap();
        assert_eq!((row.debt, row.refill, row.bucket("render").debt), (5 * TOKEN, TOKEN / 2, 3 * TOKEN));
    }

    #[test]
    fn an_impossible_policy_is_an_error() {
        assert!(decide(None, &Question { refill: 0, ..plain(1) }, NOW).is_err());
        let mut question = full();
        question.tools[0].capacity = 0;
        assert!(decide(None, &question, NOW).is_err());
    }

    #[test]
    fn every_charge_is_entered_once_somebody_wants_receipts() {
        let with = asked(None, &Question { id: Some(7), ..plain(2) }, NOW);
        let row = asked(with.write, &plain(3), NOW).write.unwrap();
        assert_eq!(row.ledger.charged, 5 * TOKEN);
        assert!(asked(None, &plain(3), NOW).write.unwrap().ledger.is_unused());
    }
}
