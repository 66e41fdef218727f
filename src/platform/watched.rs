//! A body that is written here while it is sent.

use worker::wasm_bindgen::prelude::*;
use worker::web_sys::ReadableStream;

#[wasm_bindgen]
extern "C" {
    /// The same body, broken off when a panic stops the instance that writes it (`src/shell/watched.mjs`).
    #[wasm_bindgen(catch, js_namespace = __sluice)]
    pub fn watched(body: &ReadableStream) -> Result<ReadableStream, JsValue>;
}
