//! Has the answer of the server behind pass to the client: as it comes, with what is to be seen in it seen.

use super::client::Answer;
use super::passing::messages;
use super::watch::Watch;
use crate::mcp::sse::{event, Events};
use crate::platform::watched::watched;
use crate::platform::within;
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt as _};
use worker::{ByteStream, Error, Response, ResponseBody};

/// The most of an answer in JSON that is gathered before it goes on, in bytes. It makes no sense before it is whole; one that is
/// longer goes on as it comes.
const LONGEST_GATHERED: usize = 256 << 10;

/// What is told of an answer that ended before it was whole.
pub const ENDED_EARLY: &str = "The server behind ended its answer before it was complete. The call may have run.";

/// A body in JSON, as far as it was gathered.
pub enum Gathered {
    /// All of it.
    Whole(Vec<u8>),
    /// The beginning of one that is longer, and the rest.
    Beginning(Vec<u8>, ByteStream),
    /// It broke off, or didn't come in time.
    Broken,
}

/// Gathers a body, each part of which is waited for so many milliseconds at most.
pub async fn gather(answer: &mut Answer, timeout_ms: u32) -> Gathered {
    let Ok(mut body) = answer.response.stream() else {
        return Gathered::Whole(Vec::new());
    };
    let mut gathered = Vec::new();
    while gathered.len() <= LONGEST_GATHERED {
        match within(timeout_ms, body.next()).await {
            Some(Some(Ok(part))) => gathered.extend_from_slice(&part),
            Some(None) => return Gathered::Whole(gathered),
            Some(Some(Err(_))) | None => return Gathered::Broken,
        }
    }
    Gathered::Beginning(gathered, body)
}

/// A body that passes by unseen.
pub fn unseen(answer: &Answer) -> ResponseBody {
    match answer.response.body() {
        ResponseBody::Stream(stream) => ResponseBody::Stream(stream.clone()),
        ResponseBody::Body(_) | ResponseBody::Empty => ResponseBody::Empty,
    }
}

/// The same, where `kept` lives as long as it passes.
pub fn unseen_with<K: 'static>(answer: &mut Answer, kept: K) -> worker::Result<Response> {
    match answer.response.stream() {
        Ok(body) => rest(Vec::new(), body, kept),
        // There is no body.
        Err(_) => Response::empty(),
    }
}

/// The rest of a body, after what was gathered of it. `kept` lives as long as it passes.
pub fn rest<K: 'static>(gathered: Vec<u8>, body: ByteStream, kept: K) -> worker::Result<Response> {
    let first = futures_util::stream::iter((!gathered.is_empty()).then_some(Ok(gathered)));
    written_here(first.chain(body).map(move |chunk| {
        let _ = &kept;
        chunk
    }))
}

/// A response with this body, which ends when a panic has stopped this instance.
fn written_here(body: impl Stream<Item = Result<Vec<u8>, Error>> + 'static) -> Result<Response, Error> {
    match Response::from_stream(body)?.body() {
        ResponseBody::Stream(body) => Response::from_body(ResponseBody::Stream(watched(body)?)),
        ResponseBody::Body(_) | ResponseBody::Empty => Response::empty(),
    }
}

/// A stream of events, watched as it passes, after events of our own.
struct Relay {
    first: Option<Vec<u8>>,
    body: Option<ByteStream>,
    events: Events,
    watch: Watch,
    is_mended: bool,
}

/// A stream of events, watched as it passes: `first` are messages that go before it.
///
/// When the stream breaks off before all that is expected has come, and the client can't come back for the rest, what is missing is told;
/// also when it just ends, if that is to be mended.
pub fn events(answer: &mut Answer, first: &[String], watch: Watch, is_mended: bool) -> worker::Result<Response> {
    let body = answer.response.stream()?;
    let first = Some(first.iter().map(|message| event(message)).collect::<String>().into_bytes());
    let first = first.filter(|first| !first.is_empty());
    let relay = Relay { first, body: Some(body), events: Events::default(), watch, is_mended };
    written_here(unfold(relay, |mut relay| async move {
        let chunk = relay.next().await?;
        Some((Ok::<_, Error>(chunk), relay))
    }))
}

impl Relay {
    /// The next bytes.
    async fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let body = self.body.as_mut()?;
        let part = body.next().await;
        let is_broken = matches!(part, Some(Err(_)));
        if let Some(Ok(chunk)) = part {
            let watch = &mut self.watch;
            self.events.push(&chunk, |text| messages(text).into_iter().for_each(|message| watch.saw(message)));
            return Some(chunk);
        }
        self.body = None;
        if self.events.overlooked() {
            // It may have been the answer.
            self.watch.saw_something();
        }
        // Whoever can come back for the rest will.
        let is_final = (self.is_mended || is_broken) && !self.events.can_resume();
        let missing = if is_final { self.watch.ended_early(ENDED_EARLY) } else { Vec::new() };
        if missing.is_empty() {
            return None;
        }
        let mut last = String::new();
        if self.events.is_within_event() {
            // Half an event can't be taken back. One of another type is no message.
            last.push_str("\nevent: broken\n\n");
        }
        let texts = missing.iter().filter_map(|response| serde_json::to_string(response).ok());
        texts.for_each(|text| last.push_str(&event(&text)));
        Some(last.into_bytes())
    }
}
