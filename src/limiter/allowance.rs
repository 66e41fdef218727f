//! Several limits at once, all or nothing: a call runs only if every one of them admits it, and one that refuses leaves the
//! others as they were.
//!
//! This page finds what each limit says; `decision.rs` charges what all admit.

use super::answer::{By, Kind};
use super::bucket::{ask, Verdict};
use super::policy::{Policy, PolicyFault};
use super::question::Question;
use super::quota::{used, Quota};
use super::row::Row;
use super::slots::wait;

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

    /// How an answer names it; None for the caller's bucket.
    pub fn by(&self) -> Option<By> {
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
