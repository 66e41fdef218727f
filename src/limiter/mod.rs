//! The limiter: what each caller may use, kept in that caller's own Durable Object.
//!
//! `policy.rs` and `bucket.rs` are the arithmetic of the token bucket, `give_back.rs` its reverse, `quota.rs` counts calls in
//! windows and `slots.rs` calls that run. `allowance.rs` decides on several of them, all or nothing, from what `row.rs`
//! stores; `message.rs` is what front and object say to each other, `demand.rs` what calls ask for, `memory.rs` what an
//! isolate remembers, `standing.rs` what clients are told. All of these are pure. `object.rs` is the Durable Object, `ask.rs`
//! asks it and knows what to do when it can't answer, and `admit.rs` is the way past everything that limits a call.

pub mod admit;
pub mod allowance;
pub mod ask;
pub mod bucket;
pub mod demand;
pub mod give_back;
pub mod memory;
pub mod message;
pub mod object;
pub mod policy;
pub mod quota;
pub mod row;
pub mod slots;
pub mod standing;
