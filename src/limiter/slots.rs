//! Slots: how many calls of one caller may run at the same time.
//!
//! A call that is admitted takes a lease, which is given back when the call is over. Whoever can't give it back (an isolate
//! that died, a client that went away with it) doesn't keep it: a lease runs out.

use super::policy::LARGEST;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is stored of calls that run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Random, below 2^52.
    pub id: u64,
    /// When it was taken, in microseconds since 1970.
    pub from: u64,
    /// When it runs out.
    pub until: u64,
    /// How many calls run on it, tool by tool; with an empty name those that count for the caller.
    pub calls: BTreeMap<String, u64>,
}

impl Lease {
    /// The calls of one tool, or with an empty name those that count for the caller.
    pub fn calls_of(&self, tool: &str) -> u64 {
        self.calls.get(tool).copied().unwrap_or_default()
    }

    /// The same lease as of `now`, where it was taken later than that: a clock that went back is taken as no time passed.
    pub fn rebased(self, now: u64) -> Self {
        let ahead = self.from.saturating_sub(now);
        Self { from: self.from.saturating_sub(ahead), until: self.until.saturating_sub(ahead), ..self }
    }

    /// Whether a limiter can have written this.
    pub fn is_possible(&self) -> bool {
        self.from <= self.until && self.until <= LARGEST.saturating_mul(2)
    }
}

/// How many calls of `tool` (empty: of the caller) are running at `now`.
pub fn running(leases: &[Lease], tool: &str, now: u64) -> u64 {
    let live = leases.iter().filter(|lease| lease.until > now);
    live.fold(0, |sum, lease| sum.saturating_add(lease.calls_of(tool)))
}

/// Microseconds until `calls` more fit below `limit`, if no call ends before its lease does; 0 when they fit now, None when
/// they never do.
pub fn wait(leases: &[Lease], tool: &str, limit: u64, calls: u64, now: u64) -> Option<u64> {
    let most = limit.checked_sub(calls)?;
    let mut ends: Vec<u64> = leases.iter().map(|lease| lease.until.max(now)).collect();
    ends.push(now);
    ends.sort_unstable();
    let free = ends.into_iter().find(|end| running(leases, tool, *end) <= most)?;
    Some(free.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(id: u64, until: u64, calls: &[(&str, u64)]) -> Lease {
        let calls = calls.iter().map(|(tool, calls)| ((*tool).to_owned(), *calls)).collect();
        Lease { id, from: 100, until, calls }
    }

    #[test]
    fn running_calls_are_counted_by_tool_and_together_until_their_lease_is_over() {
        let leases = [lease(1, 200, &[("", 2), ("a", 2), ("b", 1)]), lease(2, 300, &[("", 1), ("a", 1)])];
        assert_eq!((running(&leases, "", 100), running(&leases, "a", 100), running(&leases, "b", 100)), (3, 3, 1));
        assert_eq!((running(&leases, "", 199), running(&leases, "", 200), running(&leases, "", 300)), (3, 1, 0));
        assert_eq!(running(&leases, "c", 100), 0);
    }

    #[test]
    fn the_wait_ends_when_enough_leases_have() {
        let leases = [lease(1, 300, &[("", 2), ("a", 2)]), lease(2, 200, &[("", 1), ("a", 1)])];
        assert_eq!(wait(&leases, "a", 4, 1, 100), Some(0));
        assert_eq!(wait(&leases, "a", 3, 1, 100), Some(100));
        assert_eq!(wait(&leases, "a", 2, 1, 100), Some(200));
        assert_eq!(wait(&leases, "a", 1, 1, 100), Some(200));
        assert_eq!(wait(&leases, "a", 1, 2, 100), None);
        assert_eq!(wait(&leases, "b", 1, 1, 100), Some(0));
        assert_eq!(wait(&leases, "", 3, 3, 100), Some(200));
    }

    #[test]
    fn a_clock_that_went_back_makes_no_lease_longer() {
        let rebased = lease(1, 400, &[("a", 1)]).rebased(40);
        assert_eq!((rebased.from, rebased.until), (40, 340));
        assert_eq!(lease(1, 400, &[]).rebased(100), lease(1, 400, &[]));
        assert_eq!(lease(1, 400, &[]).rebased(101), lease(1, 400, &[]));
    }

    #[test]
    fn what_is_stored_is_what_it_always_was() {
        let stored = r#"{"id":7,"from":100,"until":400,"calls":{"a":1}}"#;
        assert_eq!(serde_json::to_string(&lease(7, 400, &[("a", 1)])).unwrap(), stored);
        assert_eq!(serde_json::from_str::<Lease>(stored).unwrap(), lease(7, 400, &[("a", 1)]));
        assert!(lease(1, 100, &[]).is_possible() && lease(1, LARGEST * 2, &[]).is_possible());
        assert!(!lease(1, 99, &[]).is_possible() && !lease(1, LARGEST * 2 + 1, &[]).is_possible());
    }
}
