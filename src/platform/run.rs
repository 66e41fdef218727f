//! Runs the futures that JavaScript waits for.
//!
//! The executor of `wasm-bindgen` begins each future, and goes on with it, in a microtask of its own. Here it begins when it is called, and
//! goes on when what it waited for is there: what needs no waiting is answered without a promise, and all else with fewer steps across the
//! border (decisions/0013).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use worker::js_sys::{Function, Promise};
use worker::wasm_bindgen::JsValue;

type Running = Pin<Box<dyn Future<Output = JsValue>>>;

/// A future, and whom its result is told.
struct Task {
    future: Running,
    done: Option<Function>,
}

thread_local! {
    /// Those that wait. One that goes on isn't among them.
    static TASKS: RefCell<BTreeMap<u64, Task>> = RefCell::default();
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// Wakes one task.
struct Wakeup {
    id: u64,
    is_woken: AtomicBool,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Relaxed);
        let Some(Task { future, done }) = TASKS.with_borrow_mut(|tasks| tasks.remove(&self.id)) else {
            // It goes on just now, or is over.
            return;
        };
        go_on(&self, future, done);
    }
}

/// Starts a future. What it comes to, or a promise of that when it has to wait.
pub fn run(future: impl Future<Output = JsValue> + 'static) -> JsValue {
    let id = NEXT.replace(NEXT.get().wrapping_add(1));
    let wakeup = Arc::new(Wakeup { id, is_woken: AtomicBool::new(true) });
    if let Some(result) = go_on(&wakeup, Box::pin(future), None) {
        return result;
    }
    Promise::new(&mut |done, _| {
        TASKS.with_borrow_mut(|tasks| {
            if let Some(task) = tasks.get_mut(&id) {
                task.done = Some(done);
            }
        });
    })
    .into()
}

/// As far as it goes without waiting.
fn go_on(wakeup: &Arc<Wakeup>, mut future: Running, done: Option<Function>) -> Option<JsValue> {
    let waker = Waker::from(Arc::clone(wakeup));
    while wakeup.is_woken.swap(false, Ordering::Relaxed) {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            match done {
                // Nothing that resolves a promise throws.
                Some(done) => drop(done.call1(&JsValue::UNDEFINED, &result)),
                None => return Some(result),
            }
            return None;
        }
    }
    TASKS.with_borrow_mut(|tasks| tasks.insert(wakeup.id, Task { future, done }));
    None
}
