//! One question to a Durable Object: one attempt, with a deadline, over a stub made for it alone.
//!
//! The runtime never runs a question twice, and neither does this. After a deadline it may have been heard all the
//! same.

use super::cut;
use super::waiting::{Outcome, Waiting};
use serde::de::DeserializeOwned;
use serde::Serialize;
use worker::js_sys::Reflect;
use worker::wasm_bindgen::prelude::*;
use worker::{Env, Error};

#[wasm_bindgen]
extern "C" {
    /// Asks, and waits for so many milliseconds (`src/shell/imports.mjs`); on the other side is `src/shell/object.mjs`.
    #[wasm_bindgen(catch, js_namespace = __sluice, js_name = ask)]
    fn ask_object(env: &Env, binding: &str, name: &str, message: &str, ms: u32) -> Result<u32, JsValue>;
}

/// Causes are followed this far.
const DEEPEST_CAUSE: usize = 8;

/// Why there is no answer. The texts are for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Not within this many milliseconds.
    Deadline(u32),
    /// The platform says that this object has more to do than it can.
    Overloaded(String),
    /// It wasn't asked, since it answers nobody in time just now.
    Unasked,
    /// Anything else, nonsense included.
    Broken(String),
}

impl Failure {
    /// Whether it is what a flood does to the object that it asks.
    pub fn is_of_a_flood(&self) -> bool {
        matches!(self, Self::Overloaded(_) | Self::Deadline(_) | Self::Unasked)
    }

    /// What happened, in a line.
    pub fn cause(&self) -> String {
        match self {
            Self::Deadline(ms) => format!("no answer within {ms} ms"),
            Self::Overloaded(cause) => format!("overloaded: {cause}"),
            Self::Unasked => "not asked, since it answers nobody in time".to_owned(),
            Self::Broken(cause) => cause.clone(),
        }
    }
}

/// Asks the object `name` of `binding`.
pub async fn ask<Q: Serialize, A: DeserializeOwned>(
    env: &Env,
    binding: &str,
    name: &str,
    question: &Q,
    deadline_ms: u32,
) -> Result<A, Failure> {
    let question = serde_json::to_string(question).map_err(|error| Failure::Broken(error.to_string()))?;
    let id = ask_object(env, binding, name, &question, deadline_ms).map_err(|error| failure(&error.into()))?;
    let answer = match Waiting::under(id).await {
        Outcome::Value(answer) => answer.as_string(),
        Outcome::Error(error) => return Err(failure(&error.into())),
        Outcome::Late => return Err(Failure::Deadline(deadline_ms)),
    };
    let Some(answer) = answer else {
        return Err(Failure::Broken("the object's answer isn't text".to_owned()));
    };
    serde_json::from_str(&answer)
        .map_err(|error| Failure::Broken(format!("the object's answer can't be read: {error}")))
}

fn failure(error: &Error) -> Failure {
    let cause = cut(&message(error));
    if is_overloaded(error, DEEPEST_CAUSE) {
        Failure::Overloaded(cause)
    } else {
        Failure::Broken(cause)
    }
}

fn message(error: &Error) -> String {
    match error {
        Error::UnknownJsError { message, .. } => message.clone(),
        Error::Internal(thrown) => format!("something that isn't an error was thrown: {thrown:?}"),
        other => other.to_string(),
    }
}

/// Whether the platform marked an error, or one of its causes, as *overloaded*
/// (<https://developers.cloudflare.com/durable-objects/best-practices/error-handling/>).
fn is_overloaded(error: &Error, depth: usize) -> bool {
    let marked =
        |value: &JsValue| Reflect::get(value, &JsValue::from_str("overloaded")).is_ok_and(|mark| mark.is_truthy());
    match error {
        Error::UnknownJsError { original, message, cause, .. } => {
            marked(original)
                || message.contains("is overloaded")
                || cause.as_ref().is_some_and(|cause| depth > 0 && is_overloaded(cause, depth.saturating_sub(1)))
        }
        Error::Internal(thrown) => marked(thrown),
        Error::JsError(message) => message.contains("is overloaded"),
        _ => false,
    }
}
