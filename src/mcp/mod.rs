//! The Model Context Protocol, as a stateless server that has tools and nothing else needs it.
//!
//! In scope: JSON-RPC messages (`message.rs`, strict JSON in `json.rs`, ids in `id.rs`, names that only look alike in `lookalike.rs`), the five revisions and which
//! of them a request is served by (`revision.rs`), the headers that mirror a body (`headers.rs`), what is asked
//! (`method.rs`, arguments against a schema in `schema.rs`, how much work that is in `schema_work.rs`), events that carry
//! messages (`sse.rs`), and what is answered (`reply.rs`, `server.rs`, `tool_result.rs`). Out of scope: HTTP itself (the
//! door), the tools, and whether a call may run. Pure.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28>, and its four predecessors.

pub mod headers;
pub mod id;
pub mod json;
pub mod lookalike;
pub mod message;
pub mod method;
pub mod reply;
pub mod revision;
pub mod schema;
pub mod schema_work;
pub mod server;
pub mod sse;
pub mod tool_result;
