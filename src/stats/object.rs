//! The Durable Object that adds all counts up. One row; a message is added, an empty one only asks.

use super::counts::Counts;
use crate::platform::step::{self, Step};

/// The binding of this object, and the name of the only one.
pub const BINDING: &str = "CALL_STATS";
/// See [`BINDING`].
pub const NAME: &str = "all";

/// Adds the counts in a message, and answers with the sum of everything that all isolates counted.
pub fn step(message: &str, row: Option<&str>) -> Result<Step, String> {
    let more: Counts = serde_json::from_str(message).map_err(|_| "the counts can't be read")?;
    // After a row that can't be read counting goes on from nothing, as after a counter's restart.
    let (mut sum, unreadable) = match step::read::<Counts>(row) {
        Ok(sum) => (sum.unwrap_or_default(), None),
        Err(cause) => (Counts::default(), Some(cause)),
    };
    let is_asked = more.is_empty();
    sum.merge(more);
    let told = Step { unreadable, ..Step::answering(&sum)? };
    if is_asked {
        return Ok(told);
    }
    told.writing(&sum, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::step::Stored;

    fn counted() -> String {
        let mut counts = Counts::default();
        counts.ran("echo", false);
        serde_json::to_string(&counts).unwrap()
    }

    #[test]
    fn counts_are_added_up_and_an_empty_message_only_asks() {
        let Stored::Written(once, None) = step(&counted(), None).unwrap().stored else { panic!("not written") };
        let twice = step(&counted(), Some(&once)).unwrap();
        let asked = step("{}", Some(&once)).unwrap();
        assert_eq!((asked.stored, asked.answer), (Stored::Kept, once.clone()));
        assert_ne!(twice.answer, once);
        assert!(step("[", Some(&once)).is_err());
    }

    #[test]
    fn after_a_row_that_cant_be_read_counting_goes_on_from_nothing() {
        let anew = step(&counted(), Some("{")).unwrap();
        assert_eq!((anew.answer == step(&counted(), None).unwrap().answer, anew.unreadable.is_some()), (true, true));
    }
}
