//! Asks the server behind for its tools, with the client's own headers, and keeps what it tells.

use super::catalogue::{Catalogue, Page};
use super::catalogues::{Catalogues, Whose, LARGEST};
use super::client::{Answer, Client, Outgoing};
use super::credential::Credential;
use super::headers::{is_of_one_request, Pairs};
use super::kept::Look;
use super::pages::MOST_PAGES;
use super::passing::{messages, Passing};
use super::patience::{closed_for, hear_pause};
use super::shared_cache::{self, Stored};
use crate::mcp::sse::{self, Events};
use crate::platform::delay::Delay;
use crate::platform::{now_us, random_id, within};
use base64::prelude::{Engine as _, BASE64_URL_SAFE_NO_PAD};
use futures_util::StreamExt as _;
use serde_json::value::RawValue;
use serde_json::{json, Map, Value};
use sha2::{Digest, Sha256};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use url::Url;
use worker::web_sys::AbortController;
use worker::Context;

thread_local! {
    static CATALOGUES: RefCell<Catalogues> = RefCell::default();
}

/// How long a whole list may take at most, in milliseconds.
const DEADLINE_MS: u32 = 10_000;

/// How many lists are asked for on account of one POST at the most.
const MOST_QUESTIONS: u32 = 2;

/// How often a request that waits for a list looks, in milliseconds; and how often beyond the time that a list may take.
const LOOK_MS: u32 = 20;
const MORE_LOOKS: u32 = 50;

/// The largest answer, in bytes: a list says more than what is kept of it.
const LARGEST_ANSWER: usize = 4 * LARGEST;

/// What a call tells of how to ask for the list that holds for it.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The way to the server.
    pub client: Client,
    /// Where it is.
    pub url: Url,
    /// The headers of the call, as they are sent on.
    pub headers: Pairs,
    /// The metadata of a modern call.
    pub meta: Option<Value>,
    /// The credentials among the headers.
    pub credential: Credential,
    /// The caller.
    pub caller: String,
    /// Where Sluice itself is: what it keeps for others has an address there.
    pub own: Url,
    /// How often it was asked for.
    pub questions: Cell<u32>,
}

impl Listing {
    /// The catalogue that holds for a call; None when it can't be had.
    pub async fn known(&self, context: &Context) -> Option<Rc<Catalogue>> {
        self.look(None, context).await
    }

    /// A catalogue that is newer than now.
    pub async fn anew(&self, context: &Context) -> Option<Rc<Catalogue>> {
        self.look(Some(now_us()), context).await
    }

    /// A newer catalogue than one that doesn't have a tool; None when that isn't worth a question, or when it can't be had.
    pub async fn with_new_tools(&self, context: &Context) -> Option<Rc<Catalogue>> {
        let seek = CATALOGUES.with_borrow_mut(|catalogues| catalogues.seek(self.whose(), now_us()));
        match seek {
            true => self.anew(context).await,
            false => None,
        }
    }

    async fn look(&self, mut since: Option<u64>, context: &Context) -> Option<Rc<Catalogue>> {
        for _ in 0..(self.deadline_ms() / LOOK_MS).saturating_add(MORE_LOOKS) {
            let now = now_us();
            // While the server wants to be left alone it isn't asked, and nobody waits: the call is refused.
            let closed = closed_for(&self.url, self.credential).is_some();
            let may_ask = !closed && self.questions.get() < MOST_QUESTIONS;
            let (ask, look) =
                CATALOGUES.with_borrow_mut(|catalogues| catalogues.look(self.whose(), since, may_ask, now));
            if ask {
                self.questions.update(|questions| questions.saturating_add(1));
                let listing = self.clone();
                let is_first = since.is_none();
                // After this request, if it must be: a client that goes away takes no list with it.
                context.wait_until(async move { listing.load(is_first).await });
            }
            match look {
                Look::Known(catalogue) => return Some(catalogue),
                Look::Unknown => return None,
                Look::Wait if closed => return None,
                Look::Wait => {}
            }
            // What was waited for will do, however old it says it is.
            since = since.or(Some(now));
            Delay::new(u64::from(LOOK_MS)).await;
        }
        None
    }

    fn deadline_ms(&self) -> u32 {
        DEADLINE_MS.min(self.client.timeout_ms)
    }

    fn whose(&self) -> Whose<'_> {
        Whose { credential: self.credential, caller: &self.caller }
    }

    /// Has the list from whoever has it; from the server itself when somebody found that what is kept is old.
    async fn load(&self, may_be_kept: bool) {
        let shares = CATALOGUES.with_borrow(|catalogues| catalogues.shares(self.whose()));
        let kept = if may_be_kept && shares { self.kept().await } else { None };
        let catalogue = match kept {
            Some(kept) => Some(kept),
            None => self.told().await,
        };
        CATALOGUES.with_borrow_mut(|catalogues| catalogues.settle(self.whose(), catalogue, now_us()));
    }

    /// The list that another isolate has kept.
    async fn kept(&self) -> Option<Catalogue> {
        let Stored { at, results } = shared_cache::read(&self.address()).await?;
        let pages: Option<Vec<Page>> = results.iter().map(|result| Page::parse(result.get())).collect();
        let now = now_us();
        Some(Catalogue::aged(pages?, now.saturating_sub(at), now)).filter(|kept| kept.lives(now) > 0)
    }

    /// The list that the server tells, which is kept for others where it may be.
    async fn told(&self) -> Option<Catalogue> {
        let controller = AbortController::new().ok()?;
        let client = Client { signal: Some(controller.signal()), ..self.client.clone() };
        let Some(results) = within(self.deadline_ms(), self.list(&client)).await else {
            controller.abort();
            return None;
        };
        let results = results?;
        let pages: Option<Vec<Page>> = results.iter().map(|result| Page::parse(result.get())).collect();
        let at = now_us();
        let catalogue = Catalogue::new(pages?, at);
        if catalogue.is_public && self.credential.is_none() {
            shared_cache::write(&self.address(), &Stored { at, results }, catalogue.lives(at)).await;
            CATALOGUES.with_borrow_mut(Catalogues::shared);
        }
        Some(catalogue)
    }

    /// The address of what is kept for others. It leads nowhere.
    fn address(&self) -> String {
        let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(self.url.as_str()));
        format!("{}/.sluice/tools/{digest}", self.own.origin().ascii_serialization())
    }

    /// The results of `tools/list`, page by page.
    async fn list(&self, client: &Client) -> Option<Vec<Box<RawValue>>> {
        let mut results: Vec<Box<RawValue>> = Vec::new();
        let mut cursor = None;
        let size = |results: &[Box<RawValue>]| results.iter().map(|result| result.get().len()).sum::<usize>();
        while results.len() < MOST_PAGES && size(&results) <= LARGEST_ANSWER {
            let id = format!("sluice-{}", random_id());
            let request = self.request(&id, cursor);
            let answer = client.send(&request).await.ok()?;
            if matches!(answer.status, 429 | 503) && answer.header("retry-after").is_some() {
                hear_pause(&request, self.credential, &answer);
                answer.discard();
                return None;
            }
            let result = result(answer, &Value::from(id)).await?;
            cursor = Page::parse(result.get())?.next_cursor;
            results.push(result);
            if cursor.is_none() {
                return Some(results);
            }
        }
        None
    }

    fn request(&self, id: &str, cursor: Option<String>) -> Outgoing {
        let mut params = Map::new();
        params.extend(self.meta.clone().map(|mut meta| {
            // It is the call's own.
            meta.as_object_mut().map(|meta| meta.remove("progressToken"));
            ("_meta".to_owned(), meta)
        }));
        params.extend(cursor.map(|cursor| ("cursor".to_owned(), Value::from(cursor))));
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params });
        let headers = self.headers.iter().filter(|(name, _)| !is_of_one_request(name)).map(|(name, value)| {
            let value = match name.as_str() {
                "mcp-method" => "tools/list",
                "accept" => "application/json, text/event-stream",
                _ => value,
            };
            (name.clone(), value.to_owned())
        });
        let body = Some(message.to_string().into_bytes());
        Outgoing { method: "POST".to_owned(), url: self.url.clone(), headers: headers.collect(), body }
    }
}

/// A page that passes by, asked for with `cursor`, is kept.
pub fn passes(whose: Whose<'_>, cursor: Option<&str>, result: &str) {
    if let Some(page) = Page::parse(result) {
        CATALOGUES.with_borrow_mut(|catalogues| catalogues.pass(whose, cursor, page, now_us()));
    }
}

/// The list has changed, for whomever.
pub fn changed() {
    CATALOGUES.with_borrow_mut(Catalogues::changed);
}

/// The result in the answer to the request of this id.
async fn result(answer: Answer, id: &Value) -> Option<Box<RawValue>> {
    let is_stream = answer.media_type() == sse::MEDIA_TYPE;
    let (mut events, mut text, mut size) = (Events::default(), Vec::new(), 0_usize);
    let mut response = answer.response;
    let mut body = response.stream().ok()?;
    while let Some(chunk) = body.next().await {
        let chunk = chunk.ok()?;
        size = size.saturating_add(chunk.len());
        if size > LARGEST_ANSWER {
            return None;
        }
        if !is_stream {
            text.extend_from_slice(&chunk);
            continue;
        }
        let mut found = None;
        events.push(&chunk, |message| found = found.take().or_else(|| result_in(message, id)));
        if found.is_some() {
            return found;
        }
    }
    result_in(&text, id)
}

fn result_in(text: &[u8], id: &Value) -> Option<Box<RawValue>> {
    messages(text).into_iter().find_map(|message| match message {
        Passing::Answer { id: of, result: Some(result) } if of == *id => RawValue::from_string(result.to_owned()).ok(),
        _ => None,
    })
}
