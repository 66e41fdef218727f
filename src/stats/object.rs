//! The Durable Object that adds all counts up. One row; a message is added, an empty one only asks.

// What the macro generates has no words.
#![allow(missing_docs)]

use super::counts::Counts;
use crate::platform::store;
use worker::{durable_object, DurableObject, Env, Request, Response, Result, State};

/// The binding of this object, and the name of the only one.
pub const BINDING: &str = "CALL_STATS";
/// See [`BINDING`].
pub const NAME: &str = "all";

/// The sum of everything that all isolates counted.
#[durable_object(fetch)]
pub struct CallStats {
    state: State,
}

impl std::panic::RefUnwindSafe for CallStats {}

impl DurableObject for CallStats {
    fn new(state: State, _env: Env) -> Self {
        Self { state }
    }

    /// Adds the counts in the body, and answers with the sum. As in the limiter's object, nothing is awaited between
    /// reading and writing.
    async fn fetch(&self, mut request: Request) -> Result<Response> {
        let text = request.text().await?;
        let Ok(more) = serde_json::from_str::<Counts>(&text) else {
            return Response::error("the counts can't be read", 400);
        };
        let mut sum: Counts = match store::read(&self.state)? {
            Ok(sum) => sum.unwrap_or_default(),
            Err(unreadable) => {
                // Counting goes on from nothing, as after a counter's restart.
                store::log_unreadable(&unreadable);
                Counts::default()
            }
        };
        if !more.is_empty() {
            sum.merge(more);
            store::write(&self.state, &sum)?;
        }
        Response::from_json(&sum)
    }
}
