//! What the shell of an object, in JavaScript, is told to do (`src/shell/object.mjs`).

use super::step::{Step, Stored};
use serde_json::json;
use worker::console_error;
use worker::js_sys::Array;
use worker::wasm_bindgen::{JsError, JsValue};

/// A step as the shell takes it: what to answer, what to write, when the alarm goes off. An error is thrown there.
pub fn told(step: Result<Step, String>) -> Result<Array, JsError> {
    let Step { answer, stored, unreadable } = step.map_err(|fault| JsError::new(&fault))?;
    if let Some(cause) = unreadable {
        console_error!("{}", json!({ "event": "unreadable_row", "cause": cause }));
    }
    let (row, alarm) = match stored {
        Stored::Kept => (JsValue::UNDEFINED, None),
        Stored::Written(row, alarm) => (JsValue::from_str(&row), alarm),
        Stored::Deleted => (JsValue::NULL, None),
    };
    let alarm = alarm.map_or(JsValue::UNDEFINED, |at| JsValue::from_f64(at.div_ceil(1_000) as f64));
    Ok(Array::of3(&JsValue::from_str(&answer), &row, &alarm))
}
