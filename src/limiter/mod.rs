//! The limiter: one token bucket for each caller, kept in that caller's own Durable Object.
//!
//! `policy.rs` and `bucket.rs` are the arithmetic, `give_back.rs` its reverse, `row.rs` is what an object stores and when
//! it forgets it, `message.rs` is what front and object say to each other, `memory.rs` is what an isolate remembers,
//! `allowance.rs` is what is told to clients. All of these are pure. `object.rs` is the Durable Object, and `ask.rs`
//! asks it and knows what to do when it can't answer.

pub mod allowance;
pub mod ask;
pub mod bucket;
pub mod give_back;
pub mod memory;
pub mod message;
pub mod object;
pub mod policy;
pub mod row;
