//! Whether the client of a request has gone away.
//!
//! The signal of a request tells it (compatibility flag `enable_request_signal`, the default from 2026-11-17 on). Locally
//! workerd does so only once an answer is being streamed.

use futures_channel::oneshot;
use worker::wasm_bindgen::prelude::Closure;
use worker::wasm_bindgen::JsCast as _;
use worker::web_sys::AbortSignal;

/// What is called when the client goes, until this is dropped.
struct OnAbort {
    signal: AbortSignal,
    _called: Closure<dyn FnMut()>,
}

impl Drop for OnAbort {
    fn drop(&mut self) {
        // A call of what isn't there any more would be an error.
        self.signal.set_onabort(None);
    }
}

/// Resolves when the client whose request has this `signal` goes away before it has its answer; never otherwise.
pub async fn gone(signal: AbortSignal) {
    if signal.aborted() {
        return;
    }
    let (sender, gone) = oneshot::channel::<()>();
    let mut sender = Some(sender);
    let called = Closure::<dyn FnMut()>::new(move || {
        if let Some(sender) = sender.take() {
            // Whoever waited may have stopped.
            let _ = sender.send(());
        }
    });
    signal.set_onabort(Some(called.as_ref().unchecked_ref()));
    let _listening = OnAbort { signal, _called: called };
    let _ = gone.await;
}
