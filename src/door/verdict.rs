//! A limit that refused, as the refusal that is told.

use crate::config::limits::Limits;
use crate::config::tools::ToolSettings;
use crate::limiter::admit::{Refused, Ruling, Whose};
use crate::limiter::answer::Kind;
use crate::limiter::policy::{whole_ms, TOKEN};
use crate::refusal::{AllowanceKind, Excess, Reason, Refusal};

/// What calls asked for, as far as a refusal tells of it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The tool of the first call.
    pub tool: &'a str,
    /// What holds for the tool that `Refused` names, if it names one.
    pub settings: Option<(&'a str, &'a ToolSettings)>,
    /// How many calls there are; of that tool, if one is named.
    pub calls: u64,
    /// What those cost, in micro-tokens.
    pub cost: u64,
    /// What holds for the caller.
    pub limits: &'a Limits,
    /// The capacity in whole tokens of the shared bucket, if there is one.
    pub shared_capacity: u64,
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
    let tool = asked.settings.map_or(asked.tool, |(tool, _)| tool);
    Some(Refusal { reason, allowance, tool, in_batch: asked.in_batch })
}

fn kind_of(whose: Whose, tool: &str) -> AllowanceKind {
    match whose {
        Whose::Caller if tool.is_empty() => AllowanceKind::Caller,
        Whose::Caller => AllowanceKind::Tool,
        Whose::Anonymous => AllowanceKind::Anonymous,
        Whose::Shared => AllowanceKind::Shared,
        Whose::Spacing => AllowanceKind::Spacing,
    }
}

fn reason<'a>(refused: &Refused, asked: &Asked<'a>) -> Reason<'a> {
    let settings = asked.settings.map(|(_, settings)| settings);
    let of = asked.settings.map(|(tool, _)| tool);
    let quota = settings.map_or(asked.limits.quota, |settings| settings.quota);
    let slots = settings.map_or(asked.limits.max_in_flight, |settings| settings.max_in_flight);
    let Some(wait) = refused.wait else {
        return Reason::Capacity(match (refused.kind, quota, refused.whose) {
            (Kind::Quota, Some(quota), _) => Excess::Calls { calls: asked.calls, quota, of },
            (Kind::Slots, ..) => Excess::Slots { calls: asked.calls, most: slots.unwrap_or_default(), of },
            (Kind::Bucket, _, Whose::Spacing) => {
                Excess::Spaced { calls: asked.calls, within_ms: asked.max_wait_ms, of }
            }
            (Kind::Bucket | Kind::Quota, _, whose) => {
                let bucket = settings.map_or(asked.limits.bucket, |settings| settings.bucket);
                let capacity = match whose {
                    Whose::Anonymous | Whose::Shared => asked.shared_capacity,
                    Whose::Caller | Whose::Spacing => bucket.map_or(0, |bucket| bucket.capacity_tokens()),
                };
                Excess::Tokens { cost: asked.cost / TOKEN, capacity }
            }
        });
    };
    let retry_after_ms = whole_ms(wait);
    match (refused.kind, quota) {
        (Kind::Quota, Some(quota)) => Reason::Quota { retry_after_ms, quota, of },
        (Kind::Slots, _) => {
            let status_tool = settings.and_then(|settings| settings.status_tool.as_deref());
            Reason::Busy { retry_after_ms, running: refused.running, of, status_tool }
        }
        (Kind::Bucket | Kind::Quota, _) => Reason::Rate { retry_after_ms },
    }
}
