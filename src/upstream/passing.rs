//! Messages of the server behind, looked at as they pass.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::Value;
use std::borrow::Cow;

/// What a message says, as far as it matters here.
#[derive(Debug, PartialEq)]
pub enum Passing<'a> {
    /// The list of tools has changed (specification, server/tools, List Changed Notification).
    ListChanged,
    /// An answer.
    Answer {
        /// To the request of this id.
        id: Value,
        /// The result, as JSON text; None when it is an error.
        result: Option<&'a str>,
    },
    /// Anything else.
    Other,
}

#[derive(Deserialize)]
struct Glance<'a> {
    #[serde(default)]
    id: Option<Value>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The messages in a text: one, or a batch. What can't be read is passed over, since it isn't for us.
pub fn messages(text: &[u8]) -> Vec<Passing<'_>> {
    let Ok(text) = std::str::from_utf8(text) else {
        return Vec::new();
    };
    let is_batch = text.trim_start().starts_with('[');
    let glances = if is_batch { serde_json::from_str(text) } else { serde_json::from_str(text).map(|one| vec![one]) };
    glances.unwrap_or_default().into_iter().map(Glance::passing).collect()
}

impl<'a> Glance<'a> {
    fn passing(self) -> Passing<'a> {
        match (self.method.as_deref(), self.id, self.result, self.error) {
            (Some("notifications/tools/list_changed"), ..) => Passing::ListChanged,
            (None, Some(id), result @ Some(_), _) | (None, Some(id), result, Some(_)) => {
                Passing::Answer { id, result: result.map(RawValue::get) }
            }
            _ => Passing::Other,
        }
    }
}

/// Whether a tool's result tells of a failure.
pub fn is_error(result: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Outcome {
        #[serde(default)]
        is_error: bool,
    }
    serde_json::from_str::<Outcome>(result).is_ok_and(|outcome| outcome.is_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_and_the_news_of_a_changed_list_are_seen() {
        let answer = |id, result| Passing::Answer { id, result };
        assert_eq!(messages(br#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#), [answer(json!(1), Some(r#"{"a":1}"#))]);
        assert_eq!(messages(br#"{"id":"\u0061","error":{"code":1}}"#), [answer(json!("a"), None)]);
        assert_eq!(messages(br#"{"method":"notifications\/tools\/list_changed"}"#), [Passing::ListChanged]);
        assert_eq!(
            messages(br#" [{"id":1,"result":7},{"method":"notifications/message","params":{}},{"id":2,"method":"x"}]"#),
            [answer(json!(1), Some("7")), Passing::Other, Passing::Other]
        );
    }

    #[test]
    fn what_cant_be_read_is_passed_over() {
        for text in [&b"{"[..], b"", b"7", b"\xff", b"{\"id\":", b"[1]", b"<html>"] {
            assert_eq!(messages(text), [], "{text:?}");
        }
    }

    #[test]
    fn a_result_that_tells_of_a_failure_is_known() {
        assert!(is_error(r#"{"content":[],"isError":true}"#));
        for result in [r#"{"content":[],"isError":false}"#, r#"{"content":[]}"#, "7", r#"{"isError":"yes"}"#] {
            assert!(!is_error(result), "{result}");
        }
    }
}
