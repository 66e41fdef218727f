//! What comes back to an object once it has admitted something, as JSON, and what it does with it: functions of (row, what
//! comes back, now).

use super::give_back::{Charge, Receipt, Returned, GOOD_FOR, MOST_RETURNED};
use super::quota::uncount;
use super::row::{Bucket, Row};
use serde::{Deserialize, Serialize};

/// What comes back to an object once it has admitted something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Return {
    /// This was charged, and not used.
    GiveBack(Receipt),
    /// The calls that ran on the lease of this id are over.
    Release(u64),
}

/// What the object answers to a [`Return`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Rows that it wrote.
    pub rows: u64,
}

/// Gives back what `receipt` tells, at `now` (microseconds): the row to write, or None when there is nothing to give. The lease that
/// was taken with it ends in any case.
pub fn give_back(row: Row, receipt: &Receipt, now: u64) -> Option<Row> {
    let (mut row, _) = row.rebased(now);
    row.prune(now);
    let leases = row.leases.len();
    row.leases.retain(|lease| lease.id != receipt.id);
    let ended = row.leases.len() < leases;
    let mut returned = std::mem::take(&mut row.returned);
    returned.retain(|returned| returned.charges.is_empty() || left_of(&row, &returned.charges, returned.until, now));
    let good = receipt.at <= now && now < receipt.at.saturating_add(GOOD_FOR);
    let used = returned.iter().any(|returned| returned.id == receipt.id);
    let refused = !good || used || returned.len() >= MOST_RETURNED;
    row.returned = returned;
    if refused {
        return ended.then_some(row);
    }
    let mut came_back = ended || !receipt.counted.is_empty();
    for charge in &receipt.charges {
        let bucket = row.bucket(&charge.tool);
        let owed = bucket.owed().drained(bucket.refill, now);
        let left = bucket.ledger.left(owed, charge, receipt.at);
        if left > 0 && (!receipt.last_only || bucket.ledger.charged == charge.after) {
            let debt = owed.owed.saturating_sub(left);
            row.set_bucket(&charge.tool, Bucket { debt, at: now, ..bucket });
            came_back = true;
        }
    }
    if !came_back {
        return None;
    }
    for counted in &receipt.counted {
        uncount(&mut row.quotas, &counted.tool, counted.calls, receipt.at, now);
    }
    let charges = if receipt.counted.is_empty() { receipt.charges.clone() } else { Vec::new() };
    row.returned.push(Returned { id: receipt.id, until: receipt.at.saturating_add(GOOD_FOR), charges });
    Some(row)
}

/// Whether something of `charges`, on a receipt that is good until `until`, could come back at `now`.
fn left_of(row: &Row, charges: &[Charge], until: u64, now: u64) -> bool {
    charges.iter().any(|charge| {
        let bucket = row.bucket(&charge.tool);
        let owed = bucket.owed().drained(bucket.refill, now);
        bucket.ledger.left(owed, charge, until.saturating_sub(GOOD_FOR)) > 0
    })
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
    use crate::limiter::decision::{decide, Decision};
    use crate::limiter::policy::{Policy, SECOND, TOKEN};
    use crate::limiter::question::{LeaseAsked, Question, QuotaAsked, ToolBucket};
    use crate::limiter::quota::Window;

    const NOW: u64 = 1_796_000_000 * SECOND;

    fn row(debt: u64) -> Row {
        Row { debt, refill: TOKEN / 2, alarm: NOW + 2 * SECOND, ..Row::empty(NOW) }
    }

    /// Three calls of render, with a bucket, a quota and slots of its own.
    fn full() -> Question {
        let tool = || "render".to_owned();
        Question {
            tools: vec![ToolBucket { tool: tool(), cost: 3 * TOKEN, capacity: 6 * TOKEN, refill: TOKEN }],
            quotas: vec![QuotaAsked { tool: tool(), calls: 3, limit: 10, window: Window::Day }],
            lease: Some(LeaseAsked { us: 60 * SECOND, calls: [(tool(), 3)].into() }),
            id: Some(7),
            ..Question::new(Policy::new(30 * TOKEN, TOKEN / 2).unwrap(), 3 * TOKEN)
        }
    }

    fn asked(row: Option<Row>, question: &Question, now: u64) -> Decision {
        decide(row, question, now).unwrap()
    }

    #[test]
    fn what_comes_back_is_what_it_always_was() {
        let release = r#"{"release":7}"#;
        assert_eq!(serde_json::to_string(&Return::Release(7)).unwrap(), release);
        assert_eq!(serde_json::from_str::<Return>(release).unwrap(), Return::Release(7));
        let back = Return::GiveBack(Receipt { id: 1, at: 2, ..Receipt::default() });
        assert_eq!(serde_json::to_string(&back).unwrap(), r#"{"give_back":{"id":1,"at":2}}"#);
        assert!(serde_json::from_str::<Question>(release).is_err(), "none of them is taken for a question");
        assert_eq!(serde_json::to_string(&Taken { rows: 1 }).unwrap(), r#"{"rows":1}"#);
    }

    #[test]
    fn what_was_charged_comes_back_everywhere_and_once() {
        let Decision { answer, write, .. } = asked(Some(row(TOKEN)), &full(), NOW);
        let (row, receipt) = (write.unwrap(), answer.receipt.unwrap());
        let back = give_back(row, &receipt, NOW).unwrap();
        assert_eq!((back.debt, back.bucket("render").debt, back.leases.len()), (TOKEN, 0, 0));
        assert!(back.quotas.iter().all(|usage| usage.calls == 0));
        assert_eq!(back.returned, [Returned { id: 7, until: NOW + GOOD_FOR, charges: vec![] }]);
        assert_eq!(give_back(back, &receipt, NOW), None, "twice");
    }

    #[test]
    fn a_receipt_that_is_too_old_or_of_another_row_gives_nothing() {
        let Decision { answer, write, .. } = asked(None, &full(), NOW);
        let (row, receipt) = (write.unwrap(), answer.receipt.unwrap());
        let row = Row { leases: vec![], ..row };
        assert_eq!(give_back(row.clone(), &receipt, NOW + GOOD_FOR), None);
        assert!(give_back(row.clone(), &receipt, NOW + GOOD_FOR - 1).is_some());
        assert_eq!(
            give_back(row.clone(), &Receipt { at: NOW + 1, ..receipt.clone() }, NOW),
            None,
            "of a clock that ran ahead"
        );
        let other = give_back(self::row(5 * TOKEN), &receipt, NOW).unwrap();
        assert_eq!((other.debt, other.tools.len()), (5 * TOKEN, 0), "no bucket is made by giving back");
        let nothing = Receipt { counted: vec![], ..receipt.clone() };
        assert_eq!(give_back(self::row(5 * TOKEN), &nothing, NOW), None);
        let many = (0..1_000).map(|id| Returned { id: 1_000 + id, until: NOW + 1, charges: vec![] });
        let crowded = Row { returned: many.collect(), ..row };
        assert_eq!(give_back(crowded.clone(), &receipt, NOW), None);
        assert!(give_back(crowded, &receipt, NOW + 1).is_some(), "when some are too old to be used");
    }

    #[test]
    fn a_lease_ends_with_a_receipt_that_is_no_good_any_more() {
        let Decision { answer, write, .. } = asked(None, &full(), NOW);
        let receipt = Receipt { at: NOW - GOOD_FOR, ..answer.receipt.unwrap() };
        let row = write.unwrap();
        assert_eq!(give_back(row.clone(), &receipt, NOW), Some(Row { leases: vec![], ..row }));
    }

    #[test]
    fn of_buckets_alone_a_receipt_is_remembered_only_while_something_of_it_is_left() {
        let plain = |id| Question { id: Some(id), ..Question::new(Policy::new(30 * TOKEN, TOKEN).unwrap(), TOKEN) };
        let mut row = asked(None, &plain(0), NOW).write;
        let mut last = None;
        for id in 1..1_500 {
            // A token drains in between: one comes, one goes, for longer than a receipt is good.
            let now = NOW + id * SECOND / 2;
            let Decision { answer, write, .. } = asked(row, &plain(id), now);
            let receipt = answer.receipt.unwrap();
            let back = give_back(write.unwrap(), &receipt, now).unwrap();
            assert!(back.returned.len() <= 3, "{} are remembered", back.returned.len());
            assert_eq!(give_back(back.clone(), &receipt, now), None, "twice");
            (row, last) = (Some(back), Some(receipt));
        }
        assert!(last.is_some());
    }

    #[test]
    fn a_place_in_a_queue_comes_back_only_while_it_is_the_last() {
        let plain = |id| Question { id: Some(id), ..Question::new(Policy::new(30 * TOKEN, TOKEN).unwrap(), TOKEN) };
        let first = asked(None, &plain(1), NOW);
        let receipt = Receipt { last_only: true, ..first.answer.receipt.unwrap() };
        assert_eq!(give_back(first.write.clone().unwrap(), &receipt, NOW).unwrap().debt, 0);
        let second = asked(first.write, &plain(2), NOW).write.unwrap();
        assert_eq!(give_back(second, &receipt, NOW), None, "who came behind has counted on it");
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
