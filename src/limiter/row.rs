//! What an object stores of its caller: all of it in one row of JSON, and no row when there is nothing to tell.
//!
//! The row remembers when its alarm is due, so that an object which has just been woken knows whether one is pending
//! without asking for it.

use super::bucket::Debt;
use super::give_back::{Ledger, Returned};
use super::operator::Override;
use super::policy::{LARGEST, SECOND};
use super::quota::Usage;
use super::slots::Lease;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How late an alarm can be before it is taken for lost, in microseconds. The platform says "up to about a minute".
/// (<https://developers.cloudflare.com/durable-objects/api/alarms/>)
const ALARM_LATENESS: u64 = 60 * SECOND;

/// A bucket that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Micro-tokens owed at `at`.
    pub debt: u64,
    /// Microseconds since 1970.
    pub at: u64,
    /// Micro-tokens a second at which it drains: the alarm has no question that would tell.
    pub refill: u64,
    /// For giving back.
    #[serde(default, skip_serializing_if = "Ledger::is_unused")]
    pub ledger: Ledger,
}

/// The stored row. Fields that a later version adds need a default: rows outlive deploys. The caller's own bucket stands in
/// it as it did when there was nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// As in [`Bucket`].
    pub debt: u64,
    /// As in [`Bucket`].
    pub at: u64,
    /// As in [`Bucket`].
    pub refill: u64,
    /// When the alarm that was last set is due, in microseconds since 1970; 0 when none was.
    #[serde(default)]
    pub alarm: u64,
    /// As in [`Bucket`].
    #[serde(default, skip_serializing_if = "Ledger::is_unused")]
    pub ledger: Ledger,
    /// Buckets of single tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, Bucket>,
    /// What counts against quotas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<Usage>,
    /// Calls that run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<Lease>,
    /// Receipts that were used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returned: Vec<Returned>,
    /// What the operator decided for this caller.
    #[serde(default, rename = "override", skip_serializing_if = "Option::is_none")]
    pub held: Option<Override>,
}

impl Bucket {
    /// Owes nothing, and drains at once.
    const EMPTY: Self = Self { debt: 0, at: 0, refill: 1, ledger: Ledger { since: 0, charged: 0 } };

    /// What is owed.
    pub fn owed(&self) -> Debt {
        Debt { owed: self.debt, at: self.at }
    }

    fn is_possible(&self) -> bool {
        self.debt <= LARGEST && self.at <= LARGEST && (1..=LARGEST).contains(&self.refill)
    }

    fn rests_at(&self) -> u64 {
        self.owed().rests_at(self.refill)
    }
}

impl Row {
    /// A row that tells nothing, as if there were none.
    pub fn empty(now: u64) -> Self {
        let Bucket { debt, refill, ledger, .. } = Bucket::EMPTY;
        let (tools, quotas, leases, returned) = Default::default();
        Self { debt, at: now, refill, alarm: 0, ledger, tools, quotas, leases, returned, held: None }
    }

    /// Whether this can have been written by a limiter. What can't must not be decided on, nor kept for ever.
    pub fn is_possible(&self) -> bool {
        self.bucket("").is_possible()
            && self.tools.values().all(Bucket::is_possible)
            && self.quotas.iter().all(|usage| usage.start <= LARGEST)
            && self.leases.iter().all(Lease::is_possible)
            && self.held.is_none_or(|held| held.is_possible())
    }

    /// A tool's bucket, or with an empty name the caller's.
    pub fn bucket(&self, tool: &str) -> Bucket {
        match tool {
            "" => Bucket { debt: self.debt, at: self.at, refill: self.refill, ledger: self.ledger },
            tool => self.tools.get(tool).copied().unwrap_or(Bucket::EMPTY),
        }
    }

    /// Puts a bucket in the place of the one there.
    pub fn set_bucket(&mut self, tool: &str, bucket: Bucket) {
        if tool.is_empty() {
            let Bucket { debt, at, refill, ledger } = bucket;
            (self.debt, self.at, self.refill, self.ledger) = (debt, at, refill, ledger);
        } else {
            self.tools.insert(tool.to_owned(), bucket);
        }
    }

    /// The row as of a clock that may have gone back, which is taken as no time passed; and whether it has.
    pub fn rebased(self, now: u64) -> (Self, bool) {
        let buckets = std::iter::once(self.at).chain(self.tools.values().map(|bucket| bucket.at));
        let quotas = self.quotas.iter().map(|usage| usage.start);
        let leases = self.leases.iter().map(|lease| lease.from);
        if buckets.chain(quotas).chain(leases).all(|instant| instant <= now) {
            return (self, false);
        }
        let tools = self.tools.into_iter().map(|(tool, bucket)| (tool, Bucket { at: bucket.at.min(now), ..bucket }));
        let row = Self {
            at: self.at.min(now),
            tools: tools.collect(),
            quotas: self.quotas.into_iter().map(|usage| usage.rebased(now)).collect(),
            leases: self.leases.into_iter().map(|lease| lease.rebased(now)).collect(),
            ..self
        };
        (row, true)
    }

    /// Drops what is over at `now`.
    pub fn prune(&mut self, now: u64) {
        self.tools.retain(|_, bucket| bucket.rests_at() > now);
        self.quotas.retain(|usage| !usage.is_over(now));
        self.leases.retain(|lease| lease.until > now);
        self.returned.retain(|returned| returned.until > now);
        self.held = self.held.filter(|held| held.until > now);
    }

    /// The microsecond at which all is at rest, if nothing is added.
    pub fn rests_at(&self) -> u64 {
        let buckets = self.tools.values().map(Bucket::rests_at);
        let quotas = self.quotas.iter().map(Usage::ends_at);
        let leases = self.leases.iter().map(|lease| lease.until);
        let held = self.held.iter().map(|held| held.until);
        buckets.chain(quotas).chain(leases).chain(held).fold(self.bucket("").rests_at(), u64::max)
    }

    /// Sees to it that an alarm is pending, and tells whether it has to be set. One that is due later than all is at rest
    /// was set by a clock that ran ahead, or before something was given back.
    pub fn schedule(&mut self, now: u64) -> bool {
        let rests_at = self.rests_at();
        let pending = self.alarm.saturating_add(ALARM_LATENESS) > now && self.alarm <= rests_at;
        if !pending {
            self.alarm = rests_at;
        }
        !pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::TOKEN;
    use crate::limiter::quota::Window;

    const NOW: u64 = 1_796_000_000 * SECOND;
    const STORED: &str = r#"{"debt":1000000,"at":1796000000000000,"refill":500000,"alarm":1796000002000000}"#;

    fn row(debt: u64) -> Row {
        Row { debt, refill: TOKEN / 2, alarm: NOW + 2 * SECOND, ..Row::empty(NOW) }
    }

    fn bucket(tokens: u64) -> Bucket {
        Bucket { debt: tokens * TOKEN, at: NOW, refill: TOKEN, ledger: Ledger::default() }
    }

    fn usage(window: Window) -> Usage {
        Usage { tool: String::new(), window, start: window.bounds(NOW).0, calls: 1 }
    }

    fn lease(until: u64) -> Lease {
        Lease { id: 1, from: NOW, until, calls: BTreeMap::new() }
    }

    #[test]
    fn the_stored_row_is_what_it_always_was() {
        assert_eq!(serde_json::to_string(&row(TOKEN)).unwrap(), STORED);
        assert_eq!(serde_json::from_str::<Row>(STORED).unwrap(), row(TOKEN));
        let newer = r#"{"debt":1,"at":2,"refill":3,"alarm":4,"later":{"used":5}}"#;
        let expected = Row { debt: 1, at: 2, refill: 3, alarm: 4, ..Row::empty(0) };
        assert_eq!(serde_json::from_str::<Row>(newer).unwrap(), expected);
        let older = r#"{"debt":1,"at":2,"refill":3}"#;
        assert_eq!(serde_json::from_str::<Row>(older).unwrap(), Row { alarm: 0, ..expected });
    }

    #[test]
    fn a_full_row_is_what_it_always_was() {
        let full = Row {
            ledger: Ledger { since: 1, charged: 2 },
            tools: [("render".to_owned(), Bucket { debt: 3, at: 4, refill: 5, ledger: Ledger::default() })].into(),
            quotas: vec![Usage { tool: String::new(), window: Window::Day, start: 6, calls: 7 }],
            leases: vec![Lease { id: 8, from: 9, until: 10, calls: [("render".to_owned(), 1)].into() }],
            returned: vec![Returned { id: 11, until: 12, charges: vec![] }],
            ..row(TOKEN)
        };
        let text = concat!(
            r#"{"debt":1000000,"at":1796000000000000,"refill":500000,"alarm":1796000002000000,"#,
            r#""ledger":{"since":1,"charged":2},"tools":{"render":{"debt":3,"at":4,"refill":5}},"#,
            r#""quotas":[{"window":"day","start":6,"calls":7}],"#,
            r#""leases":[{"id":8,"from":9,"until":10,"calls":{"render":1}}],"returned":[{"id":11,"until":12}]}"#
        );
        assert_eq!(serde_json::to_string(&full).unwrap(), text);
        assert_eq!(serde_json::from_str::<Row>(text).unwrap(), full);
        assert!(full.is_possible());
    }

    #[test]
    fn a_row_that_no_limiter_wrote_is_known_as_such() {
        assert!(row(TOKEN).is_possible());
        let extreme = Row { debt: LARGEST, refill: LARGEST, ..Row::empty(LARGEST) };
        assert!(extreme.is_possible() && Row::empty(0).is_possible());
        let possible = || Row { quotas: vec![usage(Window::Day)], leases: vec![lease(NOW)], ..extreme.clone() };
        assert!(possible().is_possible());
        for impossible in [
            Row { debt: LARGEST + 1, ..possible() },
            Row { at: LARGEST + 1, ..possible() },
            Row { refill: LARGEST + 1, ..possible() },
            Row { refill: 0, ..possible() },
            Row { tools: [("a".to_owned(), Bucket { refill: 0, ..bucket(1) })].into(), ..possible() },
            Row { quotas: vec![Usage { start: LARGEST + 1, ..usage(Window::Day) }], ..possible() },
            Row { leases: vec![lease(NOW - 1)], ..possible() },
        ] {
            assert!(!impossible.is_possible(), "{impossible:?}");
        }
        let latest = Row { quotas: vec![Usage { start: LARGEST, ..usage(Window::Day) }], ..possible() };
        assert!(latest.is_possible());
    }

    #[test]
    fn a_bucket_is_the_callers_or_a_tools() {
        let mut row = row(TOKEN);
        row.set_bucket("a", bucket(3));
        assert_eq!((row.bucket("a"), row.bucket("b").debt), (bucket(3), 0));
        row.set_bucket("", bucket(7));
        assert_eq!((row.bucket("").debt, row.bucket(""), row.debt), (7 * TOKEN, bucket(7), 7 * TOKEN));
    }

    #[test]
    fn all_is_at_rest_when_the_last_of_it_is() {
        assert_eq!(row(TOKEN).rests_at(), NOW + 2 * SECOND);
        let with = |tools, quotas, leases| Row { tools, quotas, leases, ..row(TOKEN) }.rests_at();
        assert_eq!(with([("a".to_owned(), bucket(9))].into(), vec![], vec![]), NOW + 9 * SECOND);
        let day = vec![usage(Window::Day)];
        assert_eq!(with(BTreeMap::new(), day.clone(), vec![]), Window::Day.bounds(NOW).1);
        assert_eq!(with(BTreeMap::new(), vec![], vec![lease(NOW + 5)]), NOW + 2 * SECOND);
        assert_eq!(with(BTreeMap::new(), vec![], vec![lease(NOW + 9 * SECOND)]), NOW + 9 * SECOND);
    }

    #[test]
    fn what_is_over_is_dropped_at_its_very_end() {
        let mut row = Row {
            tools: [("a".to_owned(), bucket(9))].into(),
            quotas: vec![usage(Window::Minute)],
            leases: vec![lease(NOW + 9 * SECOND)],
            returned: vec![Returned { id: 1, until: NOW + 9 * SECOND, charges: vec![] }],
            ..row(TOKEN)
        };
        let before = row.clone();
        row.prune(NOW + 9 * SECOND - 1);
        assert_eq!(row, before);
        row.prune(NOW + 9 * SECOND);
        assert_eq!(row, Row { quotas: before.quotas.clone(), ..self::row(TOKEN) });
        row.prune(Window::Minute.bounds(NOW).1);
        assert_eq!(row, self::row(TOKEN), "the caller's bucket stands in the row itself");
    }

    #[test]
    fn a_clock_that_went_back_is_seen_in_every_part_of_the_row() {
        let back = NOW - 40 * 86_400 * SECOND;
        assert_eq!(row(TOKEN).rebased(NOW), (row(TOKEN), false));
        assert_eq!(row(TOKEN).rebased(back), (Row { at: back, ..row(TOKEN) }, true));
        let past = || Row { at: 0, ..row(TOKEN) };
        for ahead in [
            Row { tools: [("a".to_owned(), bucket(9))].into(), ..past() },
            Row { quotas: vec![usage(Window::Day)], ..past() },
            Row { leases: vec![lease(NOW + SECOND)], ..past() },
        ] {
            let (rebased, went_back) = ahead.rebased(back);
            assert!(went_back);
            assert!(rebased.rests_at() <= back + 86_400 * SECOND, "{rebased:?}");
            assert_eq!(rebased.at, 0);
            assert!(!rebased.rebased(back).1);
        }
    }

    #[test]
    fn an_alarm_is_set_when_none_is_pending_or_when_it_would_come_too_late() {
        let scheduled = |alarm: u64, now: u64| {
            let mut row = Row { alarm, ..row(TOKEN) };
            (row.schedule(now), row.alarm)
        };
        let rests_at = NOW + 2 * SECOND;
        assert_eq!(scheduled(0, NOW), (true, rests_at));
        assert_eq!(scheduled(rests_at, NOW), (false, rests_at));
        assert_eq!(scheduled(NOW + 1, NOW), (false, NOW + 1));
        assert_eq!(scheduled(rests_at + 1, NOW), (true, rests_at));
        assert_eq!(scheduled(NOW, NOW + 60 * SECOND - 1), (false, NOW), "it can be late");
        assert_eq!(scheduled(NOW, NOW + 60 * SECOND), (true, rests_at), "and is lost then");
    }
}
