//! Who calls when.

use crate::random::Random;
use sluice::limiter::policy::SECOND;

/// A way of calling.
#[derive(Clone, Copy)]
pub enum Shape {
    /// A call about each so many microseconds, by each caller.
    Steady { every_us: u64 },
    /// A person's model at work: some calls in a row, then a pause.
    Bursts { calls: u64, gap_us: u64, pause_us: u64 },
    /// A loop that reads no answer.
    Loop { every_us: u64 },
    /// A loop that calls again so long after each answer, but waits as long as it is told.
    Obedient { every_us: u64 },
    /// A call each so many microseconds, by anyone of the callers.
    Crowd { every_us: u64 },
}

impl Shape {
    /// When a caller first calls; None when it doesn't begin by itself.
    pub fn first(self, caller: usize, random: &mut Random) -> Option<u64> {
        match self {
            Self::Steady { every_us } | Self::Loop { every_us } | Self::Obedient { every_us } => {
                Some(random.below(every_us))
            }
            Self::Bursts { pause_us, .. } => Some(random.below(pause_us)),
            Self::Crowd { every_us } => (caller == 0).then_some(every_us),
        }
    }

    /// After how long the next call comes, when `made` were made in this row so far, and whether that ends the row; None
    /// when it takes an answer first.
    pub fn next(self, made: u64, random: &mut Random) -> Option<(u64, bool)> {
        match self {
            Self::Steady { every_us } => Some((random.around(every_us), false)),
            Self::Loop { every_us } | Self::Crowd { every_us } => Some((every_us, false)),
            Self::Bursts { calls, gap_us, .. } if made < calls => Some((random.around(gap_us), false)),
            Self::Bursts { pause_us, .. } => Some((random.around(pause_us), true)),
            Self::Obedient { .. } => None,
        }
    }

    /// After how long a caller calls again that was answered: it ran, or it was told to wait.
    pub fn after_answer(self, wait_us: Option<u64>) -> Option<u64> {
        let Self::Obedient { every_us } = self else {
            return None;
        };
        // The model reads whole seconds, rounded up.
        Some(wait_us.map_or(every_us, |us| us.div_ceil(SECOND).max(1) * SECOND))
    }
}
