//! Counting and showing. Counts gather in the isolate (`flow.rs`), flow to one object (`object.rs`) after the answer
//! has gone, and are shown as JSON and as Prometheus text (`show.rs`). A call never waits for counting, and a counter
//! that fails never fails a call.

pub mod counts;
pub mod flow;
pub mod object;
pub mod show;
