//! Several limits at once, all or nothing: a call runs only if every one of them admits it, and one that refuses leaves the
//! others as they were.
//!
//! The object's whole behaviour on a question is one function of (row, question, now); `object.rs` only reads and writes.

use super::bucket::{ask, Verdict};
use super::give_back::{Charge, Counted, Receipt, Returned, GOOD_FOR, MOST_RETURNED};
use super::message::{Answer, By, Kind, Question};
use super::policy::{Policy, PolicyFault, LARGEST};
use super::quota::{count, uncount, used, Quota};
use super::row::{Bucket, Row};
use super::slots::{running, wait, Lease};

/// One limit, with what is wanted of it. An empty tool name is the caller itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit<'q> {
    /// Whose limit.
    pub tool: &'q str,
    /// Which, and how much of it.
    pub demand: Demand,
}

/// What is wanted of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// So many micro-tokens.
    Tokens(Policy, u64),
    /// So many calls in the window.
    Calls(Quota, u64),
    /// So many calls at the same time.
    Slots {
        /// The most at the same time.
        limit: u64,
        /// How many.
        calls: u64,
        /// After how long asking again makes sense, in microseconds.
        poll: u64,
    },
}

/// What one limit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It admits.
    Fits,
    /// Not before so many microseconds.
    Waits(u64),
    /// Never: more is wanted than it ever allows.
    NeverFits,
}

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

/// The limits in a question, the caller's own first.
pub fn limits(question: &Question) -> Result<Vec<Limit<'_>>, PolicyFault> {
    let own = question.policy()?.map(|policy| Limit { tool: "", demand: Demand::Tokens(policy, question.cost) });
    let quotas = question
        .quotas
        .iter()
        .map(|asked| Limit { tool: &asked.tool, demand: Demand::Calls(asked.quota(), asked.calls) });
    let slots = question.slots.iter().map(|asked| Limit {
        tool: &asked.tool,
        demand: Demand::Slots { limit: asked.limit, calls: asked.calls, poll: asked.poll },
    });
    let mut limits: Vec<Limit<'_>> = own.into_iter().collect();
    for bucket in &question.tools {
        let policy = Policy::new(bucket.capacity, bucket.refill)?;
        limits.push(Limit { tool: &bucket.tool, demand: Demand::Tokens(policy, bucket.cost) });
    }
    limits.extend(quotas.chain(slots));
    Ok(limits)
}

impl Demand {
    /// What kind of limit it is that this is wanted of.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Tokens(..) => Kind::Bucket,
            Self::Calls(..) => Kind::Quota,
            Self::Slots { .. } => Kind::Slots,
        }
    }
}

impl Limit<'_> {
    /// What this limit says at `now` (microseconds).
    pub fn finding(&self, row: &Row, now: u64) -> Finding {
        match self.demand {
            Demand::Tokens(policy, cost) => match ask(row.bucket(self.tool).owed(), policy, cost, now) {
                Verdict::Admitted(_) => Finding::Fits,
                Verdict::Refused { wait, .. } => Finding::Waits(wait),
                Verdict::NeverFits => Finding::NeverFits,
            },
            Demand::Calls(_, 0) | Demand::Slots { calls: 0, .. } => Finding::Fits,
            Demand::Calls(quota, calls) if calls > quota.limit => Finding::NeverFits,
            Demand::Calls(quota, calls) => {
                let after = used(&row.quotas, self.tool, quota.window, now).saturating_add(calls);
                let (_, end) = quota.window.bounds(now);
                if after <= quota.limit {
                    Finding::Fits
                } else {
                    Finding::Waits(end.saturating_sub(now))
                }
            }
            Demand::Slots { limit, calls, poll } => match wait(&row.leases, self.tool, limit, calls, now) {
                Some(0) => Finding::Fits,
                Some(longest) => Finding::Waits(longest.min(poll).max(1)),
                None => Finding::NeverFits,
            },
        }
    }

    fn by(&self) -> Option<By> {
        let kind = self.demand.kind();
        if kind == Kind::Bucket && self.tool.is_empty() {
            return None;
        }
        Some(By { kind, tool: self.tool.to_owned() })
    }
}

/// The limit that refuses, and its wait: the first one that never admits, with a wait of 0, else the one with the longest
/// wait. None when all admit.
pub fn refusing<'l, 'q>(limits: &'l [Limit<'q>], row: &Row, now: u64) -> Option<(&'l Limit<'q>, u64)> {
    let mut longest: Option<(&Limit<'_>, u64)> = None;
    for limit in limits {
        match limit.finding(row, now) {
            Finding::Fits => {}
            Finding::NeverFits => return Some((limit, 0)),
            Finding::Waits(wait) if longest.is_none_or(|(_, so_far)| wait > so_far) => longest = Some((limit, wait)),
            Finding::Waits(_) => {}
        }
    }
    longest
}

/// Decides one question at `now` (microseconds). An error is a question that makes no sense.
pub fn decide(row: Option<Row>, question: &Question, now: u64) -> Result<Decision, PolicyFault> {
    let limits = limits(question)?;
    let (mut row, went_back) = row.unwrap_or_else(|| Row::empty(now)).rebased(now);
    let refusing = refusing(&limits, &row, now).map(|(limit, wait)| (limit.by(), wait));
    let (mut receipt, charges) = (None, refusing.is_none() && !question.is_free());
    if charges {
        receipt = take(&mut row, question, &limits, now);
    }
    let answer = answer(&row, &limits, refusing, receipt, now);
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

/// Gives back what `receipt` tells, at `now` (microseconds): the row to write, or None when there is nothing to give.
pub fn give_back(row: Row, receipt: &Receipt, now: u64) -> Option<Row> {
    let (mut row, _) = row.rebased(now);
    row.prune(now);
    let good = receipt.at <= now && now < receipt.at.saturating_add(GOOD_FOR);
    let used = row.returned.iter().any(|returned| returned.id == receipt.id);
    if !good || used || row.returned.len() >= MOST_RETURNED {
        return None;
    }
    for charge in &receipt.charges {
        let bucket = row.bucket(&charge.tool);
        let owed = bucket.owed().drained(bucket.refill, now);
        let left = bucket.ledger.left(owed, charge, receipt.at);
        if left > 0 {
            let debt = owed.owed.saturating_sub(left);
            row.set_bucket(&charge.tool, Bucket { debt, at: now, ..bucket });
        }
    }
    for counted in &receipt.counted {
        uncount(&mut row.quotas, &counted.tool, counted.calls, receipt.at, now);
    }
    row.leases.retain(|lease| lease.id != receipt.id);
    row.returned.push(Returned { id: receipt.id, until: receipt.at.saturating_add(GOOD_FOR) });
    Some(row)
}

/// Ends a lease: the row to write, or None when there is none of this id.
pub fn release(row: Row, id: u64, now: u64) -> Option<Row> {
    let (mut row, _) = row.rebased(now);
    let before = row.leases.len();
    row.leases.retain(|lease| lease.id != id);
    (row.leases.len() < before).then(|| {
        row.prune(now);
        row
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::message::{LeaseAsked, QuotaAsked, SlotsAsked, ToolBucket};
    use crate::limiter::policy::{SECOND, TOKEN};
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
            lease: Some(LeaseAsked { us: 60 * SECOND, calls: [(tool(), 3)].into() }),
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
        let lease = Lease { id: 7, from: NOW, until: NOW + 60 * SECOND, calls: [("render".to_owned(), 3)].into() };
        assert_eq!(row.leases, [lease]);
        assert_eq!(row.alarm, Window::Day.bounds(NOW).1, "as long as the day's count is kept");
        assert_eq!((answer.debt, &answer.tools), (3 * TOKEN, &[("render".to_owned(), 3 * TOKEN)].into()));
        let both = |count: u64| [(String::new(), count), ("render".to_owned(), count)].into();
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
    fn what_was_charged_comes_back_everywhere_and_once() {
        let Decision { answer, write, .. } = asked(Some(row(TOKEN)), &full(), NOW);
        let (row, receipt) = (write.unwrap(), answer.receipt.unwrap());
        let back = give_back(row, &receipt, NOW).unwrap();
        assert_eq!((back.debt, back.bucket("render").debt, back.leases.len()), (TOKEN, 0, 0));
        assert!(back.quotas.iter().all(|usage| usage.calls == 0));
        assert_eq!(back.returned, [Returned { id: 7, until: NOW + GOOD_FOR }]);
        assert_eq!(give_back(back, &receipt, NOW), None, "twice");
    }

    #[test]
    fn a_receipt_that_is_too_old_or_of_another_row_gives_nothing() {
        let Decision { answer, write, .. } = asked(None, &full(), NOW);
        let (row, receipt) = (write.unwrap(), answer.receipt.unwrap());
        assert_eq!(give_back(row.clone(), &receipt, NOW + GOOD_FOR), None);
        assert!(give_back(row.clone(), &receipt, NOW + GOOD_FOR - 1).is_some());
        assert_eq!(
            give_back(row.clone(), &Receipt { at: NOW + 1, ..receipt.clone() }, NOW),
            None,
            "of a clock that ran ahead"
        );
        let other = give_back(self::row(5 * TOKEN), &receipt, NOW).unwrap();
        assert_eq!(other.debt, 5 * TOKEN);
        assert!(other.tools.is_empty(), "no bucket is made by giving back");
        let many = (0..1_000).map(|id| Returned { id: 1_000 + id, until: NOW + 1 });
        let crowded = Row { returned: many.collect(), ..row };
        assert_eq!(give_back(crowded.clone(), &receipt, NOW), None);
        assert!(give_back(crowded, &receipt, NOW + 1).is_some(), "when some are too old to be used");
    }

    #[test]
    fn every_charge_is_entered_once_somebody_wants_receipts() {
        let with = asked(None, &Question { id: Some(7), ..plain(2) }, NOW);
        let row = asked(with.write, &plain(3), NOW).write.unwrap();
        assert_eq!(row.ledger.charged, 5 * TOKEN);
        assert!(asked(None, &plain(3), NOW).write.unwrap().ledger.is_unused());
    }

    #[test]
    fn a_lease_that_is_released_is_gone_and_one_that_isnt_there_changes_nothing() {
        let row = asked(None, &full(), NOW).write.unwrap();
        assert_eq!(release(row.clone(), 8, NOW), None);
        let released = release(row.clone(), 7, NOW).unwrap();
        assert_eq!(released, Row { leases: vec![], ..row.clone() });
        assert_eq!(release(released, 7, NOW), None);
        let back = NOW - SECOND;
        assert_eq!(release(row, 7, back).unwrap().at, back);
    }
}
