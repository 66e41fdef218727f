//! One request of a POST, as far as it gets without the limiter: answered, or a tool call that is in order.

use crate::config::tools::ToolSettings;
use crate::config::Config;
use crate::mcp::headers::Header;
use crate::mcp::id::Id;
use crate::mcp::message::Request;
use crate::mcp::method::{self, Method, ToolCall};
use crate::mcp::reply::{Response, RpcError};
use crate::mcp::revision::{self, Revision};
use crate::mcp::server;
use crate::mcp::tool_result::ToolResult;
use crate::stats::counts::UNKNOWN_TOOL;
use crate::stats::flow::count;
use crate::tools::{self, arguments, Tool};
use serde_json::{json, Value};
use std::rc::Rc;

/// How much of a tool's name that doesn't exist is told back, in characters.
const NAME_SHOWN: usize = 64;

/// A request on its way.
pub enum Entry {
    /// It needs no limiter.
    Answered(Response),
    /// It does.
    Call(ReadyCall),
}

/// A tool call that is in order.
pub struct ReadyCall {
    /// The request's id.
    pub id: Id,
    /// By which it is served.
    pub revision: Revision,
    /// What is called.
    pub tool: &'static Tool,
    /// What holds for that.
    pub settings: Rc<ToolSettings>,
    /// What it is called with.
    pub arguments: Value,
}

impl Entry {
    /// The call, if it is one.
    pub fn ready(&self) -> Option<&ReadyCall> {
        match self {
            Self::Answered(_) => None,
            Self::Call(call) => Some(call),
        }
    }

    /// Answers what needs no limiter, and makes a call ready that does.
    pub fn prepare(mut request: Request, revision: Revision, config: &Config, header: Header<'_>) -> Self {
        let result = match method::of_request(&mut request, revision, header) {
            Ok(Method::Initialize(offered)) => Ok(server::initialize_result(offered)),
            Ok(Method::Ping) => Ok(json!({})),
            Ok(Method::Discover) => Ok(server::discover_result()),
            Ok(Method::ListTools) => {
                return Self::Answered(Response::with_result(request.id, tools::list_result(revision)))
            }
            Ok(Method::CallTool(call)) => return Self::call(request, call, revision, config, header),
            Err(error) => Err(error),
        };
        Self::Answered(Response::new(request.id, result))
    }

    /// 4. tools: is there such a tool, do the arguments fit. Whatever is wrong here costs nothing.
    fn call(request: Request, call: ToolCall, revision: Revision, config: &Config, header: Header<'_>) -> Self {
        let Some(tool) = tools::find(&call.name) else {
            count(|counts| counts.invalid(UNKNOWN_TOOL));
            let name: String = call.name.chars().take(NAME_SHOWN).collect();
            return Self::Answered(Response::new(
                request.id,
                Err(RpcError::invalid_params(&format!("Unknown tool: {name}"))),
            ));
        };
        if revision.is_modern() {
            if let Err(error) = check_modern(&request, &call, tool, header) {
                return Self::Answered(Response::new(request.id, Err(error)));
            }
        }
        match arguments::check(tool, call.arguments) {
            Ok(arguments) => {
                let settings = config.tool(tool.name);
                Self::Call(ReadyCall { id: request.id, revision, tool, settings, arguments })
            }
            Err(text) => {
                count(|counts| counts.invalid(tool.name));
                Self::Answered(Response::new(request.id, Ok(ToolResult::error(text).into_value(revision))))
            }
        }
    }
}

/// What only a modern request has: declared capabilities, and headers that mirror arguments.
fn check_modern(request: &Request, call: &ToolCall, tool: &'static Tool, header: Header<'_>) -> Result<(), RpcError> {
    match tool.needs_capability {
        Some(needed) if !revision::declares(request, needed) => {
            Err(RpcError::missing_capability(json!({ needed: {} })))
        }
        _ => arguments::check_headers(tool, header, &call.arguments),
    }
}
