//! `read_decision`: the text of one decision.

use super::documents::{Document, DECISIONS};
use super::{schema_of, Call, Running, Standing, Tool};
use crate::mcp::tool_result::ToolResult;
use schemars::JsonSchema;
use serde::Deserialize;

pub const TOOL: Tool = Tool {
    name: "read_decision",
    title: "Read a decision",
    description: "Returns one architecture decision as Markdown: its context, what was decided, what follows, and what would undo it.",
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
    /// The decision's number, four digits, as list_decisions gives it.
    #[schemars(regex(pattern = r"^[0-9]{4}$"))]
    id: String,
}

fn run(call: Call) -> Running {
    call.answer(|arguments: Arguments, _: Standing| match DECISIONS.iter().find(|page| page.id() == arguments.id) {
        Some(page) => ToolResult::text(page.text),
        None => {
            let ids: Vec<_> = DECISIONS.iter().map(Document::id).collect();
            ToolResult::error(format!("There is no decision {}. There are {}.", arguments.id, ids.join(", ")))
        }
    })
}
