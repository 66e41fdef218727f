//! `list_decisions`: what was decided, by number and title.

use super::documents::DECISIONS;
use super::{schema_of, Call, Running, Standing, Tool};
use crate::mcp::tool_result::ToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const TOOL: Tool = Tool {
    name: "list_decisions",
    title: "List decisions",
    description:
        "Lists the project's architecture decisions, by number and title. Use read_decision for the text of one.",
    cost: 1,
    needs_allowance: false,
    needs_capability: None,
    read_only: true,
    input: schema_of::<Arguments>,
    output: Some(schema_of::<Decisions>),
    run,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

#[derive(Serialize, JsonSchema)]
struct Decisions {
    decisions: Vec<Decision>,
}

#[derive(Serialize, JsonSchema)]
struct Decision {
    /// Four digits.
    id: &'static str,
    title: &'static str,
}

fn run(call: Call) -> Running {
    call.answer(|_: Arguments, _: Standing| {
        let decisions = DECISIONS.iter().map(|page| Decision { id: page.id(), title: page.title() }).collect();
        ToolResult::structured(&Decisions { decisions })
    })
}
