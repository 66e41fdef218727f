//! What the shell of an object, in JavaScript, is told to do (`src/shell/object.mjs`).

use super::step::{Step, Stored};
use serde_json::json;
use worker::console_error;
use worker::wasm_bindgen::JsError;

/// A step as the shell takes it, as text of up to three lines: what to answer; the row to write, which is empty when everything is to be
/// deleted; in milliseconds since 1970 when the alarm is to go off. JSON has no line's end in it. An error is thrown there.
pub fn told(step: Result<Step, String>) -> Result<String, JsError> {
    let Step { answer, stored, unreadable } = step.map_err(|fault| JsError::new(&fault))?;
    if let Some(cause) = unreadable {
        console_error!("{}", json!({ "event": "unreadable_row", "cause": cause }));
    }
    Ok(match stored {
        Stored::Kept => answer,
        Stored::Written(row, None) => format!("{answer}\n{row}"),
        Stored::Written(row, Some(alarm)) => format!("{answer}\n{row}\n{}", alarm.div_ceil(1_000)),
        Stored::Deleted => format!("{answer}\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(stored: Stored) -> String {
        told(Ok(Step { answer: "{}".to_owned(), stored, unreadable: None })).ok().unwrap()
    }

    // As src/shell/object.mjs reads them.
    #[test]
    fn a_step_is_its_answer_and_then_the_row_and_the_alarm_where_there_are_any() {
        assert_eq!(lines(Stored::Kept), "{}");
        assert_eq!(lines(Stored::Deleted), "{}\n");
        assert_eq!(lines(Stored::Written("[1]".to_owned(), None)), "{}\n[1]");
        assert_eq!(
            lines(Stored::Written("[1]".to_owned(), Some(1_500_001))),
            "{}\n[1]\n1501",
            "no sooner than it is due"
        );
    }
}
