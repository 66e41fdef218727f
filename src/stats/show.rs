//! Counts, as JSON and as Prometheus text.

use super::counts::{Counts, Failed};
use prometheus_client::encoding::{prometheus_text, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;

/// The media type of [`metrics`] (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
pub const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `/stats`: the calls that ran.
pub fn stats(counts: &Counts) -> Value {
    let mut tools: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut total: u64 = 0;
    for (ran, count) in &counts.ran {
        let (calls, errors) = tools.entry(&ran.tool).or_default();
        *calls = calls.saturating_add(*count);
        if ran.outcome == "error" {
            *errors = errors.saturating_add(*count);
        }
        total = total.saturating_add(*count);
    }
    let tools: Map<String, Value> = tools
        .into_iter()
        .map(|(tool, (calls, errors))| (tool.to_owned(), json!({ "calls": calls, "errors": errors })))
        .collect();
    json!({ "total": total, "tools": tools })
}

/// `/metrics`: everything counted.
pub fn metrics(counts: &Counts) -> String {
    let mut registry = Registry::default();
    // A counter that appears with its first sample hides that sample from `increase()`.
    let mut failed: BTreeMap<Failed, u64> =
        ["open", "insured", "closed"].map(|policy| (Failed { policy: policy.to_owned() }, 0)).into();
    failed.extend(counts.failed.clone());
    series(&mut registry, "mcp_tool_calls", "Tool calls that ran", &counts.ran);
    series(&mut registry, "mcp_rate_limited", "Tool calls that were refused", &counts.limited);
    series(&mut registry, "mcp_invalid_calls", "Tool calls that were invalid, and free", &counts.invalid);
    series(&mut registry, "mcp_limiter_failures", "Questions that a caller's object could not answer", &failed);
    single(&mut registry, "mcp_limiter_questions", "Questions to callers' objects", counts.questions);
    single(
        &mut registry,
        "mcp_limiter_rows_written",
        "Rows that callers' objects wrote to answer, alarms included",
        counts.rows_written,
    );
    single(
        &mut registry,
        "mcp_remembered_refusals",
        "Refused calls and batches that no object was asked for",
        counts.remembered,
    );
    single(
        &mut registry,
        "mcp_unknown_plans",
        "Calls and batches of tokens that name a plan which isn't in the table",
        counts.unknown_plans,
    );
    single(
        &mut registry,
        "mcp_unchecked_calls",
        "Calls sent on with their arguments unchecked, since the list of tools could not be had",
        counts.unchecked,
    );
    let mut text = String::new();
    // Writing to a String can't fail.
    let _ = prometheus_text::encode(&mut text, &registry);
    text
}

fn series<L>(registry: &mut Registry, name: &str, help: &str, counts: &BTreeMap<L, u64>)
where
    L: Clone + Debug + Eq + Hash + Send + Sync + EncodeLabelSet + 'static,
{
    let family = Family::<L, Counter>::default();
    for (labels, count) in counts {
        family.get_or_create(labels).inc_by(*count);
    }
    registry.register(name, help, family);
}

fn single(registry: &mut Registry, name: &str, help: &str, count: u64) {
    let counter: Counter = Counter::default();
    counter.inc_by(count);
    registry.register(name, help, counter);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::counts::Limited;

    fn some() -> Counts {
        let mut counts = Counts { questions: 31, rows_written: 32, remembered: 4, ..Counts::default() };
        for _ in 0..28 {
            counts.ran("echo", false);
        }
        counts.ran("echo", true);
        counts.ran("read_decision", false);
        counts.invalid("unknown");
        counts.failed("insured");
        counts.limited(Limited {
            tool: "echo".into(),
            reason: "rate".into(),
            allowance: "caller".into(),
            caller: "address".into(),
            bucket: "a".into(),
        });
        counts
    }

    #[test]
    fn stats_add_up_what_ran() {
        let expected = json!({"total": 30, "tools": {"echo": {"calls": 29, "errors": 1}, "read_decision": {"calls": 1, "errors": 0}}});
        assert_eq!(stats(&some()), expected);
        assert_eq!(stats(&Counts::default()), json!({"total": 0, "tools": {}}));
    }

    #[test]
    fn metrics_have_the_names_and_labels_of_the_design() {
        let text = metrics(&some());
        for line in [
            r#"mcp_tool_calls_total{tool="echo",outcome="ok"} 28"#,
            r#"mcp_tool_calls_total{tool="echo",outcome="error"} 1"#,
            r#"mcp_rate_limited_total{tool="echo",reason="rate",allowance="caller",caller="address",bucket="a"} 1"#,
            r#"mcp_invalid_calls_total{tool="unknown"} 1"#,
            r#"mcp_limiter_failures_total{policy="insured"} 1"#,
            "mcp_limiter_questions_total 31",
            "mcp_limiter_rows_written_total 32",
            "mcp_remembered_refusals_total 4",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} not in\n{text}");
        }
        assert!(text.contains(r#"mcp_limiter_failures_total{policy="open"} 0"#), "{text}");
        assert!(text.contains("# TYPE mcp_tool_calls_total counter"), "{text}");
        assert!(metrics(&Counts::default()).contains("mcp_limiter_questions_total 0"), "a counter starts at 0");
    }
}
