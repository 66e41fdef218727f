//! The Durable Object of one caller. It reads, has `row.rs` decide, and writes.

// What the macro generates has no words.
#![allow(missing_docs)]

use super::message::{Answer, Question};
use super::row::{after_alarm, decide, AfterAlarm, Row};
use crate::platform::now_us;
use crate::platform::store::{self, Unreadable};
use worker::{durable_object, DurableObject, Env, Error, Request, Response, Result, State};

/// The binding of these objects.
pub const BINDING: &str = "RATE_LIMITER";

/// One caller's bucket. Nothing is kept in memory, so there is nothing that an eviction or a panic could lose.
#[durable_object(alarm)]
pub struct RateLimiter {
    state: State,
}

impl std::panic::RefUnwindSafe for RateLimiter {}

impl DurableObject for RateLimiter {
    fn new(state: State, _env: Env) -> Self {
        Self { state }
    }

    /// Answers one [`Question`].
    async fn fetch(&self, mut request: Request) -> Result<Response> {
        #[cfg(feature = "fixtures")]
        crate::platform::panics::on_demand(&request);
        // 1. The message, whole. Nothing may be awaited between reading the row and writing it: other questions come in
        //    at every await, and would be decided on the same row.
        let text = request.text().await?;
        let Ok(question) = serde_json::from_str::<Question>(&text) else {
            return Response::error("the question can't be read", 400);
        };
        let Ok(policy) = question.policy() else {
            return Response::error("the question's policy is impossible", 400);
        };
        // 2. Read, decide, write.
        let now = now_us();
        let row = self.row()?.map_err(|Unreadable(cause)| Error::RustError(cause))?;
        let decision = decide(row, policy, &question, now);
        let mut rows: u64 = 0;
        if let Some(row) = decision.write {
            store::write(&self.state, &row)?;
            rows = rows.saturating_add(1);
            if decision.set_alarm {
                store::set_alarm(&self.state, row.alarm).await?;
                rows = rows.saturating_add(1);
            }
        }
        // 3. Tell.
        Response::from_json(&Answer::new(decision.verdict, decision.debt, rows))
    }

    /// Cleans up once nothing is owed. Safe to run late, twice, and on nothing.
    async fn alarm(&self) -> Result<Response> {
        match self.row()?.map(|row| after_alarm(row, now_us())) {
            Ok(AfterAlarm::Nothing) => {}
            Ok(AfterAlarm::Again(row)) => {
                store::write(&self.state, &row)?;
                store::set_alarm(&self.state, row.alarm).await?;
            }
            Ok(AfterAlarm::Delete) => store::clear(&self.state).await?,
            Err(unreadable) => {
                // It would fail every question for ever.
                store::log_unreadable(&unreadable);
                store::clear(&self.state).await?;
            }
        }
        Response::empty()
    }
}

impl RateLimiter {
    /// The stored row. One that no limiter can have written counts as unreadable.
    fn row(&self) -> Result<std::result::Result<Option<Row>, Unreadable>> {
        Ok(match store::read::<Row>(&self.state)? {
            Ok(Some(row)) if !row.is_possible() => Err(Unreadable("the stored row is impossible".to_owned())),
            row => row,
        })
    }
}
