//! What is simulated: who calls, and what stands in the way.

use crate::traffic::Shape;
use sluice::limiter::policy::Policy;

/// What is simulated.
#[derive(Clone)]
pub struct Setup {
    pub shape: Shape,
    pub callers: usize,
    pub isolates: usize,
    /// Each caller's bucket.
    pub own: Policy,
    pub shared: Option<SharedBucket>,
    /// Whether callers' debts are remembered.
    pub remembers: bool,
    /// How much later than all is at rest an alarm is set.
    pub alarm_later_us: u64,
    /// POSTs of one address that the flood gate lets through in a minute.
    pub gate_per_minute: Option<u64>,
    /// What happens before isn't counted.
    pub count_from_s: u64,
    pub until_s: u64,
}

/// A bucket that all callers share.
#[derive(Clone)]
pub struct SharedBucket {
    /// Of each shard.
    pub policy: Policy,
    pub shards: usize,
    pub names: Vec<String>,
    pub memory: SharedMemory,
}

/// What an isolate remembers of it.
#[derive(Clone, Copy)]
pub enum SharedMemory {
    /// Nothing.
    Nothing,
    /// Its debt, in the same way as a caller's.
    Debt,
    /// That it refused: for so long it isn't asked again.
    Hold(u64),
    /// That it refused: no more is asked at once than it can answer.
    Window,
}
