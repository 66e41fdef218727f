//! One row in an object's storage, read and written without waiting.
//!
//! The synchronous key-value interface of SQLite-backed objects (`ctx.storage.kv`) isn't bound by the `worker` crate.
//! It is what makes read, decide, write one step that nothing can get in between; and reading what isn't there leaves
//! nothing behind, where a table would have to be made first.

use serde::de::DeserializeOwned;
use serde::Serialize;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen::JsCast;
use worker::{js_sys, Error, Result, ScheduledTime, State};

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

/// The row, if there is one. An error when it can't be read as a `T`.
pub fn read<T: DeserializeOwned>(state: &State) -> Result<Option<T>> {
    let value = kv(state)?.get(KEY)?;
    if value.is_undefined() {
        return Ok(None);
    }
    let text = value.as_string().ok_or_else(|| Error::RustError("the stored row isn't text".to_owned()))?;
    Ok(Some(serde_json::from_str(&text)?))
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
