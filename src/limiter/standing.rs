//! How a caller stands with its limits, as clients are told: in `_meta["sluice/allowance"]`, by `rate_limit_status`, and in
//! the RateLimit header fields (draft-ietf-httpapi-ratelimit-headers-10).

use super::allowance::{Demand, Limit};
use super::answer::Answer;
use super::bucket::Debt;
use super::policy::{whole_ms, whole_seconds, Policy, SECOND};
use super::quota::{Quota, Window};
use serde::{Deserialize, Serialize};

/// What is left of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Allowance {
    /// Tokens that the bucket holds, or calls that the quota allows.
    pub limit: u64,
    /// How many of them can be spent now, in whole ones.
    pub remaining: u64,
    /// Milliseconds until there is one more; 0 when all are there.
    pub next_token_ms: u64,
}

/// What is left of the caller's quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaLeft {
    /// Calls that a window allows.
    pub limit: u64,
    /// Calls that are left in this one.
    pub remaining: u64,
    /// The window.
    pub window: Window,
    /// Milliseconds until the next one begins.
    pub reset_ms: u64,
}

/// How a caller stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What is left of the limit that is nearest to its end, and that limit's name in header fields.
    pub nearest: Allowance,
    name: String,
    /// What is left of its quota, if it has one.
    pub quota: Option<QuotaLeft>,
}

impl Allowance {
    /// What `policy` leaves on `debt`, as of the moment at which the debt was counted.
    pub fn of_bucket(debt: Debt, policy: Policy) -> Self {
        Self {
            limit: policy.capacity_tokens(),
            remaining: debt.remaining(policy),
            next_token_ms: whole_ms(debt.next_token(policy)),
        }
    }

    /// What `quota` leaves at `now` (microseconds), when `used` calls of the window are.
    pub fn of_quota(quota: Quota, used: u64, now: u64) -> Self {
        let (_, end) = quota.window.bounds(now);
        let next_token_ms = if used == 0 { 0 } else { whole_ms(end.saturating_sub(now)) };
        Self { limit: quota.limit, remaining: quota.limit.saturating_sub(used), next_token_ms }
    }
}

impl Standing {
    /// How the caller stands with `limits` after `answer`. None when there is nothing that is left of anything: slots are
    /// given back when a call ends, so they aren't spent.
    pub fn new(limits: &[Limit<'_>], answer: &Answer) -> Option<Self> {
        let (mut nearest, mut quota): (Option<(Allowance, String)>, _) = (None, None);
        for limit in limits {
            let left = match limit.demand {
                Demand::Tokens(policy, _) => {
                    let owed =
                        if limit.tool.is_empty() { Some(answer.debt) } else { answer.tools.get(limit.tool).copied() };
                    owed.map(|owed| Allowance::of_bucket(Debt { owed, at: answer.at }, policy))
                }
                Demand::Calls(quota, _) => {
                    let used = answer.quotas.get(limit.tool).copied();
                    used.map(|used| Allowance::of_quota(quota, used, answer.at))
                }
                Demand::Slots { .. } => None,
            };
            let Some(left) = left else {
                continue;
            };
            if let (Demand::Calls(asked, _), "") = (limit.demand, limit.tool) {
                let (_, end) = asked.window.bounds(answer.at);
                let reset_ms = whole_ms(end.saturating_sub(answer.at));
                quota =
                    Some(QuotaLeft { limit: left.limit, remaining: left.remaining, window: asked.window, reset_ms });
            }
            let nearer = |so_far: &Allowance| {
                let key = |left: &Allowance| (left.remaining, u64::MAX.saturating_sub(left.next_token_ms));
                key(&left) < key(so_far)
            };
            if nearest.as_ref().is_none_or(|(so_far, _)| nearer(so_far)) {
                nearest = Some((left, name(limit)));
            }
        }
        nearest.map(|(nearest, name)| Self { nearest, name, quota })
    }

    /// How the caller stands with one bucket.
    pub fn of_bucket(name: &str, debt: Debt, policy: Policy) -> Self {
        Self { nearest: Allowance::of_bucket(debt, policy), name: name.to_owned(), quota: None }
    }

    /// The one of the two that is nearer to its end.
    pub fn nearer(self, other: Option<Self>) -> Self {
        match other {
            Some(other) if other.nearest.remaining < self.nearest.remaining => Self { quota: self.quota, ..other },
            _ => self,
        }
    }

    /// The value of `RateLimit`: what remains, and the seconds until there is more.
    pub fn header(&self) -> String {
        let Self { nearest: Allowance { remaining, next_token_ms, .. }, name, .. } = self;
        match next_token_ms {
            0 => format!("\"{name}\";r={remaining}"),
            ms => format!("\"{name}\";r={remaining};t={}", whole_seconds(*ms)),
        }
    }
}

/// A limit's name in header fields.
fn name(limit: &Limit<'_>) -> String {
    let name = match limit.demand {
        Demand::Tokens(..) => CALLER_BUCKET,
        Demand::Calls(quota, _) => match quota.window {
            Window::Minute => "minutely",
            Window::Hour => "hourly",
            Window::Day => "daily",
            Window::Month => "monthly",
        },
        Demand::Slots { .. } => "concurrency",
    };
    match limit.tool {
        "" => name.to_owned(),
        tool => format!("{name}:{tool}"),
    }
}

/// The name of the caller's bucket in header fields.
pub const CALLER_BUCKET: &str = "tools-call";

/// One item of `RateLimit-Policy`: what a limit allows, and the seconds in which an empty bucket fills or a window passes.
pub fn policy_item(limit: &Limit<'_>, now: u64) -> String {
    let name = name(limit);
    match limit.demand {
        Demand::Tokens(policy, _) => bucket_item(&name, policy),
        Demand::Calls(quota, _) => {
            let (start, end) = quota.window.bounds(now);
            format!("\"{name}\";q={};w={}", quota.limit, end.saturating_sub(start).div_ceil(SECOND))
        }
        Demand::Slots { limit, .. } => format!("\"{name}\";q={limit};qu=\"concurrent-requests\""),
    }
}

/// The item of a bucket of this name.
pub fn bucket_item(name: &str, policy: Policy) -> String {
    format!("\"{name}\";q={};w={}", policy.capacity_tokens(), policy.window_seconds())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::TOKEN;

    const NOW: u64 = 1_796_000_000 * SECOND;
    const DAY: Quota = Quota { limit: 9, window: Window::Day };

    fn policy(tokens: u64) -> Policy {
        Policy::new(tokens * TOKEN, TOKEN / 2).unwrap()
    }

    fn limit(tool: &'static str, demand: Demand) -> Limit<'static> {
        Limit { tool, demand }
    }

    fn limits() -> [Limit<'static>; 4] {
        [
            limit("", Demand::Tokens(policy(30), TOKEN)),
            limit("render", Demand::Tokens(policy(5), TOKEN)),
            limit("", Demand::Calls(DAY, 1)),
            limit("render", Demand::Slots { limit: 2, calls: 1, poll: 5 }),
        ]
    }

    fn answer(caller: u64, tool: u64, used: u64) -> Answer {
        Answer {
            at: NOW,
            debt: caller * TOKEN,
            tools: [("render".to_owned(), tool * TOKEN)].into(),
            quotas: [(String::new(), used)].into(),
            ..Answer::default()
        }
    }

    #[test]
    fn the_default_bucket_in_header_fields() {
        assert_eq!(policy_item(&limits()[0], NOW), r#""tools-call";q=30;w=60"#);
        let used = Standing::of_bucket(CALLER_BUCKET, Debt { owed: 18 * TOKEN, at: 0 }, policy(30));
        assert_eq!(used.header(), r#""tools-call";r=12;t=2"#);
        let full = Standing::of_bucket(CALLER_BUCKET, Debt::default(), policy(30));
        assert_eq!(full.header(), r#""tools-call";r=30"#, "a full bucket gets no more");
    }

    #[test]
    fn every_kind_of_limit_has_its_item() {
        let items = limits().map(|limit| policy_item(&limit, NOW));
        assert_eq!(items[1], r#""tools-call:render";q=5;w=10"#);
        assert_eq!(items[2], r#""daily";q=9;w=86400"#);
        assert_eq!(items[3], r#""concurrency:render";q=2;qu="concurrent-requests""#);
        let month = limit("", Demand::Calls(Quota { window: Window::Month, ..DAY }, 1));
        assert_eq!(policy_item(&month, NOW), r#""monthly";q=9;w=2592000"#, "November has 30 days");
        assert_eq!(bucket_item("anonymous", policy(2)), r#""anonymous";q=2;w=4"#);
    }

    #[test]
    fn the_meta_field_is_what_it_always_was() {
        let used = Allowance::of_bucket(Debt { owed: 18 * TOKEN, at: 0 }, policy(30));
        let json = serde_json::to_string(&used).unwrap();
        assert_eq!(json, r#"{"limit":30,"remaining":12,"nextTokenMs":2000}"#);
    }

    #[test]
    fn the_limit_that_is_nearest_to_its_end_is_told() {
        let nearest = |caller, tool, used| Standing::new(&limits(), &answer(caller, tool, used)).unwrap();
        assert_eq!(nearest(27, 1, 1).header(), r#""tools-call";r=3;t=2"#);
        assert_eq!(nearest(1, 4, 1).header(), r#""tools-call:render";r=1;t=2"#);
        let (_, midnight) = Window::Day.bounds(NOW);
        let left = (midnight - NOW) / SECOND;
        assert_eq!(nearest(1, 1, 7).header(), format!(r#""daily";r=2;t={left}"#));
        let one = nearest(1, 1, 7);
        let quota = QuotaLeft { limit: 9, remaining: 2, window: Window::Day, reset_ms: left * 1_000 };
        assert_eq!((one.nearest.limit, one.nearest.next_token_ms, one.quota), (9, left * 1_000, Some(quota)));
        assert_eq!(nearest(27, 1, 7).quota, Some(quota), "the quota is told beside it");
        assert_eq!(nearest(28, 1, 7).nearest.limit, 9, "of two with as much left, the one that takes longer");
        assert_eq!(nearest(0, 0, 0).header(), r#""tools-call:render";r=5"#);
    }

    #[test]
    fn what_the_object_didnt_tell_of_and_slots_are_left_out() {
        let mut told = answer(1, 1, 7);
        told.quotas.clear();
        told.tools.clear();
        assert_eq!(Standing::new(&limits(), &told).unwrap().header(), r#""tools-call";r=29;t=2"#);
        assert_eq!(Standing::new(&limits()[3..], &told), None);
    }

    #[test]
    fn a_shared_bucket_is_told_when_it_is_nearer() {
        let own = || Standing::new(&limits(), &answer(1, 1, 7)).unwrap();
        let shared = |owed| Some(Standing::of_bucket("shared", Debt { owed: owed * TOKEN, at: NOW }, policy(30)));
        let nearer = own().nearer(shared(29));
        assert_eq!(nearer.header(), r#""shared";r=1;t=2"#);
        assert_eq!(nearer.quota, own().quota);
        assert_eq!(own().nearer(shared(28)), own());
        assert_eq!(own().nearer(None), own());
    }
}
