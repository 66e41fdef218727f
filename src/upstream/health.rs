//! How servers are doing: one that asked one of its users for a pause is left alone for as long.

use super::credential::Credential;
use std::collections::HashMap;

/// The most pauses that are kept. Only one that is over is forgotten to make room; when none is, no more are kept.
const MOST: usize = 10_000;

/// The pauses that were asked for, in one isolate.
#[derive(Debug, Default)]
pub struct Health {
    closed: HashMap<(String, Credential), u64>,
}

impl Health {
    /// How long a request to `origin` with these credentials has to wait at `now`, in microseconds; None when it needn't.
    pub fn closed_for(&self, origin: &str, credential: Credential, now: u64) -> Option<u64> {
        let until = *self.closed.get(&(origin.to_owned(), credential))?;
        Some(until.saturating_sub(now)).filter(|wait| *wait > 0)
    }

    /// The same, where whoever asks was told itself to wait until `own`: a pause that ends by then is none of another's.
    pub fn closed_beyond(&self, own: u64, origin: &str, credential: Credential, now: u64) -> Option<u64> {
        self.closed_for(origin, credential, now).filter(|wait| now.saturating_add(*wait) > own)
    }

    /// A pause of so many microseconds was asked for at `now`. One that lasts longer stays.
    pub fn close(&mut self, origin: &str, credential: Credential, pause: u64, now: u64) {
        let key = (origin.to_owned(), credential);
        if self.closed.len() >= MOST && !self.closed.contains_key(&key) {
            self.closed.retain(|_, until| *until > now);
            if self.closed.len() >= MOST {
                return;
            }
        }
        let until = self.closed.entry(key).or_default();
        *until = now.saturating_add(pause).max(*until);
    }

    /// It answered again.
    pub fn open(&mut self, origin: &str, credential: Credential) {
        self.closed.remove(&(origin.to_owned(), credential));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::SECOND;

    const AT: &str = "https://behind.example";

    fn of(user: usize) -> Credential {
        Credential::of(&[("authorization".to_owned(), user.to_string())])
    }

    #[test]
    fn a_pause_is_for_whoever_was_asked_and_ends() {
        let mut health = Health::default();
        health.close(AT, of(1), 7 * SECOND, 100);
        assert_eq!(health.closed_for(AT, of(1), 100), Some(7 * SECOND));
        assert_eq!(health.closed_for(AT, of(1), 7 * SECOND + 99), Some(1));
        assert_eq!(health.closed_for(AT, of(1), 7 * SECOND + 100), None);
        assert_eq!(health.closed_for(AT, of(2), 100), None);
        assert_eq!(health.closed_for(AT, Credential::NONE, 100), None);
        assert_eq!(health.closed_for("https://another.example", of(1), 100), None);
    }

    #[test]
    fn the_longer_of_two_pauses_holds_until_it_answers() {
        let mut health = Health::default();
        health.close(AT, of(1), 7 * SECOND, 0);
        health.close(AT, of(1), SECOND, SECOND);
        assert_eq!(health.closed_for(AT, of(1), SECOND), Some(6 * SECOND));
        health.open(AT, of(1));
        assert_eq!(health.closed_for(AT, of(1), SECOND), None);
    }

    #[test]
    fn a_pause_of_ones_own_is_told_from_a_longer_one_of_anothers() {
        let mut health = Health::default();
        health.close(AT, of(1), 5 * SECOND, 100);
        let beyond = |health: &Health| health.closed_beyond(5 * SECOND + 100, AT, of(1), SECOND);
        assert_eq!(beyond(&health), None);
        health.close(AT, of(1), 5 * SECOND, 101);
        assert_eq!(beyond(&health), Some(4 * SECOND + 101));
    }

    #[test]
    fn only_what_is_over_makes_room() {
        let mut health = Health::default();
        (0..MOST).for_each(|user| health.close(AT, of(user), SECOND, 0));
        health.close(AT, of(MOST), SECOND, SECOND - 1);
        assert_eq!(health.closed_for(AT, of(MOST), SECOND - 1), None, "there is no room");
        health.close(AT, of(0), 2 * SECOND, SECOND - 1);
        assert!(health.closed_for(AT, of(0), SECOND).is_some(), "for one that is there, there is");
        health.close(AT, of(MOST), SECOND, SECOND);
        assert_eq!(health.closed.len(), 2);
    }
}
