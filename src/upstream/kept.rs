//! The catalogue of one client, and when it is asked for.

use super::catalogue::Catalogue;
use crate::limiter::policy::SECOND;
use std::mem::take;
use std::rc::Rc;

/// For how long nobody asks again for a list that couldn't be had or didn't have a tool, in microseconds.
pub const PAUSE: u64 = 10 * SECOND;

/// After how long an asking counts as lost, in microseconds: whatever happened to the request that did it, the next one asks.
pub const LOST_AFTER: u64 = 15 * SECOND;

/// However often the list changes, it is asked for once in so many microseconds.
pub const EVERY: u64 = SECOND;

/// What a look at the catalogues came to.
pub enum Look {
    /// This is the one.
    Known(Rc<Catalogue>),
    /// It is being asked for: look again.
    Wait,
    /// It can't be had.
    Unknown,
}

/// What is kept for one client.
#[derive(Default)]
pub struct Kept {
    /// Its catalogue.
    pub catalogue: Option<Rc<Catalogue>>,
    /// Since when it is being asked for.
    pub asking: Option<u64>,
    /// When that last failed.
    pub failed: Option<u64>,
    /// When it was last asked for since a tool wasn't in it.
    sought: Option<u64>,
    /// Whether the server has said that it has changed, and it wasn't asked for since then.
    pub has_changed: bool,
    /// When it was last asked for since it had changed.
    renewed: Option<u64>,
}

impl Kept {
    /// Looks at it at `now`, as [`Catalogues::look`] does.
    ///
    /// [`Catalogues::look`]: super::catalogues::Catalogues::look
    pub fn look(&mut self, since: Option<u64>, may_ask: bool, now: u64) -> (bool, Look) {
        if let Some(catalogue) = &self.catalogue {
            // Who waited for it takes it whatever it says of its age.
            let fits = since.map_or_else(|| catalogue.is_good(now), |since| catalogue.learnt >= since);
            if fits {
                return (false, Look::Known(Rc::clone(catalogue)));
            }
        }
        if lately(self.asking, LOST_AFTER, now) {
            return (false, Look::Wait);
        }
        if lately(self.failed, PAUSE, now) || !may_ask {
            return (false, Look::Unknown);
        }
        if self.has_changed && lately(self.renewed, EVERY, now) {
            return (false, Look::Wait);
        }
        if take(&mut self.has_changed) {
            self.renewed = Some(now);
        }
        self.asking = Some(now);
        (true, Look::Wait)
    }

    /// Whether a tool that isn't in it is worth asking for a newer one at `now`.
    pub fn seek(&mut self, now: u64) -> bool {
        let seek = !lately(self.sought, PAUSE, now);
        if seek {
            self.sought = Some(now);
        }
        seek
    }
}

/// Whether `at` was less than so many microseconds before `now`.
fn lately(at: Option<u64>, span: u64, now: u64) -> bool {
    at.is_some_and(|at| at <= now && now < at.saturating_add(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spans_are_those_that_are_documented() {
        assert_eq!([PAUSE, LOST_AFTER, EVERY], [10_000_000, 15_000_000, 1_000_000]);
    }
}
