//! What the calls of one POST want of their caller's limits: the question, made from the configuration.

use super::policy::SECOND;
use super::question::{LeaseAsked, Question, QuotaAsked, SlotsAsked, ToolBucket};
use super::quota::Quota;
use crate::config::limits::Limits;
use crate::config::tools::ToolSettings;
use std::collections::BTreeMap;

/// The calls of one tool.
#[derive(Clone, Copy, Debug)]
struct Calls<'a> {
    settings: &'a ToolSettings,
    count: u64,
}

/// The question that these calls make: each with its tool's name and settings. A call that costs nothing counts for what is
/// set for its tool alone, and not for what is set for the caller.
pub fn question<'a>(
    limits: &Limits,
    calls: impl Iterator<Item = (&'a str, &'a ToolSettings)>,
    lease_us: u64,
) -> Question {
    let mut tools: BTreeMap<&str, Calls<'_>> = BTreeMap::new();
    for (tool, settings) in calls {
        let entry = tools.entry(tool).or_insert(Calls { settings, count: 0 });
        entry.count = entry.count.saturating_add(1);
    }
    let mut question = Question::unlimited();
    let counted = tools.values().filter(|calls| calls.settings.cost > 0).fold(0, sum);
    if let Some(bucket) = limits.bucket {
        question.cost = tools.values().fold(0, |sum: u64, calls| sum.saturating_add(calls.micro_cost()));
        (question.capacity, question.refill) = (bucket.capacity(), bucket.refill());
    }
    question.quotas.extend(limits.quota.map(|quota| quota_asked("", quota, counted)));
    if let Some(limit) = limits.max_in_flight {
        let polls = tools.values().map(|calls| calls.settings.poll_seconds);
        let poll = polls.max().unwrap_or_default().saturating_mul(SECOND);
        question.slots.push(SlotsAsked { tool: String::new(), calls: counted, limit, poll });
    }
    for (tool, calls) in &tools {
        add_tool(&mut question, tool, *calls);
    }
    if question.slots.iter().any(|slots| slots.calls > 0) {
        let takes = |calls: &Calls<'_>| calls.settings.cost > 0 || calls.settings.max_in_flight.is_some();
        let own = (counted > 0).then(|| (String::new(), counted));
        let calls =
            tools.iter().filter(|(_, calls)| takes(calls)).map(|(tool, calls)| ((*tool).to_owned(), calls.count));
        question.lease = Some(LeaseAsked { us: lease_us, calls: own.into_iter().chain(calls).collect() });
    }
    question
}

fn add_tool(question: &mut Question, tool: &str, calls: Calls<'_>) {
    let Calls { settings, count } = calls;
    if let Some(bucket) = settings.bucket {
        let (cost, capacity, refill) = (calls.micro_cost(), bucket.capacity(), bucket.refill());
        question.tools.push(ToolBucket { tool: tool.to_owned(), cost, capacity, refill });
    }
    question.quotas.extend(settings.quota.map(|quota| quota_asked(tool, quota, count)));
    if let Some(limit) = settings.max_in_flight {
        let poll = settings.poll_seconds.saturating_mul(SECOND);
        question.slots.push(SlotsAsked { tool: tool.to_owned(), calls: count, limit, poll });
    }
}

fn quota_asked(tool: &str, Quota { limit, window }: Quota, calls: u64) -> QuotaAsked {
    QuotaAsked { tool: tool.to_owned(), calls, limit, window }
}

fn sum(so_far: u64, calls: &Calls<'_>) -> u64 {
    so_far.saturating_add(calls.count)
}

impl Calls<'_> {
    fn micro_cost(&self) -> u64 {
        self.settings.micro_cost().saturating_mul(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Fail;
    use crate::limiter::policy::{Policy, TOKEN};
    use crate::limiter::quota::Window;

    const DAY: Quota = Quota { limit: 9, window: Window::Day };

    fn policy(tokens: u64) -> Policy {
        Policy::new(tokens * TOKEN, TOKEN).unwrap()
    }

    fn tool(cost: u64) -> ToolSettings {
        ToolSettings::new(cost, Fail::Open)
    }

    #[test]
    fn a_call_under_a_bucket_alone_asks_as_it_always_did() {
        let limits = Limits { bucket: Some(policy(30)), ..Limits::default() };
        let echo = tool(2);
        let asked = question(&limits, [("echo", &echo), ("echo", &echo)].into_iter(), 1);
        assert_eq!(asked, Question::new(policy(30), 4 * TOKEN));
    }

    #[test]
    fn everything_that_is_set_is_asked_for() {
        let limits = Limits { bucket: Some(policy(30)), quota: Some(DAY), max_in_flight: Some(4) };
        let settings = ToolSettings {
            bucket: Some(policy(5)),
            quota: Some(Quota { limit: 3, window: Window::Hour }),
            max_in_flight: Some(2),
            poll_seconds: 7,
            ..tool(3)
        };
        let (echo, free) = (tool(1), tool(0));
        let calls = [("render", &settings), ("echo", &echo), ("render", &settings), ("free", &free)];
        let asked = question(&limits, calls.into_iter(), 60);
        assert_eq!((asked.cost, asked.capacity, asked.refill), (7 * TOKEN, 30 * TOKEN, TOKEN));
        let bucket = ToolBucket { tool: "render".into(), cost: 6 * TOKEN, capacity: 5 * TOKEN, refill: TOKEN };
        assert_eq!(asked.tools, [bucket]);
        let own = QuotaAsked { tool: String::new(), calls: 3, limit: 9, window: Window::Day };
        let render = QuotaAsked { tool: "render".into(), calls: 2, limit: 3, window: Window::Hour };
        assert_eq!(asked.quotas, [own, render], "what is free isn't counted");
        let own = SlotsAsked { tool: String::new(), calls: 3, limit: 4, poll: 7 * SECOND };
        let render = SlotsAsked { tool: "render".into(), calls: 2, limit: 2, poll: 7 * SECOND };
        assert_eq!(asked.slots, [own, render]);
        let lease =
            LeaseAsked { us: 60, calls: [(String::new(), 3), ("echo".to_owned(), 1), ("render".to_owned(), 2)].into() };
        assert_eq!(asked.lease, Some(lease));
    }

    #[test]
    fn a_free_call_counts_for_what_is_set_for_its_tool_alone() {
        let limits = Limits { bucket: Some(policy(30)), quota: Some(DAY), max_in_flight: Some(4) };
        let free = tool(0);
        let asked = question(&limits, [("free", &free)].into_iter(), 60);
        assert!(asked.is_free() && asked.lease.is_none());
        let settings = ToolSettings { quota: Some(DAY), max_in_flight: Some(2), ..tool(0) };
        let asked = question(&limits, [("free", &settings)].into_iter(), 60);
        assert!(!asked.is_free());
        assert_eq!(asked.quotas.iter().map(|quota| quota.calls).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(asked.slots.iter().map(|slots| slots.calls).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(asked.lease.unwrap().calls, [("free".to_owned(), 1)].into());
    }

    #[test]
    fn without_limits_nothing_is_asked_for() {
        let echo = tool(3);
        assert_eq!(question(&Limits::default(), [("echo", &echo)].into_iter(), 1), Question::unlimited());
    }
}
