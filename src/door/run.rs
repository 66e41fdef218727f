//! The server's own tools at work: the calls of one POST, all at once.

use super::entry::{Entry, ReadyCall};
use super::meter::Admitted;
use super::refuse::with_allowance;
use crate::mcp::reply::Response;
use crate::platform::delay::Delay;
use crate::platform::now_us;
use crate::stats::flow::count;
use crate::tools::{Call, Standing};
use futures_util::future::join_all;
use std::collections::BTreeMap;

/// 6. tools: run them, each in its turn where its tool is spaced out.
pub async fn run(entries: Vec<Entry>, admitted: &Admitted) -> Vec<Response> {
    let mut turns: BTreeMap<&str, _> =
        admitted.turns.iter().map(|(tool, turns)| (tool.as_str(), turns.iter())).collect();
    let calls = entries.into_iter().map(|entry| {
        let turn = entry.ready().and_then(|call| turns.get_mut(call.tool.name)?.next().copied());
        run_one(entry, &admitted.standing, turn.unwrap_or_default())
    });
    let calls: Vec<_> = calls.collect();
    join_all(calls).await
}

async fn run_one(entry: Entry, standing: &Standing, turn: u64) -> Response {
    let ReadyCall { id, revision, tool, arguments, .. } = match entry {
        Entry::Answered(response) => return response,
        Entry::Call(call) => call,
    };
    hold_until(turn).await;
    let result = (tool.run)(Call { arguments, standing: standing.clone() }).await;
    count(|counts| counts.ran(tool.name, result.is_error));
    let result = match standing {
        Standing::Known(standing) => with_allowance(result, standing.nearest),
        Standing::Unlimited | Standing::Unknown => result,
    };
    Response::new(id, Ok(result.into_value(revision)))
}

/// Holds a call back until its turn, in microseconds since 1970; tells for how long, in microseconds.
pub async fn hold_until(turn: u64) -> u64 {
    let held_us = turn.saturating_sub(now_us());
    if held_us > 0 {
        Delay::new(held_us.div_ceil(1_000)).await;
    }
    held_us
}
