//! What a refused call is told.

use crate::caller::CallerKey;
use crate::config::RefusalForm;
use crate::limiter::standing::Allowance;
use crate::mcp::id::Id;
use crate::mcp::reply::Response;
use crate::mcp::revision::Revision;
use crate::mcp::tool_result::ToolResult;
use crate::refusal::Refusal;
use crate::stats::counts::Limited;
use crate::stats::flow::count;

/// The `_meta` key of what is left.
const ALLOWANCE_KEY: &str = "sluice/allowance";

/// How calls of a POST are refused.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// Why.
    pub refusal: Refusal<'a>,
    /// How that is told.
    pub form: RefusalForm,
    /// To whom.
    pub caller: &'a CallerKey,
    /// What is left to it.
    pub left: Option<Allowance>,
}

impl Refused<'_> {
    /// The answer to a call of `tool`, which is counted.
    pub fn call(&self, id: Id, revision: Revision, tool: &str, counted_as: &str) -> Response {
        let refusal = Refusal { tool, ..self.refusal };
        count(|counts| counts.limited(limited(&refusal, self.caller, counted_as)));
        let outcome = match self.form {
            RefusalForm::Http => Err(refusal.to_rpc_error()),
            RefusalForm::Result => {
                let result = refusal.to_tool_result();
                let result = match self.left {
                    Some(left) => with_allowance(result, left),
                    None => result,
                };
                Ok(result.into_value(revision))
            }
        };
        Response::new(id, outcome)
    }

    /// The answer to a request beside it. As HTTP the whole POST is refused.
    pub fn other(&self, response: Response) -> Response {
        match self.form {
            RefusalForm::Result => response,
            RefusalForm::Http => Response { outcome: Err(self.refusal.to_rpc_error()), ..response },
        }
    }
}

/// A result that tells what is left.
pub fn with_allowance(result: ToolResult, left: Allowance) -> ToolResult {
    match serde_json::to_value(left) {
        Ok(value) => result.with_meta(ALLOWANCE_KEY, value),
        Err(_) => result,
    }
}

fn limited(refusal: &Refusal<'_>, caller: &CallerKey, tool: &str) -> Limited {
    Limited {
        tool: tool.to_owned(),
        reason: refusal.reason.name().to_owned(),
        allowance: refusal.allowance.name().to_owned(),
        caller: caller.kind().to_owned(),
        bucket: caller.group().to_string(),
    }
}
