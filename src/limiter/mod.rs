//! The limiter: what each caller may use, kept in that caller's own Durable Object.
//!
//! `policy.rs` and `bucket.rs` are the arithmetic of the token bucket, `give_back.rs` its reverse, `quota.rs` counts
//! calls in windows, `slots.rs` calls that run, `session.rs` those of one session with a server behind; `spacing.rs`
//! keeps calls apart, `shards.rs` splits what too many share, and `window.rs` keeps a crowd from asking one object more
//! than it can answer. `allowance.rs` finds what each of several limits says, and `decision.rs` charges what all admit,
//! on what `row.rs` stores; `returns.rs` takes back, `operator.rs` is what the operator may decide for one caller,
//! `alarm.rs` cleans up, and `object.rs` is all that the Durable Object does. `question.rs` and `answer.rs` are what
//! front and object say to each other, `demand.rs` is what calls ask for, `memory.rs` what an isolate remembers,
//! `standing.rs` what clients are told. All of these are pure. `ask.rs` asks the object and knows what to do when it
//! can't answer, and `admit.rs` is the way past everything that limits a call.

pub mod admit;
pub mod alarm;
pub mod allowance;
pub mod answer;
pub mod ask;
pub mod bucket;
pub mod decision;
pub mod demand;
pub mod give_back;
pub mod memory;
pub mod object;
pub mod operator;
pub mod policy;
pub mod question;
pub mod quota;
pub mod returns;
pub mod row;
pub mod session;
pub mod shards;
pub mod slots;
pub mod spacing;
pub mod standing;
pub mod window;
