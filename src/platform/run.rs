//! Runs the futures that JavaScript waits for.
//!
//! The executor of `wasm-bindgen` begins each future, and goes on with it, in a microtask of its own. Here it begins when it is called, and
//! goes on when what it waited for is there: what needs no waiting is answered without a promise, and all else with fewer steps across the
//! border (decisions/0013).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use worker::wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// Tells whoever waits in JavaScript (`src/shell/instance.mjs`).
    #[wasm_bindgen(js_namespace = __sluice)]
    fn finished(id: u32, result: &JsValue);
}

type Running = Pin<Box<dyn Future<Output = JsValue>>>;

thread_local! {
    /// Those that wait. One that goes on isn't among them.
    static TASKS: RefCell<BTreeMap<u32, Running>> = RefCell::default();
}

/// Wakes one task.
struct Wakeup {
    id: u32,
    is_woken: AtomicBool,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Relaxed);
        // Where there is none it goes on just now, or is over.
        let future = TASKS.with_borrow_mut(|tasks| tasks.remove(&self.id));
        if let Some(result) = future.and_then(|future| go_on(&self, future)) {
            finished(self.id, &result);
        }
    }
}

/// Starts a future: what it comes to, or None when it has to wait. Then that is told under this number, which nothing had before.
pub fn run(id: u32, future: impl Future<Output = JsValue> + 'static) -> Option<JsValue> {
    go_on(&Arc::new(Wakeup { id, is_woken: AtomicBool::new(true) }), Box::pin(future))
}

/// As far as it goes without waiting.
fn go_on(wakeup: &Arc<Wakeup>, mut future: Running) -> Option<JsValue> {
    let waker = Waker::from(Arc::clone(wakeup));
    while wakeup.is_woken.swap(false, Ordering::Relaxed) {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(result);
        }
    }
    TASKS.with_borrow_mut(|tasks| tasks.insert(wakeup.id, future));
    None
}
