//! A limit that refused, as the refusal that is told.

use crate::config::tools::ToolSettings;
use crate::limiter::admit::{Refused, Ruling, Whose};
use crate::limiter::allowance::Demand;
use crate::limiter::answer::Kind;
use crate::limiter::policy::{whole_ms, TOKEN};
use crate::refusal::{AllowanceKind, Excess, Reason, Refusal};

/// What calls asked for, as far as a refusal tells of it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The tool of the first call.
    pub tool: &'a str,
    /// The tool that the ruling names, if it names one, and what holds for it.
    pub named: Option<(&'a str, &'a ToolSettings)>,
    /// How many calls of that tool there are.
    pub calls: u64,
    /// The longest that a call is held back, in milliseconds.
    pub max_wait_ms: u64,
    /// Whether the calls came as a batch.
    pub in_batch: bool,
}

/// The refusal that a ruling makes; None when the calls run.
pub fn refusal<'a>(ruling: &Ruling, asked: &Asked<'a>) -> Option<Refusal<'a>> {
    let (reason, allowance) = match ruling {
        Ruling::Runs => return None,
        Ruling::Unavailable(whose) => (Reason::Unavailable, kind_of(*whose, "")),
        Ruling::Refused(refused) => (reason(refused, asked), kind_of(refused.whose, &refused.tool)),
    };
    let tool = asked.named.map_or(asked.tool, |(tool, _)| tool);
    Some(Refusal { reason, allowance, tool, in_batch: asked.in_batch })
}

fn kind_of(whose: Whose, tool: &str) -> AllowanceKind {
    match whose {
        Whose::Caller if tool.is_empty() => AllowanceKind::Caller,
        Whose::Caller => AllowanceKind::Tool,
        Whose::Anonymous => AllowanceKind::Anonymous,
        Whose::Shared => AllowanceKind::Shared,
        Whose::Spacing => AllowanceKind::Spacing,
        Whose::Session => AllowanceKind::Session,
    }
}

fn reason<'a>(refused: &Refused, asked: &Asked<'a>) -> Reason<'a> {
    let of = asked.named.map(|(tool, _)| tool);
    let Some(wait) = refused.wait else {
        return Reason::Capacity(excess(refused, asked));
    };
    let retry_after_ms = whole_ms(wait);
    match (refused.kind, refused.demand) {
        (Kind::Blocked, _) => Reason::Blocked { retry_after_ms },
        (Kind::Quota, Some(Demand::Calls(quota, _))) => Reason::Quota { retry_after_ms, quota, of },
        (Kind::Slots, _) => {
            let status_tool = asked.named.and_then(|(_, settings)| settings.status_tool.as_deref());
            Reason::Busy { retry_after_ms, running: refused.running, of, status_tool }
        }
        (Kind::Bucket | Kind::Quota, _) => Reason::Rate { retry_after_ms },
    }
}

fn excess<'a>(refused: &Refused, asked: &Asked<'a>) -> Excess<'a> {
    let of = asked.named.map(|(tool, _)| tool);
    match refused.demand {
        Some(Demand::Tokens(bucket, cost)) => Excess::Tokens { cost: cost / TOKEN, capacity: bucket.capacity_tokens() },
        Some(Demand::Calls(quota, calls)) => Excess::Calls { calls, quota, of },
        Some(Demand::Slots { limit, calls, .. }) => Excess::Slots { calls, most: limit, of },
        None => Excess::Spaced { calls: asked.calls, within_ms: asked.max_wait_ms, of },
    }
}
