//! `echo`: the smallest tool, for trying the limiter out.

use super::{schema_of, Call, Running, Standing, Tool};
use crate::mcp::tool_result::ToolResult;
use schemars::JsonSchema;
use serde::Deserialize;

pub const TOOL: Tool = Tool {
    name: "echo",
    title: "Echo",
    description: "Returns the given text.",
    cost: 1,
    needs_allowance: false,
    needs_capability: None,
    read_only: true,
    input: schema_of::<Arguments>,
    output: None,
    run,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The text to return.
    #[schemars(length(min = 1, max = 4000))]
    text: String,
}

fn run(call: Call) -> Running {
    call.answer(|arguments: Arguments, _: Standing| ToolResult::text(arguments.text))
}
