//! What is counted. No label can be made up by a client, so the number of series is bounded by the number of tools.

use prometheus_client::encoding::EncodeLabelSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The tool label of a name that isn't in the table.
pub const UNKNOWN_TOOL: &str = "unknown";

/// A call that ran.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, EncodeLabelSet)]
pub struct Ran {
    /// The tool.
    pub tool: String,
    /// `ok` or `error`.
    pub outcome: String,
}

/// A call that was refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, EncodeLabelSet)]
pub struct Limited {
    /// The tool.
    pub tool: String,
    /// Why.
    pub reason: String,
    /// By whose limit.
    pub allowance: String,
    /// The kind of caller.
    pub caller: String,
    /// The caller's group, one hex digit.
    pub bucket: String,
}

/// A call whose arguments didn't fit, or whose tool doesn't exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, EncodeLabelSet)]
pub struct Invalid {
    /// The tool, or [`UNKNOWN_TOOL`].
    pub tool: String,
}

/// A question that the limiter couldn't answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, EncodeLabelSet)]
pub struct Failed {
    /// The policy that decided instead.
    pub policy: String,
}

/// All counts: those of an isolate since it last sent them, or those of all time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Calls that ran.
    #[serde(with = "pairs")]
    pub ran: BTreeMap<Ran, u64>,
    /// Calls that were refused.
    #[serde(with = "pairs")]
    pub limited: BTreeMap<Limited, u64>,
    /// Calls that were invalid.
    #[serde(with = "pairs")]
    pub invalid: BTreeMap<Invalid, u64>,
    /// Questions that weren't answered.
    #[serde(with = "pairs")]
    pub failed: BTreeMap<Failed, u64>,
    /// Questions to callers' objects.
    pub questions: u64,
    /// Rows that those wrote.
    pub rows_written: u64,
    /// Calls refused without a question.
    pub remembered: u64,
    /// Calls and batches of tokens whose plan isn't in the table.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown_plans: u64,
    /// Calls that were sent on without their arguments checked, since the list of tools couldn't be had.
    #[serde(skip_serializing_if = "is_zero")]
    pub unchecked: u64,
}

/// What an older version doesn't know isn't sent to it for nothing.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Counts {
    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// One call ran.
    pub fn ran(&mut self, tool: &str, is_error: bool) {
        let outcome = if is_error { "error" } else { "ok" };
        add(&mut self.ran, Ran { tool: tool.to_owned(), outcome: outcome.to_owned() }, 1);
    }

    /// One call was invalid.
    pub fn invalid(&mut self, tool: &str) {
        add(&mut self.invalid, Invalid { tool: tool.to_owned() }, 1);
    }

    /// One call was refused.
    pub fn limited(&mut self, limited: Limited) {
        add(&mut self.limited, limited, 1);
    }

    /// One question wasn't answered.
    pub fn failed(&mut self, policy: &str) {
        add(&mut self.failed, Failed { policy: policy.to_owned() }, 1);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Self) {
        merge(&mut self.ran, other.ran);
        merge(&mut self.limited, other.limited);
        merge(&mut self.invalid, other.invalid);
        merge(&mut self.failed, other.failed);
        self.questions = self.questions.saturating_add(other.questions);
        self.rows_written = self.rows_written.saturating_add(other.rows_written);
        self.remembered = self.remembered.saturating_add(other.remembered);
        self.unknown_plans = self.unknown_plans.saturating_add(other.unknown_plans);
        self.unchecked = self.unchecked.saturating_add(other.unchecked);
    }
}

fn add<K: Ord>(series: &mut BTreeMap<K, u64>, key: K, more: u64) {
    let count = series.entry(key).or_default();
    *count = count.saturating_add(more);
}

fn merge<K: Ord>(series: &mut BTreeMap<K, u64>, more: BTreeMap<K, u64>) {
    more.into_iter().for_each(|(key, count)| add(series, key, count));
}

/// A map as a list of pairs: JSON has no keys but text.
mod pairs {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub fn serialize<K: Serialize, S: Serializer>(map: &BTreeMap<K, u64>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub fn deserialize<'de, K: Deserialize<'de> + Ord, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<K, u64>, D::Error> {
        Vec::<(K, u64)>::deserialize(deserializer).map(|pairs| pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Counts {
        let mut counts = Counts { questions: 2, rows_written: 3, remembered: 1, ..Counts::default() };
        counts.ran("echo", false);
        counts.ran("echo", true);
        counts.invalid(UNKNOWN_TOOL);
        counts.failed("open");
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
    fn what_crosses_to_the_object_is_what_it_always_was() {
        let text = r#"{"ran":[[{"tool":"echo","outcome":"error"},1],[{"tool":"echo","outcome":"ok"},1]],"limited":[[{"tool":"echo","reason":"rate","allowance":"caller","caller":"address","bucket":"a"},1]],"invalid":[[{"tool":"unknown"},1]],"failed":[[{"policy":"open"},1]],"questions":2,"rows_written":3,"remembered":1}"#;
        assert_eq!(serde_json::to_string(&some()).unwrap(), text);
        assert_eq!(serde_json::from_str::<Counts>(text).unwrap(), some());
        assert_eq!(serde_json::from_str::<Counts>(r#"{"later":1}"#).unwrap(), Counts::default());
    }

    #[test]
    fn counts_add_up_and_stop_at_the_largest_number() {
        let mut counts = some();
        counts.merge(some());
        assert_eq!((counts.questions, counts.rows_written, counts.remembered), (4, 6, 2));
        for series in [
            counts.ran.into_values().collect::<Vec<_>>(),
            counts.limited.into_values().collect(),
            counts.invalid.into_values().collect(),
            counts.failed.into_values().collect(),
        ] {
            assert!(series.iter().all(|count| *count == 2));
        }
        let mut most = Counts { questions: u64::MAX, ..Counts::default() };
        most.merge(some());
        assert_eq!(most.questions, u64::MAX);
    }

    #[test]
    fn nothing_counted_is_nothing_to_send() {
        assert!(Counts::default().is_empty());
        assert!(!some().is_empty());
        assert!(!Counts { remembered: 1, ..Counts::default() }.is_empty());
    }
}
