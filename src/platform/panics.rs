//! What a panic leaves behind.
//!
//! It stops the whole instance: every request in flight in it, and every timer of Rust's. The `worker` crate installs
//! a hook that marks the instance as broken, so that the next event gets a new one; `src/shell/instance.mjs` is
//! told of it, and `src/entry.mjs` answers what was in flight. So the hook that prints the panic is chained with that one and never takes
//! its place.

use std::panic;
use worker::wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// Tells those in flight (`src/shell/instance.mjs`).
    #[wasm_bindgen(catch, js_namespace = __sluice)]
    fn broken() -> Result<(), JsValue>;
}

/// Prints panics with their stack, leaves the mark to the hook that was there, and has those in flight told.
pub fn report() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        console_error_panic_hook::hook(info);
        previous(info);
        // The shell is always there.
        let _ = broken();
    }));
}

/// Panics when it is asked to, by the message `panic`: a fixture.
#[cfg(feature = "fixtures")]
#[allow(clippy::panic)]
pub fn on_demand(message: &str) {
    if message == "panic" {
        panic!("on demand, in the object");
    }
}
