//! Whether the client of a request has gone away.
//!
//! The signal of a request tells it (compatibility flag `enable_request_signal`, the default from 2026-11-17 on). Locally
//! workerd does so only once an answer is being streamed.

use futures_channel::oneshot;
use worker::wasm_bindgen::prelude::Closure;
use worker::wasm_bindgen::JsCast as _;

/// Resolves when the client of `request` goes away before it has its answer; never otherwise.
pub async fn gone(request: worker::web_sys::AbortSignal) {
    let (sender, gone) = oneshot::channel::<()>();
    let mut sender = Some(sender);
    let on_abort = Closure::<dyn FnMut()>::new(move || {
        if let Some(sender) = sender.take() {
            // Whoever waited may have stopped.
            let _ = sender.send(());
        }
    });
    if request.aborted() {
        return;
    }
    request.set_onabort(Some(on_abort.as_ref().unchecked_ref()));
    let _ = gone.await;
    request.set_onabort(None);
}
