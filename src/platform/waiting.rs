//! Waiting for what JavaScript waits for: a promise, or the answer of an object.
//!
//! The shell does the waiting (`src/shell/imports.mjs`), and tells under a number what came of it. The futures of `wasm-bindgen` make two
//! closures for each promise instead, whose making and dropping cost more than all else of it (decisions/0013).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use worker::js_sys::Promise;
use worker::wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = __sluice)]
    fn wait(promise: &Promise, ms: Option<u32>) -> u32;
}

/// What came of something.
#[derive(Debug)]
pub enum Outcome {
    /// It is there.
    Value(JsValue),
    /// It failed.
    Error(JsValue),
    /// Its time is over.
    Late,
}

enum State {
    Waiting(Option<Waker>),
    Over(Outcome),
}

thread_local! {
    static WAITING: RefCell<BTreeMap<u32, State>> = RefCell::default();
}

/// Resolves to what the shell tells under a number.
#[derive(Debug)]
pub struct Waiting(u32);

impl Waiting {
    /// For what the shell has just begun to wait for under this number.
    pub fn under(id: u32) -> Self {
        WAITING.with_borrow_mut(|waiting| waiting.insert(id, State::Waiting(None)));
        Self(id)
    }
}

impl Future for Waiting {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        WAITING.with_borrow_mut(|waiting| match waiting.remove(&self.0) {
            Some(State::Over(outcome)) => Poll::Ready(outcome),
            _ => {
                waiting.insert(self.0, State::Waiting(Some(context.waker().clone())));
                Poll::Pending
            }
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.with_borrow_mut(|waiting| waiting.remove(&self.0));
    }
}

/// What a promise comes to, or the error that it is rejected with.
pub async fn settled(promise: &Promise) -> Result<JsValue, JsValue> {
    match Waiting::under(wait(promise, None)).await {
        Outcome::Value(value) => Ok(value),
        Outcome::Error(error) => Err(error),
        // It has all the time that there is.
        Outcome::Late => Err(JsValue::UNDEFINED),
    }
}

/// What a promise comes to within so many milliseconds.
pub async fn settled_within(promise: &Promise, ms: u32) -> Outcome {
    Waiting::under(wait(promise, Some(ms))).await
}

/// Told by the shell: a value (0), an error (1), or that the time is over (2). A number that nobody waits under is of no interest.
pub fn settle(id: u32, how: u32, value: JsValue) {
    let outcome = match how {
        0 => Outcome::Value(value),
        1 => Outcome::Error(value),
        _ => Outcome::Late,
    };
    let waker = WAITING.with_borrow_mut(|waiting| {
        let state = waiting.get_mut(&id)?;
        match std::mem::replace(state, State::Over(outcome)) {
            State::Waiting(waker) => waker,
            State::Over(_) => None,
        }
    });
    if let Some(waker) = waker {
        waker.wake();
    }
}
