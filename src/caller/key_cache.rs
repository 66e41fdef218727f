//! The keys that an isolate has of the issuer, and when it fetches them: at first, ten minutes later, and for a key
//! that it doesn't know; once a minute at most, whatever is sent.
//!
//! A fetch belongs to the request that started it, and no other may wait for its future. So it is marked here when it
//! starts and when it is over, and whoever needs it looks again.

use super::fault::{TokenFault, Unidentified};
use super::jwk::{self, Choice, Jwk};
use super::jws::Algorithm;

const SECOND: u64 = 1_000_000;

/// After how long keys are fetched anew, in microseconds.
const REFRESH_AFTER: u64 = 600 * SECOND;

/// The least time between the starts of two fetches, in microseconds.
const SPACING: u64 = 60 * SECOND;

/// How long a fetch can take, in microseconds: one that isn't over by then never will be.
pub const FETCH_TIME: u64 = 5 * SECOND;

/// The keys, and what is known of the last fetch. Times are in microseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyCache {
    keys: Vec<Jwk>,
    /// When the keys arrived.
    loaded: Option<u64>,
    /// When the last fetch began.
    started: Option<u64>,
    /// Whether that fetch is over.
    settled: bool,
}

/// What a token gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Keys to try.
    Keys(Vec<Jwk>),
    /// A fetch is out that may bring its key: look again.
    Wait,
    /// None.
    None(Unidentified),
}

impl KeyCache {
    /// What a token gets at `now`, and whether the caller of this has to start a fetch, which is marked already.
    pub fn look(&mut self, algorithm: Algorithm, kid: Option<&str>, now: u64) -> (bool, Answer) {
        let choice = jwk::choose(&self.keys, algorithm, kid);
        let start = (choice == Choice::Unknown || self.is_stale(now)) && self.may_start(now);
        if start {
            self.started = Some(now);
            self.settled = false;
        }
        let answer = match choice {
            Choice::Keys(keys) => Answer::Keys(keys),
            Choice::Misfit => Answer::None(TokenFault::Algorithm.into()),
            Choice::Unknown if self.is_fetching(now) => Answer::Wait,
            Choice::Unknown if self.keys.is_empty() => Answer::None(Unidentified::NoKeys),
            Choice::Unknown => Answer::None(TokenFault::UnknownKey.into()),
        };
        (start, answer)
    }

    /// Takes what a fetch brought. When it failed, the keys that there are stay.
    pub fn settle(&mut self, keys: Option<Vec<Jwk>>, now: u64) {
        self.settled = true;
        if let Some(keys) = keys {
            self.keys = keys;
            self.loaded = Some(now);
        }
    }

    // A clock that went back makes keys old and a fetch due: it must not lock anybody out.

    fn is_stale(&self, now: u64) -> bool {
        !within(self.loaded, REFRESH_AFTER, now)
    }

    fn may_start(&self, now: u64) -> bool {
        !within(self.started, SPACING, now)
    }

    fn is_fetching(&self, now: u64) -> bool {
        !self.settled && within(self.started, FETCH_TIME, now)
    }
}

/// Whether `now` is less than `span` after `since`.
fn within(since: Option<u64>, span: u64, now: u64) -> bool {
    since.and_then(|since| now.checked_sub(since)).is_some_and(|passed| passed < span)
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_000 * SECOND;
    const NO_KEYS: Answer = Answer::None(Unidentified::NoKeys);
    const UNKNOWN: Answer = Answer::None(Unidentified::BadToken(TokenFault::UnknownKey));

    fn key(kid: &str) -> Jwk {
        Jwk { kid: Some(kid.to_owned()), algorithm: Algorithm::EdDsa, json: "{}".to_owned() }
    }

    fn look(cache: &mut KeyCache, kid: &str, now: u64) -> (bool, Answer) {
        cache.look(Algorithm::EdDsa, Some(kid), now)
    }

    /// A cache with the key "a", fetched within a second from `T`.
    fn loaded() -> KeyCache {
        let mut cache = KeyCache::default();
        assert_eq!(look(&mut cache, "a", T), (true, Answer::Wait));
        cache.settle(Some(vec![key("a")]), T + SECOND);
        cache
    }

    fn a() -> Answer {
        Answer::Keys(vec![key("a")])
    }

    #[test]
    fn the_spans_are_as_promised() {
        // Fetched anew after ten minutes, never more than once a minute, never for longer than five seconds.
        assert_eq!((REFRESH_AFTER, SPACING, FETCH_TIME), (600_000_000, 60_000_000, 5_000_000));
    }

    #[test]
    fn the_first_token_starts_a_fetch_and_all_others_wait_for_it() {
        let mut cache = KeyCache::default();
        assert_eq!(look(&mut cache, "a", T), (true, Answer::Wait));
        for later in [0, 1, FETCH_TIME - 1] {
            assert_eq!(look(&mut cache, "b", T + later), (false, Answer::Wait));
        }
        cache.settle(Some(vec![key("a")]), T + SECOND);
        assert_eq!(look(&mut cache, "a", T + SECOND), (false, a()));
        assert_eq!(cache.look(Algorithm::EdDsa, None, T + SECOND), (false, a()));
    }

    #[test]
    fn when_the_first_fetch_fails_there_are_no_keys_for_a_minute() {
        let mut cache = KeyCache::default();
        look(&mut cache, "a", T);
        cache.settle(None, T + 1);
        assert_eq!(look(&mut cache, "a", T + 1), (false, NO_KEYS));
        assert_eq!(look(&mut cache, "a", T + SPACING - 1), (false, NO_KEYS));
        assert_eq!(look(&mut cache, "a", T + SPACING), (true, Answer::Wait));
    }

    #[test]
    fn a_fetch_that_is_never_over_is_waited_for_no_longer_than_one_can_take() {
        let mut cache = KeyCache::default();
        look(&mut cache, "a", T);
        assert_eq!(look(&mut cache, "a", T + FETCH_TIME), (false, NO_KEYS));
        let mut cache = loaded();
        look(&mut cache, "b", T + SPACING);
        assert_eq!(look(&mut cache, "b", T + SPACING + FETCH_TIME), (false, UNKNOWN));
    }

    #[test]
    fn a_set_without_a_key_is_no_keys() {
        let mut cache = loaded();
        cache.settle(Some(vec![]), T + 2 * SECOND);
        assert_eq!(look(&mut cache, "a", T + 2 * SECOND), (false, NO_KEYS));
    }

    #[test]
    fn an_unknown_key_is_looked_for_once_a_minute() {
        let mut cache = loaded();
        assert_eq!(look(&mut cache, "b", T + SPACING - 1), (false, UNKNOWN));
        assert_eq!(look(&mut cache, "b", T + SPACING), (true, Answer::Wait));
        assert_eq!(look(&mut cache, "c", T + SPACING), (false, Answer::Wait));
        assert_eq!(look(&mut cache, "a", T + SPACING), (false, a()), "known keys don't wait");
        cache.settle(Some(vec![key("a"), key("b")]), T + SPACING + 1);
        assert_eq!(look(&mut cache, "b", T + SPACING + 1), (false, Answer::Keys(vec![key("b")])));
        assert_eq!(look(&mut cache, "c", T + SPACING + 1), (false, UNKNOWN));
        assert_eq!(look(&mut cache, "c", T + 2 * SPACING - 1), (false, UNKNOWN));
        assert_eq!(look(&mut cache, "c", T + 2 * SPACING), (true, Answer::Wait));
    }

    #[test]
    fn keys_are_refreshed_after_ten_minutes_while_they_are_used() {
        let mut cache = loaded();
        let old = T + SECOND + REFRESH_AFTER;
        assert_eq!(look(&mut cache, "a", old - 1), (false, a()));
        assert_eq!(look(&mut cache, "a", old), (true, a()));
        assert_eq!(look(&mut cache, "a", old), (false, a()), "one fetch is enough");
        cache.settle(None, old + 1);
        assert_eq!(look(&mut cache, "a", old + SPACING - 1), (false, a()), "the old keys stay");
        assert_eq!(look(&mut cache, "a", old + SPACING), (true, a()));
        cache.settle(Some(vec![key("b")]), old + SPACING);
        assert_eq!(look(&mut cache, "a", old + SPACING), (false, UNKNOWN), "what is gone from the set is gone");
        assert_eq!(look(&mut cache, "b", old + SPACING + REFRESH_AFTER - 1), (false, Answer::Keys(vec![key("b")])));
    }

    #[test]
    fn a_key_for_another_algorithm_is_a_misfit_and_no_reason_to_fetch() {
        let misfit = Answer::None(TokenFault::Algorithm.into());
        assert_eq!(loaded().look(Algorithm::Rs256, Some("a"), T + 5 * SPACING), (false, misfit));
        assert_eq!(loaded().look(Algorithm::Rs256, None, T + 5 * SPACING), (true, Answer::Wait));
    }

    #[test]
    fn a_clock_that_went_back_locks_nobody_out() {
        let mut cache = KeyCache::default();
        look(&mut cache, "a", T);
        cache.settle(None, T);
        assert_eq!(look(&mut cache, "a", T - 1), (true, Answer::Wait));
        assert_eq!(look(&mut loaded(), "a", T - 1), (true, a()));
    }
}
