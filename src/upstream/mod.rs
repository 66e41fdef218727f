//! The server behind, where Sluice is a gateway: what is sent to it, what comes back, and how it is doing.
//!
//! `patience.rs` is also what a tool of one's own calls an API with (`docs/tool-design.md`).
//!
//! Pure: `headers.rs` (which go on and come back), `credential.rs` (whose they are), `cors.rs` (what browser pages may do),
//! `retry_after.rs` and `backoff.rs` (when to try again), `health.rs` (who was asked for a pause), `passing.rs` (what passes by),
//! `catalogue.rs`, `pages.rs`, `kept.rs` and `catalogues.rs` (its tools). Beyond that: `client.rs` sends, `patience.rs` tries again,
//! `listing.rs` asks for the tools, `shared_cache.rs` keeps what anybody may have of them, `relay.rs` has an answer pass while
//! `watch.rs` looks at it.

pub mod backoff;
pub mod catalogue;
pub mod catalogues;
pub mod client;
pub mod cors;
pub mod credential;
pub mod headers;
pub mod health;
pub mod kept;
pub mod listing;
pub mod pages;
pub mod passing;
pub mod patience;
pub mod relay;
pub mod retry_after;
pub mod shared_cache;
pub mod watch;
