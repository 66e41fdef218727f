//! What comes back to an object once it has admitted something, as JSON, and what it does with it: functions of (row, what
//! comes back, now).

use super::give_back::{Receipt, Returned, GOOD_FOR, MOST_RETURNED};
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
