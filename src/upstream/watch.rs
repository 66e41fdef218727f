//! Looks at an answer as it passes: which of the requests it answers, how calls ended, and what it tells of the tools.

use super::catalogues::Whose;
use super::credential::Credential;
use super::listing;
use super::passing::{is_error, Passing};
use crate::mcp::id::Id;
use crate::mcp::reply::{Response, RpcError};
use crate::mcp::revision::Revision;
use crate::mcp::tool_result::ToolResult;
use crate::stats::flow::count;
use serde_json::Value;
use std::any::Any;

/// A request that was sent on and isn't answered yet.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Its id.
    pub id: Id,
    /// What it asks for.
    pub asks: Asks,
}

/// What a request asks for, as far as it matters here.
#[derive(Clone, Debug)]
pub enum Asks {
    /// A call of a tool, counted under this name.
    Call(String, Revision),
    /// The list of tools, from this cursor on.
    List(Option<String>),
    /// Anything else.
    Other,
}

/// Looks at one answer.
pub struct Watch {
    expected: Vec<Expected>,
    credential: Credential,
    caller: String,
    /// Lives until the answer is over.
    _kept: Box<dyn Any>,
}

impl Watch {
    /// Looks for the answers to `expected`, for a caller with these credentials. What is `kept` is dropped when the answer is over.
    pub fn new(expected: Vec<Expected>, credential: Credential, caller: String, kept: impl Any) -> Self {
        Self { expected, credential, caller, _kept: Box::new(kept) }
    }

    /// A message has passed.
    pub fn saw(&mut self, message: Passing<'_>) {
        let (id, result) = match message {
            Passing::ListChanged => return listing::changed(),
            Passing::Other => return,
            Passing::Answer { id, result } => (id, result),
        };
        let Some(at) = self.expected.iter().position(|expected| is_id(&expected.id, &id)) else {
            return;
        };
        match (self.expected.swap_remove(at).asks, result) {
            (Asks::Call(tool, _), result) => {
                let failed = result.is_none_or(is_error);
                count(|counts| counts.ran(&tool, failed));
            }
            (Asks::List(cursor), Some(result)) => {
                let whose = Whose { credential: self.credential, caller: &self.caller };
                listing::passes(whose, cursor.as_deref(), result);
            }
            (Asks::List(_) | Asks::Other, _) => {}
        }
    }

    /// The answer is too long to be looked at: that it is there has to be enough.
    pub fn saw_something(&mut self) {
        for expected in std::mem::take(&mut self.expected) {
            if let Asks::Call(tool, _) = expected.asks {
                count(|counts| counts.ran(&tool, false));
            }
        }
    }

    /// Whether every request has its answer.
    pub fn is_complete(&self) -> bool {
        self.expected.is_empty()
    }

    /// There is no more: what the requests are told that have no answer.
    pub fn ended_early(&mut self, text: &str) -> Vec<Response> {
        let missing = std::mem::take(&mut self.expected);
        missing.into_iter().map(|expected| failed(expected, text)).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The client has gone, or will come back for the rest.
        for expected in &self.expected {
            if let Asks::Call(tool, _) = &expected.asks {
                count(|counts| counts.ran(tool, true));
            }
        }
    }
}

/// What a request is told that the server behind doesn't answer; a call is counted.
pub fn failed(expected: Expected, text: &str) -> Response {
    let outcome = match expected.asks {
        Asks::Call(tool, revision) => {
            count(|counts| counts.ran(&tool, true));
            Ok(ToolResult::error(text).into_value(revision))
        }
        Asks::List(_) | Asks::Other => Err(RpcError::internal(text)),
    };
    Response::new(expected.id, outcome)
}

/// Whether an answer's id is that of a request. Text may be escaped in another way.
fn is_id(asked: &Id, answered: &Value) -> bool {
    serde_json::from_str::<Value>(asked.as_json()).is_ok_and(|asked| asked == *answered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::passing::messages;
    use serde_json::value::RawValue;
    use std::cell::Cell;
    use std::rc::Rc;

    fn id(text: &str) -> Id {
        Id::new(&RawValue::from_string(text.to_owned()).unwrap()).unwrap()
    }

    fn call(text: &str) -> Expected {
        Expected { id: id(text), asks: Asks::Call("echo".to_owned(), Revision::V2025_11_25) }
    }

    fn watch(expected: Vec<Expected>) -> Watch {
        Watch::new(expected, Credential::NONE, String::new(), ())
    }

    fn see(watch: &mut Watch, text: &str) {
        messages(text.as_bytes()).into_iter().for_each(|message| watch.saw(message));
    }

    #[test]
    fn each_request_has_its_answer_by_its_id() {
        let mut watch = watch(vec![call("1"), call(r#""\u0061""#), Expected { id: id("2"), asks: Asks::Other }]);
        see(&mut watch, r#"{"id":"1","result":{}}"#);
        see(&mut watch, r#"{"id":3,"result":{}}"#);
        see(&mut watch, r#"{"method":"notifications/progress","params":{}}"#);
        assert_eq!(watch.expected.len(), 3);
        see(&mut watch, r#"[{"id":1,"result":{}},{"id":"a","error":{}}]"#);
        assert!(!watch.is_complete());
        see(&mut watch, r#"{"id":2,"result":{}}"#);
        assert!(watch.is_complete() && watch.ended_early("over").is_empty());
    }

    #[test]
    fn what_has_no_answer_is_told_so_each_in_its_form() {
        let mut watch = watch(vec![call("1"), Expected { id: id("2"), asks: Asks::List(None) }]);
        let told = watch.ended_early("It is over.");
        let first: serde_json::Value = serde_json::from_str(told[0].outcome.as_ref().unwrap().get()).unwrap();
        assert_eq!(
            (first["isError"].as_bool(), first["content"][0]["text"].as_str()),
            (Some(true), Some("It is over."))
        );
        let second = told[1].outcome.as_ref().unwrap_err();
        assert_eq!((second.code, second.message.as_str(), &told[1].id), (-32603, "It is over.", &Some(id("2"))));
        assert!(watch.is_complete());
    }

    #[test]
    fn what_is_kept_lives_as_long() {
        struct Kept(Rc<Cell<bool>>);
        impl Drop for Kept {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let over = Rc::new(Cell::new(false));
        let mut watch = Watch::new(vec![call("1")], Credential::NONE, String::new(), Kept(Rc::clone(&over)));
        watch.saw_something();
        assert!(watch.is_complete() && !over.get());
        drop(watch);
        assert!(over.get());
    }
}
