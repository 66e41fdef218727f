//! The catalogues of one isolate: who may use which, and when one is asked for.
//!
//! A request never waits for another's, since what one asks for is lost when its client goes (decisions/0010): it looks again
//! until the list is there.

use super::catalogue::{Catalogue, Page};
use super::credential::Credential;
use super::kept::{Kept, Look};
use super::pages::Pages;
use std::collections::HashMap;
use std::rc::Rc;

/// What all catalogues may take together, in bytes of their names and schemas.
const MOST_BYTES: usize = 8 << 20;

/// What a single one may take, in bytes.
pub const LARGEST: usize = 2 << 20;

/// The most clients that something is kept of.
const MOST_CLIENTS: usize = 1_000;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    /// The credentials that go on with the question.
    pub credential: Credential,
    /// The caller.
    pub caller: &'a str,
}

/// Whose catalogue it is. The caller is empty where lists don't depend on who asks.
type Client = (Credential, String);

/// All that is known of the tools of the server behind.
#[derive(Default)]
pub struct Catalogues {
    kept: HashMap<Client, Kept>,
    /// Whether it has said that its list is private even to somebody without credentials.
    depends_on_caller: bool,
    /// The pages so far of a list that passes by, and to whom. Of several at once the last one is followed: pages can be large, and those
    /// who miss a list ask for it.
    passing: Option<(Client, Pages)>,
    /// Whether it has said that its list has changed, since when what others keep is old.
    has_changed: bool,
}

impl Catalogues {
    /// Looks for a catalogue at `now`: at first for any that is good, with `since` for one that was learnt then or later. The first
    /// value says whether to ask for it, which it does only where the one who looks may.
    pub fn look(&mut self, whose: Whose<'_>, since: Option<u64>, may_ask: bool, now: u64) -> (bool, Look) {
        self.kept(whose, now).look(since, may_ask, now)
    }

    /// Whether a tool that isn't in the catalogue is worth asking for a newer one at `now`: names can be made up without end.
    pub fn seek(&mut self, whose: Whose<'_>, now: u64) -> bool {
        self.kept(whose, now).seek(now)
    }

    /// Keeps what was asked for, or at `now` that it can't be had. What the server has said meanwhile to have changed is old: then
    /// nobody is asking any more, and whoever waits asks again.
    pub fn settle(&mut self, whose: Whose<'_>, catalogue: Option<Catalogue>, now: u64) {
        let kept = self.kept(whose, now);
        if kept.asking.take().is_some() && !kept.has_changed {
            self.keep(whose, catalogue, now);
        }
    }

    fn keep(&mut self, whose: Whose<'_>, catalogue: Option<Catalogue>, now: u64) {
        match catalogue {
            Some(catalogue) if catalogue.size <= LARGEST => self.learn(whose, catalogue, now),
            Some(_) | None => self.kept(whose, now).failed = Some(now),
        }
    }

    /// A page passed by at `now` that was asked for with `cursor`.
    pub fn pass(&mut self, whose: Whose<'_>, cursor: Option<&str>, page: Page, now: u64) {
        let client = self.client(whose);
        let followed = self.passing.take().filter(|(other, _)| *other == client);
        let mut pages = followed.map(|(_, pages)| pages).unwrap_or_default();
        match pages.add(cursor, page) {
            Some(pages) => self.keep(whose, Some(Catalogue::new(pages, now)), now),
            None => self.passing = Some((client, pages)),
        }
    }

    /// The server says that everything may have changed. Who is asking goes on, and nobody asks beside.
    pub fn changed(&mut self) {
        self.has_changed = true;
        self.forget();
        self.kept.values_mut().for_each(|kept| (kept.has_changed, kept.failed) = (true, None));
    }

    /// Whether what others keep of a list for `whose` can be used.
    pub fn shares(&self, whose: Whose<'_>) -> bool {
        whose.credential.is_none() && !self.depends_on_caller && !self.has_changed
    }

    /// What others keep is new again.
    pub fn shared(&mut self) {
        self.has_changed = false;
    }

    /// Forgets all lists, but not who is asking for one, nor when one was asked for.
    fn forget(&mut self) {
        self.kept.values_mut().for_each(|kept| kept.catalogue = None);
        self.passing = None;
    }

    fn learn(&mut self, whose: Whose<'_>, catalogue: Catalogue, now: u64) {
        if catalogue.is_private && whose.credential.is_none() && !self.depends_on_caller {
            // From now on each caller asks for its own.
            self.depends_on_caller = true;
            self.forget();
        }
        let all: usize = self.kept.values().filter_map(|kept| kept.catalogue.as_ref()).map(|kept| kept.size).sum();
        if all.saturating_add(catalogue.size) > MOST_BYTES {
            // They cost one question each to have again.
            self.forget();
        }
        let kept = self.kept(whose, now);
        (kept.catalogue, kept.failed) = (Some(Rc::new(catalogue)), None);
        // What is still on its way to whoever asked before stays old.
        kept.has_changed &= kept.asking.is_some();
    }

    fn client(&self, whose: Whose<'_>) -> Client {
        let shared = whose.credential.is_none() && !self.depends_on_caller;
        (whose.credential, if shared { String::new() } else { whose.caller.to_owned() })
    }

    /// What is kept for somebody.
    fn kept(&mut self, whose: Whose<'_>, now: u64) -> &mut Kept {
        let client = self.client(whose);
        if self.kept.len() >= MOST_CLIENTS && !self.kept.contains_key(&client) {
            self.kept.retain(|_, kept| kept.catalogue.as_ref().is_some_and(|catalogue| catalogue.is_good(now)));
            if self.kept.len() >= MOST_CLIENTS {
                self.kept.clear();
            }
        }
        self.kept.entry(client).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::SECOND;
    use crate::upstream::kept::{EVERY, LOST_AFTER, PAUSE};
    use serde_json::json;

    const ANYBODY: Whose<'_> = Whose { credential: Credential::NONE, caller: "address:192.0.2.1" };
    const SOMEBODY_ELSE: Whose<'_> = Whose { caller: "address:192.0.2.2", ..ANYBODY };

    fn with_token(token: &str, caller: &'static str) -> Whose<'static> {
        let credential = Credential::of(&[("authorization".to_owned(), token.to_owned())]);
        Whose { credential, caller }
    }

    fn page(tool: &str, more: serde_json::Value) -> Page {
        let mut page = json!({"tools": [{"name": tool, "inputSchema": {"type": "object"}}]});
        page.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Page::parse(&page.to_string()).unwrap()
    }

    fn list(tool: &str, now: u64) -> Option<Catalogue> {
        Some(Catalogue::new(vec![page(tool, json!({}))], now))
    }

    /// Somebody asks, and is told.
    fn learn(catalogues: &mut Catalogues, whose: Whose<'_>, catalogue: Option<Catalogue>, now: u64) {
        catalogues.kept(whose, now).asking = Some(now);
        catalogues.settle(whose, catalogue, now);
    }

    fn knows(catalogues: &mut Catalogues, whose: Whose<'_>, tool: &str, now: u64) -> bool {
        matches!(catalogues.look(whose, None, true, now).1, Look::Known(found) if found.tool(tool).is_some())
    }

    #[test]
    fn a_list_is_asked_for_once_and_then_known_to_everybody() {
        let mut catalogues = Catalogues::default();
        assert!(matches!(catalogues.look(ANYBODY, None, true, 5), (true, Look::Wait)));
        assert!(matches!(catalogues.look(SOMEBODY_ELSE, None, true, 6), (false, Look::Wait)));
        learn(&mut catalogues, ANYBODY, list("echo", 7), 7);
        assert!(knows(&mut catalogues, SOMEBODY_ELSE, "echo", 8));
        assert!(!knows(&mut catalogues, ANYBODY, "echo", 7 + 300 * SECOND));
    }

    #[test]
    fn a_list_that_cant_be_had_is_asked_for_again_after_a_while() {
        let mut catalogues = Catalogues::default();
        assert!(catalogues.look(ANYBODY, None, true, 5).0);
        learn(&mut catalogues, ANYBODY, None, 6);
        assert!(matches!(catalogues.look(ANYBODY, None, true, 5 + PAUSE), (false, Look::Unknown)));
        assert!(matches!(catalogues.look(ANYBODY, None, true, 6 + PAUSE), (true, Look::Wait)));
        assert!(matches!(catalogues.look(ANYBODY, None, true, 5 + PAUSE + LOST_AFTER), (false, Look::Wait)));
        assert!(catalogues.look(ANYBODY, None, true, 6 + PAUSE + LOST_AFTER).0, "whoever asked was lost");
        learn(&mut catalogues, ANYBODY, list(&"x".repeat(LARGEST), 7), 7);
        assert!(matches!(catalogues.look(ANYBODY, None, true, 8), (false, Look::Unknown)), "it is too large");
    }

    #[test]
    fn a_newer_one_can_be_asked_for_and_the_old_stays_while_that_fails() {
        let mut catalogues = Catalogues::default();
        learn(&mut catalogues, ANYBODY, list("echo", 5), 5);
        assert!(matches!(catalogues.look(ANYBODY, Some(6), true, 6), (true, Look::Wait)));
        learn(&mut catalogues, ANYBODY, None, 7);
        assert!(matches!(catalogues.look(ANYBODY, Some(6), true, 8), (false, Look::Unknown)));
        assert!(knows(&mut catalogues, ANYBODY, "echo", 8));
        learn(&mut catalogues, ANYBODY, list("add", 9), 9);
        assert!(
            matches!(catalogues.look(ANYBODY, Some(6), true, 9), (false, Look::Known(found)) if found.tool("add").is_some())
        );
    }

    #[test]
    fn whoever_may_not_ask_uses_what_is_known() {
        let mut catalogues = Catalogues::default();
        assert!(matches!(catalogues.look(ANYBODY, None, false, 5), (false, Look::Unknown)));
        learn(&mut catalogues, ANYBODY, list("echo", 5), 5);
        assert!(matches!(catalogues.look(ANYBODY, None, false, 6), (false, Look::Known(_))));
        assert!(matches!(catalogues.look(ANYBODY, Some(6), false, 6), (false, Look::Unknown)));
    }

    #[test]
    fn one_that_is_old_at_once_serves_whoever_waited_for_it() {
        let mut catalogues = Catalogues::default();
        assert!(catalogues.look(ANYBODY, None, true, 5).0);
        let old = Catalogue::new(vec![page("echo", json!({"ttlMs": 0}))], 6);
        learn(&mut catalogues, ANYBODY, Some(old), 6);
        assert!(matches!(catalogues.look(ANYBODY, Some(5), true, 7), (false, Look::Known(_))));
        assert!(matches!(catalogues.look(ANYBODY, None, true, 7), (true, Look::Wait)));
    }

    #[test]
    fn what_depends_on_who_asks_is_for_nobody_else() {
        let mut catalogues = Catalogues::default();
        let (alice, bob) = (with_token("a", "alice"), with_token("b", "bob"));
        learn(&mut catalogues, alice, list("secret", 5), 5);
        assert!(knows(&mut catalogues, alice, "secret", 6));
        for other in [bob, ANYBODY, with_token("a", "bob"), with_token("b", "alice")] {
            assert!(!knows(&mut catalogues, other, "secret", 6));
        }
        learn(&mut catalogues, ANYBODY, list("echo", 5), 5);
        let private = page("mine", json!({"cacheScope": "private"}));
        learn(&mut catalogues, ANYBODY, Some(Catalogue::new(vec![private], 6)), 6);
        assert!(knows(&mut catalogues, ANYBODY, "mine", 7));
        assert!(!knows(&mut catalogues, SOMEBODY_ELSE, "mine", 7) && !knows(&mut catalogues, SOMEBODY_ELSE, "echo", 7));
    }

    #[test]
    fn a_list_that_passes_by_is_learnt_when_all_its_pages_have() {
        let mut catalogues = Catalogues::default();
        catalogues.pass(ANYBODY, None, page("a", json!({"nextCursor": "2"})), 5);
        assert!(!knows(&mut catalogues, ANYBODY, "a", 6));
        catalogues.pass(ANYBODY, Some("2"), page("b", json!({})), 7);
        assert!(knows(&mut catalogues, ANYBODY, "a", 8) && knows(&mut catalogues, ANYBODY, "b", 8));
        catalogues.changed();
        assert!(!knows(&mut catalogues, ANYBODY, "a", 9));
    }

    #[test]
    fn what_was_asked_for_before_the_list_changed_is_old_when_it_comes() {
        let mut catalogues = Catalogues::default();
        assert!(catalogues.look(ANYBODY, None, true, 5).0);
        catalogues.changed();
        catalogues.settle(ANYBODY, list("echo", 6), 6);
        assert!(matches!(catalogues.look(ANYBODY, Some(5), true, 7), (true, Look::Wait)), "whoever waits asks again");
        catalogues.settle(ANYBODY, list("add", 8), 8);
        assert!(knows(&mut catalogues, ANYBODY, "add", 9));
    }

    #[test]
    fn a_list_that_changes_all_the_time_is_asked_for_one_at_a_time_and_now_and_then() {
        let mut catalogues = Catalogues::default();
        let asks = |catalogues: &mut Catalogues, now| catalogues.look(ANYBODY, Some(5), true, now).0;
        assert!(asks(&mut catalogues, 5));
        catalogues.changed();
        assert!(!asks(&mut catalogues, 6), "one is on its way");
        catalogues.settle(ANYBODY, list("echo", 7), 7);
        assert!(asks(&mut catalogues, 8));
        catalogues.changed();
        catalogues.settle(ANYBODY, list("echo", 9), 9);
        assert!(matches!(catalogues.look(ANYBODY, Some(5), true, 7 + EVERY), (false, Look::Wait)));
        assert!(asks(&mut catalogues, 8 + EVERY));
        catalogues.settle(ANYBODY, list("add", 9 + EVERY), 9 + EVERY);
        catalogues.changed();
        assert!(!asks(&mut catalogues, 7 + 2 * EVERY) && asks(&mut catalogues, 8 + 2 * EVERY));
    }

    #[test]
    fn what_makes_room_stops_nobody_who_is_asking() {
        let mut catalogues = Catalogues::default();
        let alice = with_token("a", "alice");
        assert!(catalogues.look(alice, None, true, 5).0);
        for n in 0..5 {
            learn(&mut catalogues, with_token(&n.to_string(), "b"), list(&"x".repeat(LARGEST - 100), 6), 6);
        }
        assert!(!catalogues.look(alice, None, true, 7).0);
        catalogues.settle(alice, list("echo", 8), 8);
        assert!(knows(&mut catalogues, alice, "echo", 9));
    }

    #[test]
    fn what_others_keep_is_used_where_a_list_is_for_anybody_and_hasnt_changed() {
        let mut catalogues = Catalogues::default();
        assert!(catalogues.shares(ANYBODY) && !catalogues.shares(with_token("a", "alice")));
        catalogues.changed();
        assert!(!catalogues.shares(ANYBODY));
        catalogues.shared();
        assert!(catalogues.shares(ANYBODY));
        let private = page("mine", json!({"cacheScope": "private"}));
        learn(&mut catalogues, ANYBODY, Some(Catalogue::new(vec![private], 6)), 6);
        assert!(!catalogues.shares(ANYBODY));
    }

    #[test]
    fn a_tool_that_isnt_there_is_worth_another_question_now_and_then() {
        let mut catalogues = Catalogues::default();
        learn(&mut catalogues, ANYBODY, list("echo", 5), 5);
        assert!(catalogues.seek(ANYBODY, 6));
        learn(&mut catalogues, ANYBODY, list("echo", 7), 7);
        assert!(!catalogues.seek(ANYBODY, 5 + PAUSE) && catalogues.seek(ANYBODY, 6 + PAUSE));
    }

    #[test]
    fn clients_that_are_made_up_take_no_room() {
        let mut catalogues = Catalogues::default();
        learn(&mut catalogues, with_token("good", "a"), list("echo", 5), 5);
        for n in 0..MOST_CLIENTS {
            let (_, _) = catalogues.look(with_token(&n.to_string(), "a"), None, true, 6);
            assert!(catalogues.kept.len() <= MOST_CLIENTS);
        }
        assert!(knows(&mut catalogues, with_token("good", "a"), "echo", 6), "what can be used stays longest");
        for n in 0..10 {
            learn(&mut catalogues, with_token(&n.to_string(), "a"), list(&"x".repeat(LARGEST - 100), 7), 7);
            let all: usize = catalogues.kept.values().filter_map(|kept| kept.catalogue.as_ref()).map(|c| c.size).sum();
            assert!(all <= MOST_BYTES);
        }
    }
}
