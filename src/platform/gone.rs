//! Whether the client of a request has gone away.
//!
//! The signal of a request tells it (compatibility flag `enable_request_signal`, the default from 2026-11-17 on). Locally
//! workerd does so only once an answer is being streamed.

use futures_channel::oneshot;
use worker::js_sys::Array;
use worker::wasm_bindgen::prelude::*;
use worker::web_sys::AbortSignal;

/// The event of a signal.
const ABORT: &str = "abort";

#[wasm_bindgen]
extern "C" {
    /// <https://dom.spec.whatwg.org/#dom-abortsignal-any>
    #[wasm_bindgen(js_namespace = AbortSignal)]
    fn any(signals: &Array) -> AbortSignal;
}

/// What is called when the client goes, until this is dropped.
struct OnAbort {
    signal: AbortSignal,
    called: Closure<dyn FnMut()>,
}

impl Drop for OnAbort {
    fn drop(&mut self) {
        // A call of what isn't there any more would be an error.
        let called = self.called.as_ref().unchecked_ref();
        let _ = self.signal.remove_event_listener_with_callback(ABORT, called);
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
    // A signal can be listened to by many.
    if signal.add_event_listener_with_callback(ABORT, called.as_ref().unchecked_ref()).is_err() {
        return std::future::pending().await;
    }
    let _listening = OnAbort { signal, called };
    let _ = gone.await;
}

/// A signal that says so when one of two does.
pub fn either(one: &AbortSignal, other: &AbortSignal) -> AbortSignal {
    any(&Array::of2(one, other))
}
