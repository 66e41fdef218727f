//! How many questions to a bucket that many callers share an isolate has on the way, at the most.
//!
//! One object answers about a thousand questions a second. A crowd asks more than that, and most of it for nothing: nearly all are
//! refused. So once the bucket refuses, an isolate asks it as TCP sends after a loss (RFC 5681): one question at a time, one more for
//! each that is admitted, half as many when one is refused or comes too late. Who would be one too many isn't asked for.
//! Nothing is admitted here, so nothing is added to what the bucket gives; in a crowd a call may be refused that it had room for.

use super::answer::Answer;
use super::policy::{SECOND, TOKEN};
use super::question::Question;

/// For how long a refusal narrows the window, in microseconds. While a crowd goes on the next one comes sooner.
const NARROW_FOR: u64 = SECOND;

/// After how long a question isn't on the way any more, in microseconds: longer than any deadline, so whoever asked was cut off.
const LOST_AFTER: u64 = 120 * SECOND;

/// The questions of one isolate to one bucket.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// When each was sent that is on the way, in microseconds.
    on_the_way: Vec<u64>,
    /// How many there may be; while nothing was refused, any number.
    most: Option<usize>,
    /// The last time that one was refused, or came too late.
    narrowed_at: u64,
    /// Whether the last one that came did so too late.
    is_late: bool,
}

/// Whether one more question may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// It is on the way.
    Sent,
    /// It would be one too many for a bucket that has nothing left.
    Refused,
    /// It would be one too many for an object that doesn't answer in time.
    Late,
}

/// What came of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// It was admitted.
    Admitted,
    /// The bucket refused it, and has no room for any other either.
    Refused,
    /// It was refused, but that says nothing of others: it asked for much, or another limit of the object's refused it.
    Alone,
    /// The object has more to do than it can.
    Overloaded,
    /// It is broken: nobody is refused by its bucket then, and what happens instead isn't decided here.
    Failed,
}

impl Came {
    /// What an answer to `asked` says of others that ask. Whoever calls once costs a token, or more.
    pub fn of(answer: &Answer, asked: &Question) -> Self {
        let has_room = answer.debt.saturating_add(TOKEN) <= asked.capacity;
        match answer.admitted {
            true => Self::Admitted,
            false if answer.by.is_some() || has_room => Self::Alone,
            false => Self::Refused,
        }
    }
}

impl Window {
    /// Sends a question at `now` (microseconds), if there is room for one more.
    pub fn send(&mut self, now: u64) -> Sending {
        if !is_within(NARROW_FOR, self.narrowed_at, now) {
            self.most = None;
        }
        self.on_the_way.retain(|sent| is_within(LOST_AFTER, *sent, now));
        let has_room = self.most.is_none_or(|most| self.on_the_way.len() < most);
        match (has_room, self.is_late) {
            (true, _) => {
                self.on_the_way.push(now);
                Sending::Sent
            }
            (false, false) => Sending::Refused,
            (false, true) => Sending::Late,
        }
    }

    /// Hears what came, at `now`, of a question that was sent at `sent`.
    pub fn hear(&mut self, sent: u64, came: Came, now: u64) {
        if let Some(place) = self.on_the_way.iter().position(|other| *other == sent) {
            self.on_the_way.swap_remove(place);
        }
        self.most = match (came, self.most) {
            (Came::Alone, most) => most,
            (Came::Admitted, most) => most.map(|most| most.saturating_add(1)),
            (Came::Failed, _) | (Came::Overloaded, None) => None,
            (Came::Refused, None) => Some(1),
            (Came::Refused | Came::Overloaded, Some(most)) => Some((most / 2).max(1)),
        };
        if matches!(came, Came::Refused | Came::Overloaded) {
            self.narrowed_at = now;
        }
        self.is_late = came == Came::Overloaded;
    }
}

/// A clock that went back is past everything.
fn is_within(span: u64, since: u64, now: u64) -> bool {
    since <= now && now < since.saturating_add(span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::answer::{By, Kind};
    use crate::limiter::policy::Policy;

    const NOW: u64 = 1_796_000_000 * SECOND;

    /// One that a refusal has just narrowed, with nothing on the way.
    fn narrow() -> Window {
        let mut window = Window::default();
        window.send(NOW);
        window.hear(NOW, Came::Refused, NOW);
        window
    }

    fn sent(window: &mut Window, at: u64, count: usize) -> usize {
        (0..count).filter(|_| window.send(at) == Sending::Sent).count()
    }

    #[test]
    fn any_number_is_asked_until_one_is_refused_and_then_one_at_a_time() {
        let mut window = Window::default();
        assert_eq!(sent(&mut window, NOW, 500), 500);
        window.hear(NOW, Came::Admitted, NOW + 1);
        assert_eq!(sent(&mut window, NOW + 1, 1), 1);
        (0..499).for_each(|_| window.hear(NOW, Came::Refused, NOW + 2));
        assert_eq!(sent(&mut window, NOW + 2, 10), 0, "one is still on the way");
        window.hear(NOW + 1, Came::Refused, NOW + 3);
        assert_eq!(sent(&mut window, NOW + 3, 10), 1);
    }

    #[test]
    fn each_that_is_admitted_makes_room_for_one_more_and_a_refusal_halves_it() {
        let mut window = narrow();
        for round in 0..7 {
            assert_eq!(window.send(NOW + round), Sending::Sent);
            window.hear(NOW + round, Came::Admitted, NOW + round);
        }
        let mut halved = window.clone();
        halved.send(NOW + 9);
        halved.hear(NOW + 9, Came::Refused, NOW + 9);
        assert_eq!(sent(&mut halved, NOW + 10, 20), 4);
        assert_eq!(sent(&mut window, NOW + 10, 20), 8);
        window.hear(NOW + 10, Came::Overloaded, NOW + 11);
        assert_eq!(sent(&mut window, NOW + 11, 20), 0, "seven are on the way, and four may be");
        (0..7).for_each(|_| window.hear(NOW + 10, Came::Refused, NOW + 12));
        assert_eq!(sent(&mut window, NOW + 12, 20), 1, "but never none");
    }

    #[test]
    fn a_second_after_the_last_refusal_all_is_as_before() {
        let mut window = narrow();
        assert_eq!(sent(&mut window, NOW + NARROW_FOR - 1, 10), 1);
        assert_eq!(sent(&mut window, NOW + NARROW_FOR, 10), 10);
        // A clock that went back makes it wide, and never narrow for good.
        window.hear(NOW + NARROW_FOR, Came::Refused, NOW + NARROW_FOR);
        assert_eq!(sent(&mut window, NOW, 10), 10);
    }

    #[test]
    fn a_question_that_was_cut_off_takes_no_room_for_good() {
        let mut window = Window::default();
        assert_eq!(sent(&mut window, NOW, 3), 3);
        let longest_deadline = NOW + 60 * SECOND;
        window.hear(NOW, Came::Refused, longest_deadline);
        assert_eq!(window.send(longest_deadline), Sending::Refused, "two are on the way");
        let later = NOW + LOST_AFTER - 1;
        window.hear(NOW, Came::Refused, later);
        assert_eq!(window.send(later), Sending::Refused, "one is");
        assert_eq!(window.send(NOW + LOST_AFTER), Sending::Sent, "and not any more");
    }

    #[test]
    fn only_the_bucket_narrows() {
        for came in [Came::Alone, Came::Overloaded, Came::Failed] {
            let mut window = Window::default();
            window.send(NOW);
            window.hear(NOW, came, NOW);
            assert_eq!(sent(&mut window, NOW, 10), 10, "{came:?}");
        }
        let mut window = narrow();
        window.send(NOW);
        window.hear(NOW, Came::Alone, NOW);
        assert_eq!(sent(&mut window, NOW, 10), 1, "and nothing else widens it");
        assert_eq!(sent(&mut window, NOW + NARROW_FOR, 10), 10, "nor keeps it narrow");
    }

    #[test]
    fn a_refusal_says_something_of_others_when_the_bucket_has_no_token_left() {
        let asked = |tokens| Question::new(Policy::new(30 * TOKEN, TOKEN).unwrap(), tokens * TOKEN);
        let answer = |admitted, debt| Answer { admitted, debt, ..Answer::default() };
        assert_eq!(Came::of(&answer(true, 30 * TOKEN), &asked(1)), Came::Admitted);
        assert_eq!(Came::of(&answer(false, 30 * TOKEN), &asked(1)), Came::Refused);
        assert_eq!(Came::of(&answer(false, 29 * TOKEN + 1), &asked(30)), Came::Refused);
        assert_eq!(Came::of(&answer(false, 29 * TOKEN), &asked(30)), Came::Alone, "a batch, where a call has room");
        let by = Some(By { kind: Kind::Quota, tool: "echo".to_owned() });
        assert_eq!(Came::of(&Answer { by, ..answer(false, 30 * TOKEN) }, &asked(1)), Came::Alone);
    }

    // MCP_FAIL decides for those that it can't answer, and for those that aren't asked for because of that.
    #[test]
    fn an_object_that_is_late_refuses_nobody() {
        let mut window = narrow();
        window.send(NOW);
        window.hear(NOW, Came::Overloaded, NOW + 1);
        assert_eq!(window.send(NOW + 1), Sending::Sent);
        assert_eq!(window.send(NOW + 1), Sending::Late);
        window.hear(NOW + 1, Came::Refused, NOW + 2);
        window.send(NOW + 2);
        assert_eq!(window.send(NOW + 2), Sending::Refused);
    }

    // MCP_FAIL decides for all of them then.
    #[test]
    fn all_ask_an_object_that_breaks_in_the_middle_of_a_crowd() {
        let mut window = narrow();
        window.send(NOW);
        window.hear(NOW, Came::Failed, NOW);
        assert_eq!(sent(&mut window, NOW, 10), 10);
    }
}
