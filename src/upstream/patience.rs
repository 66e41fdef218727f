//! Tries again when that is safe, and knows whom a server has asked for a pause.

use super::backoff::Attempts;
use super::client::{Answer, Client, Lost, Outgoing};
use super::credential::Credential;
use super::health::Health;
use super::retry_after::pause;
use crate::limiter::policy::SECOND;
use crate::platform::delay::Delay;
use crate::platform::{now_us, random_id};
use std::cell::RefCell;

thread_local! {
    static HEALTH: RefCell<Health> = RefCell::default();
}

/// The pause of a server that is overloaded and doesn't say for how long, in microseconds.
const UNSAID: u64 = 5 * SECOND;

/// How a request may be sent more than once.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Whether sending it twice does no more than sending it once.
    pub is_repeatable: bool,
    /// For how long after the first attempt began it may be sent again, in microseconds; 0: never.
    pub left_us: u64,
}

/// Why there is no answer that could be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server asks for a pause of so many microseconds, and has done nothing.
    Pause(u64),
    /// It is lost.
    Lost(Lost),
    /// It was given up before it was sent.
    NeverSent,
}

/// How long a request with these credentials has to wait for the server at `url`, in microseconds; None when it needn't.
pub fn closed_for(url: &url::Url, credential: Credential) -> Option<u64> {
    HEALTH.with_borrow(|health| health.closed_for(&origin(url), credential, now_us()))
}

fn closed_beyond(own: u64, url: &url::Url, credential: Credential) -> Option<u64> {
    HEALTH.with_borrow(|health| health.closed_beyond(own, &origin(url), credential, now_us()))
}

/// Sends a request, unless its server wants a pause, and more than once where that is safe: after a 429 always, since nothing was
/// done; after a 502, 503 or 504 and a lost connection only what may be repeated.
pub async fn send(
    client: &Client,
    outgoing: &Outgoing,
    credential: Credential,
    patience: Patience,
) -> Result<Answer, Fault> {
    if let Some(pause) = closed_for(&outgoing.url, credential) {
        return Err(Fault::Pause(pause));
    }
    let Patience { is_repeatable, left_us } = patience;
    let mut attempts = Attempts::new(now_us(), left_us);
    let mut may_have_run = None;
    // Until when the server wants to be left alone by this very request.
    let mut own = 0;
    loop {
        if client.is_given_up() {
            return Err(may_have_run.map_or(Fault::NeverSent, Fault::Lost));
        }
        let result = client.send(outgoing).await;
        let (asked, floor, safe) = match &result {
            Ok(answer) if matches!(answer.status, 429 | 503) => {
                let asked = hear_pause(outgoing, credential, answer);
                own = now_us().saturating_add(asked.unwrap_or(UNSAID)).max(own);
                (true, asked, answer.status == 429 || is_repeatable)
            }
            Ok(answer) if matches!(answer.status, 502 | 504) => (false, None, is_repeatable),
            Err(Lost::Connection) => (false, None, is_repeatable),
            Ok(_) | Err(Lost::Timeout | Lost::Redirect | Lost::Status) => (false, None, false),
        };
        attempts.failed();
        let wait = attempts.wait(floor.unwrap_or_default(), now_us(), random_id()).filter(|_| safe);
        let Some(wait) = wait else {
            if attempts.are_several() && !asked && result.is_ok() {
                HEALTH.with_borrow_mut(|health| health.open(&origin(&outgoing.url), credential));
            }
            return match (result, may_have_run) {
                // This attempt did nothing, but one before it may have.
                (Ok(_), Some(lost)) if asked => Err(Fault::Lost(lost)),
                (Ok(_), None) if asked => Err(Fault::Pause(floor.unwrap_or(UNSAID))),
                (result, _) => result.map_err(Fault::Lost),
            };
        };
        if !asked {
            may_have_run = Some(Lost::Connection);
        }
        if let Ok(answer) = result {
            answer.discard();
        }
        Delay::new(wait.div_ceil(1_000)).await;
        // Another may have been asked for a longer pause meanwhile.
        while let Some(pause) = closed_beyond(own, &outgoing.url, credential) {
            let Some(wait) = attempts.wait(pause, now_us(), random_id()) else {
                return Err(may_have_run.map_or(Fault::Pause(pause), Fault::Lost));
            };
            Delay::new(wait.div_ceil(1_000)).await;
        }
    }
}

/// Leaves the server alone for as long as it asks; tells for how long that is, where it says so.
pub fn hear_pause(outgoing: &Outgoing, credential: Credential, answer: &Answer) -> Option<u64> {
    let now = now_us();
    let asked = answer.header("retry-after").and_then(|value| pause(value, now));
    HEALTH.with_borrow_mut(|health| health.close(&origin(&outgoing.url), credential, asked.unwrap_or(UNSAID), now));
    asked
}

fn origin(url: &url::Url) -> String {
    url.origin().ascii_serialization()
}
