//! The Durable Object of one caller, or of one shared bucket. It reads, has `decision.rs` decide, and writes.

// What the macro generates has no words.
#![allow(missing_docs)]

use super::alarm::{after_alarm, AfterAlarm};
use super::decision::decide;
use super::operator::{obey, Order};
use super::question::Question;
use super::returns::{give_back, release, Return, Taken};
use super::row::Row;
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

    /// Answers one [`Question`], takes one [`Return`], or obeys one [`Order`].
    async fn fetch(&self, mut request: Request) -> Result<Response> {
        #[cfg(feature = "fixtures")]
        crate::platform::panics::on_demand(&request);
        // The message, whole. Nothing may be awaited between reading the row and writing it: other questions come in
        // at every await, and would be decided on the same row.
        let text = request.text().await?;
        if let Ok(question) = serde_json::from_str::<Question>(&text) {
            return self.asked(&question).await;
        }
        if let Ok(back) = serde_json::from_str::<Return>(&text) {
            return self.returned(&back);
        }
        match serde_json::from_str::<Order>(&text) {
            Ok(order) => self.ordered(&order).await,
            Err(_) => Response::error("the message can't be read", 400),
        }
    }

    /// Cleans up once all is at rest. Safe to run late, twice, and on nothing.
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
    /// Reads, decides, writes, tells.
    async fn asked(&self, question: &Question) -> Result<Response> {
        let row = self.row()?.map_err(|Unreadable(cause)| Error::RustError(cause))?;
        let Ok(mut decision) = decide(row, question, now_us()) else {
            return Response::error("the question's policy is impossible", 400);
        };
        if let Some(row) = decision.write {
            store::write(&self.state, &row)?;
            decision.answer.rows = 1;
            if decision.set_alarm {
                store::set_alarm(&self.state, row.alarm).await?;
                decision.answer.rows = 2;
            }
        }
        Response::from_json(&decision.answer)
    }

    /// Takes back. An alarm is pending already, so none is set.
    fn returned(&self, back: &Return) -> Result<Response> {
        let row = self.row()?.map_err(|Unreadable(cause)| Error::RustError(cause))?;
        let now = now_us();
        let row = row.and_then(|row| match back {
            Return::GiveBack(receipt) => give_back(row, receipt, now),
            Return::Release(id) => release(row, *id, now),
        });
        match row {
            Some(row) => store::write(&self.state, &row).and_then(|()| Response::from_json(&Taken { rows: 1 })),
            None => Response::from_json(&Taken { rows: 0 }),
        }
    }

    /// Does what the operator asks.
    async fn ordered(&self, order: &Order) -> Result<Response> {
        let now = now_us();
        let row = match self.row()? {
            Ok(row) => row,
            // What can't be read is no state, and clearing it is what helps.
            Err(unreadable) if *order == Order::Clear => {
                store::log_unreadable(&unreadable);
                store::clear(&self.state).await?;
                None
            }
            Err(Unreadable(cause)) => return Err(Error::RustError(cause)),
        };
        let (write, state) = obey(row, order, now);
        if let Some(mut row) = write {
            if row.rests_at() <= now {
                store::clear(&self.state).await?;
            } else {
                let set_alarm = row.schedule(now);
                store::write(&self.state, &row)?;
                if set_alarm {
                    store::set_alarm(&self.state, row.alarm).await?;
                }
            }
        }
        Response::from_json(&state)
    }

    /// The stored row. One that no limiter can have written counts as unreadable.
    fn row(&self) -> Result<std::result::Result<Option<Row>, Unreadable>> {
        Ok(match store::read::<Row>(&self.state)? {
            Ok(Some(row)) if !row.is_possible() => Err(Unreadable("the stored row is impossible".to_owned())),
            row => row,
        })
    }
}
