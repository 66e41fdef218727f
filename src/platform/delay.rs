//! Waiting for a time.
//!
//! The `worker` crate has a `Delay` too, which wakes whoever waits before it is over: `run.rs`, which goes on at once, would find it going on
//! and never be woken again.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use worker::wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(called: &Closure<dyn FnMut()>, ms: i32) -> i32;

    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(id: i32);
}

#[derive(Default)]
struct Clock {
    is_over: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

/// Resolves after so many milliseconds, from when it is made. It is over with this.
pub struct Delay {
    clock: Rc<Clock>,
    timer: i32,
    _called: Closure<dyn FnMut()>,
}

impl Delay {
    /// After `ms`; what is longer than a timer can run, 24 days, is as long as that.
    pub fn new(ms: u64) -> Self {
        let clock = Rc::new(Clock::default());
        let told = Rc::clone(&clock);
        let called = Closure::new(move || {
            told.is_over.set(true);
            let waiting = told.waiting.take();
            if let Some(waiting) = waiting {
                waiting.wake();
            }
        });
        let timer = set_timeout(&called, i32::try_from(ms).unwrap_or(i32::MAX));
        Self { clock, timer, _called: called }
    }
}

impl Future for Delay {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.clock.is_over.get() {
            return Poll::Ready(());
        }
        self.clock.waiting.replace(Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        if !self.clock.is_over.get() {
            clear_timeout(self.timer);
        }
    }
}
