//! One row in an object's storage, read and written without waiting.
//!
//! The synchronous key-value interface of SQLite-backed objects (`ctx.storage.kv`) isn't bound by the `worker` crate.
//! It is what makes read, decide, write one step that nothing can get in between; and reading what isn't there leaves
//! nothing behind, where a table would have to be made first.

use serde::de::DeserializeOwned;
use serde::Serialize;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen::JsCast;
use worker::{console_error, js_sys, Result, ScheduledTime, State};

const KEY: &str = "row";

#[wasm_bindgen]
extern "C" {
    type SyncStorage;

    #[wasm_bindgen(method, getter, catch)]
    fn kv(this: &SyncStorage) -> std::result::Result<SyncKv, JsValue>;

    type SyncKv;

    #[wasm_bindgen(method, catch)]
    fn get(this: &SyncKv, key: &str) -> std::result::Result<JsValue, JsValue>;

    #[wasm_bindgen(method, catch)]
    fn put(this: &SyncKv, key: &str, value: &JsValue) -> std::result::Result<(), JsValue>;
}

fn kv(state: &State) -> Result<SyncKv> {
    let storage = state.storage();
    let storage: &SyncStorage = storage.as_raw().unchecked_ref();
    Ok(storage.kv()?)
}

/// A row that is there, and can't be read. Another thing than a storage that fails: trying again doesn't help.
pub struct Unreadable(pub String);

/// The row, if there is one. The outer error is the storage's.
pub fn read<T: DeserializeOwned>(state: &State) -> Result<std::result::Result<Option<T>, Unreadable>> {
    let value = kv(state)?.get(KEY)?;
    if value.is_undefined() {
        return Ok(Ok(None));
    }
    let row = match value.as_string() {
        None => Err(Unreadable("the stored row isn't text".to_owned())),
        Some(text) => match serde_json::from_str(&text) {
            Ok(row) => Ok(Some(row)),
            Err(error) => Err(Unreadable(format!("the stored row can't be read: {error}"))),
        },
    };
    Ok(row)
}

/// Logs that a row can't be read.
pub fn log_unreadable(Unreadable(cause): &Unreadable) {
    console_error!("{}", serde_json::json!({ "event": "unreadable_row", "cause": cause }));
}

/// Writes the row. The platform holds every answer back until it is durable.
pub fn write<T: Serialize>(state: &State, row: &T) -> Result<()> {
    let text = serde_json::to_string(row)?;
    Ok(kv(state)?.put(KEY, &JsValue::from_str(&text))?)
}

/// Sets the object's alarm to an instant in microseconds since 1970. (An integer by itself would be taken for a span:
/// workers-rs#707.)
pub async fn set_alarm(state: &State, at_us: u64) -> Result<()> {
    let at_ms = at_us.div_ceil(1_000);
    let date = js_sys::Date::new(&JsValue::from_f64(at_ms as f64));
    state.storage().set_alarm(ScheduledTime::new(date)).await
}

/// Deletes everything, the alarm included: the object leaves nothing behind.
pub async fn clear(state: &State) -> Result<()> {
    state.storage().delete_all().await
}
