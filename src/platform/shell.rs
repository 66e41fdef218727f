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
