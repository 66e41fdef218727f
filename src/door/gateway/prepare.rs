//! Calls of the tools of the server behind, as far as they get without the limiter: answered, or in order.

use super::judge::{Call, Part, Post};
use super::Gateway;
use crate::caller::Caller;
use crate::config::tools::ToolSettings;
use crate::door::meter::Wanted;
use crate::door::refuse::Refused;
use crate::limiter::policy::whole_ms;
use crate::mcp::headers::{check_params, Header};
use crate::mcp::id::Id;
use crate::mcp::reply::{Response, RpcError};
use crate::mcp::revision::Revision;
use crate::mcp::tool_result::ToolResult;
use crate::refusal::{AllowanceKind, Excess, Reason, Refusal};
use crate::stats::counts::UNKNOWN_TOOL;
use crate::stats::flow::count;
use crate::upstream::catalogue::{Catalogue, Listed};
use crate::upstream::client::{Client, Outgoing};
use crate::upstream::credential::Credential;
use crate::upstream::listing::Listing;
use crate::upstream::patience::closed_for;
use crate::upstream::watch::{Asks, Expected};
use std::cell::Cell;
use std::rc::Rc;
use worker::Context;

/// What is the same for all messages of a POST.
pub struct Batch<'b> {
    /// Who calls.
    pub caller: &'b Caller,
    /// The request that goes on, without its body.
    pub outgoing: Outgoing,
    /// The credentials in it.
    pub credential: Credential,
    /// Whether there may be more than one message.
    pub in_batch: bool,
}

/// A message on its way.
pub enum Ready {
    /// It goes on as it is.
    Passes(Option<Expected>),
    /// A call that is in order.
    Call(ReadyCall),
    /// It is answered here.
    Answered(Response),
}

/// A call that is in order.
pub struct ReadyCall {
    /// The request's id.
    pub id: Id,
    /// By which it was judged.
    pub revision: Revision,
    /// What is called.
    pub tool: String,
    /// What holds for that.
    pub settings: Rc<ToolSettings>,
    /// The name by which it is counted: one that the server behind has told, or the operator.
    pub counted_as: String,
    /// Whether calling it twice does no more than calling it once.
    pub is_repeatable: bool,
}

/// Whether arguments don't fit, and what is told then.
enum Misfit {
    Header(RpcError),
    Arguments(String),
}

/// The tools of the server behind, as far as one POST knows them.
struct Tools<'a> {
    listing: Listing,
    context: &'a Context,
    catalogue: Option<Rc<Catalogue>>,
    /// Whether the list was asked for anew: once is enough for all calls of a POST.
    is_new: bool,
}

impl<'a> Tools<'a> {
    async fn new(listing: Listing, context: &'a Context) -> Self {
        let catalogue = listing.known(context).await;
        Self { listing, context, catalogue, is_new: false }
    }

    /// The tool of a call, if it is listed; an error when its arguments don't fit. Before either is believed the list is asked for anew.
    async fn listed(&mut self, call: &Call, header: Header<'_>) -> Result<Option<Rc<Listed>>, Misfit> {
        let listed = self.look(call, header);
        let newer = match &listed {
            Ok(Some(_)) => return listed,
            _ if self.is_new || self.catalogue.is_none() => return listed,
            Ok(None) => self.listing.with_new_tools(self.context).await,
            Err(_) => {
                self.is_new = true;
                self.listing.anew(self.context).await
            }
        };
        if newer.is_none() {
            return listed;
        }
        (self.catalogue, self.is_new) = (newer, true);
        self.look(call, header)
    }

    fn look(&self, call: &Call, header: Header<'_>) -> Result<Option<Rc<Listed>>, Misfit> {
        let Some(listed) = self.catalogue.as_ref().and_then(|catalogue| catalogue.tool(&call.tool)) else {
            return Ok(None);
        };
        if let Some(schema) = listed.schema(&call.arguments) {
            if call.revision.is_modern() {
                check_params(header, schema.source(), &call.arguments).map_err(Misfit::Header)?;
            }
            schema.check(&call.tool, &call.arguments).map_err(Misfit::Arguments)?;
        }
        Ok(Some(listed))
    }
}

impl Gateway<'_> {
    /// 4. tools: is there such a tool, do the arguments fit. Whatever is wrong here costs nothing; what can't be known is let through.
    pub(super) async fn prepare(&self, post: Post, batch: &Batch<'_>) -> Vec<Ready> {
        let listing = post.calls().next().map(|first| Listing {
            // A list is for all who wait for it.
            client: Client { signal: None, ..self.client.clone() },
            url: batch.outgoing.url.clone(),
            headers: batch.outgoing.headers.clone(),
            meta: first.meta.clone(),
            credential: batch.credential,
            caller: batch.caller.key.name().to_owned(),
            own: self.own.clone(),
            questions: Cell::default(),
        });
        let mut tools = match listing {
            Some(listing) => Some(Tools::new(listing, self.meter.context).await),
            None => None,
        };
        let mut ready = Vec::new();
        for part in post.parts {
            ready.push(match (part, &mut tools) {
                (Part::Passes(expected), _) => Ready::Passes(expected),
                (Part::Answered(response), _) => Ready::Answered(response),
                (Part::Call(call), Some(tools)) => {
                    let listed = tools.listed(&call, &|name| self.header(name)).await;
                    self.ready(call, listed, tools.catalogue.is_some())
                }
                // Where there is a call there is the first one.
                (Part::Call(call), None) => self.ready(call, Ok(None), false),
            });
        }
        ready
    }

    fn ready(&self, call: Call, listed: Result<Option<Rc<Listed>>, Misfit>, has_catalogue: bool) -> Ready {
        let Call { id, revision, tool, .. } = call;
        let config = self.meter.config;
        let listed = match listed {
            Ok(listed) => listed,
            Err(Misfit::Header(error)) => return Ready::Answered(Response::new(id, Err(error))),
            Err(Misfit::Arguments(text)) => {
                count(|counts| counts.invalid(&tool));
                return Ready::Answered(Response::new(id, Ok(ToolResult::error(text).into_value(revision))));
            }
        };
        if !has_catalogue {
            count(|counts| counts.unchecked = counts.unchecked.saturating_add(1));
        }
        // A client can make up names without end.
        let is_known = listed.is_some() || config.tools().contains_key(&tool);
        let counted_as = if is_known { tool.clone() } else { UNKNOWN_TOOL.to_owned() };
        let is_repeatable = listed.is_some_and(|listed| listed.is_repeatable);
        let settings = config.tool(&tool);
        Ready::Call(ReadyCall { id, revision, tool, settings, counted_as, is_repeatable })
    }

    /// What refuses calls before anybody is asked: the server behind wants a pause, or there is no way to keep them apart.
    pub(super) fn refused_before<'c>(&self, calls: &[Wanted<'c>], batch: &Batch<'_>) -> Option<Refusal<'c>> {
        let first = calls.first()?;
        let Batch { outgoing, credential, in_batch, .. } = batch;
        let refusal = |tool, allowance, reason| Some(Refusal { reason, allowance, tool, in_batch: *in_batch });
        if let Some(wait) = closed_for(&outgoing.url, *credential) {
            return refusal(first.tool, AllowanceKind::Upstream, Reason::Upstream { retry_after_ms: whole_ms(wait) });
        }
        let apart = calls.iter().find_map(|call| {
            let gap_ms = call.settings.min_gap_ms?;
            let same = calls.iter().filter(|other| other.tool == call.tool).count();
            (same > 1).then_some((call.tool, gap_ms, same as u64))
        });
        let (tool, gap_ms, calls) = apart?;
        let excess = Excess::Together { calls, gap_ms, of: Some(tool) };
        refusal(tool, AllowanceKind::Spacing, Reason::Capacity(excess))
    }
}

impl Ready {
    /// The call, as it is metered.
    pub fn wanted(&self) -> Option<Wanted<'_>> {
        match self {
            Self::Call(ReadyCall { tool, settings, .. }) => {
                Some(Wanted { tool, settings: Rc::clone(settings), needs_allowance: false })
            }
            Self::Passes(_) | Self::Answered(_) => None,
        }
    }

    /// What is answered here: what never goes on, and a call where `instead` has something for it.
    pub fn answer(&self, instead: &impl Fn(&ReadyCall) -> Option<Response>) -> Option<Response> {
        match self {
            Self::Passes(_) => None,
            Self::Call(call) => instead(call),
            Self::Answered(response) => Some(response.clone()),
        }
    }

    /// What is expected of a request that is no call.
    pub fn passing(&self) -> Option<Expected> {
        match self {
            Self::Passes(expected) => expected.clone(),
            Self::Call(_) | Self::Answered(_) => None,
        }
    }

    /// What is expected when everything goes on that can.
    pub fn expected(&self) -> Option<Expected> {
        match self {
            Self::Call(ReadyCall { id, revision, counted_as, .. }) => {
                Some(Expected { id: id.clone(), asks: Asks::Call(counted_as.clone(), *revision) })
            }
            Self::Passes(_) | Self::Answered(_) => self.passing(),
        }
    }
}

impl ReadyCall {
    /// The answer to it when it is refused.
    pub fn refused(&self, refused: &Refused<'_>) -> Response {
        refused.call(self.id.clone(), self.revision, &self.tool, &self.counted_as)
    }
}
