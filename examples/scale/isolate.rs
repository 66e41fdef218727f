//! One isolate of the Worker: what it remembers, and what it has counted.

use crate::setup::{Setup, SharedMemory};
use sluice::limiter::answer::Answer;
use sluice::limiter::memory::{Heard, Insured, Memory};
use sluice::limiter::policy::{Policy, SECOND, TOKEN};
use sluice::limiter::question::Question;
use sluice::limiter::window::{Came, Sending, Window};

/// An isolate.
#[derive(Default)]
pub struct Isolate {
    memory: Memory,
    /// Until when each shared object isn't asked.
    held: Vec<u64>,
    /// What is on the way to each.
    windows: Vec<Window>,
    /// When the counts that gather now are sent.
    counts_sent_at: u64,
}

impl Isolate {
    /// One that has just begun.
    pub fn new(setup: &Setup) -> Self {
        let shards = setup.shared.as_ref().map_or(0, |shared| shared.shards);
        Self { held: vec![0; shards], windows: vec![Window::default(); shards], ..Self::default() }
    }

    /// Whether a remembered debt refuses, and for how long.
    pub fn refuses(&self, name: &str, policy: Policy, cost: u64, now: u64) -> Option<u64> {
        self.memory.refuses(name, policy, cost, 1, now).map(|remembered| remembered.wait)
    }

    /// Remembers what an object told.
    pub fn hear(&mut self, name: &str, answer: &Answer, (sent, received): (u64, u64), policy: Policy) {
        let heard = Heard { owed: answer.debt, sent, received, calls_left: u64::MAX };
        self.memory.hear(name, heard, policy);
    }

    /// Decides where an object couldn't: how long to wait, or None when the call runs.
    pub fn insure(&mut self, name: &str, policy: Policy, cost: u64, now: u64) -> Option<u64> {
        match self.memory.insure(name, policy, cost, now) {
            Insured::Admitted => None,
            Insured::Refused(wait) => Some(wait),
            Insured::NoRoom => Some(5 * SECOND),
        }
    }

    /// What it rules for this shared object without asking it: how long to wait, or None within when the call may go on. None when the
    /// object is asked.
    pub fn rules_shared(&mut self, setup: &Setup, shard: usize, cost: u64, now: u64) -> Option<Option<u64>> {
        let shared = setup.shared.as_ref()?;
        match shared.memory {
            SharedMemory::Nothing => None,
            SharedMemory::Debt => self.refuses(&shared.names[shard], shared.policy, cost, now).map(Some),
            SharedMemory::Hold(_) => self.held[shard].checked_sub(now).filter(|wait| *wait > 0).map(Some),
            SharedMemory::Window => match self.windows[shard].send(now) {
                Sending::Sent => None,
                Sending::Refused => Some(Some(Answer::of_empty_bucket(&Question::new(shared.policy, cost), now).wait)),
                Sending::Late => Some(self.insure(&shared.names[shard], shared.policy, cost, now)),
            },
        }
    }

    /// Remembers what a shared object told, as far as it does.
    pub fn hear_shared(&mut self, setup: &Setup, shard: usize, answer: &Answer, (sent, received): (u64, u64)) {
        let Some(shared) = setup.shared.as_ref() else {
            return;
        };
        match shared.memory {
            SharedMemory::Nothing => {}
            SharedMemory::Debt => self.hear(&shared.names[shard], answer, (sent, received), shared.policy),
            SharedMemory::Hold(us) if !answer.admitted => self.held[shard] = received + answer.wait.max(us),
            SharedMemory::Hold(_) => {}
            SharedMemory::Window => {
                let came = Came::of(answer, &Question::new(shared.policy, TOKEN));
                self.windows[shard].hear(sent, came, received);
            }
        }
    }

    /// Remembers that a shared object couldn't answer, if that is what is done after refusals.
    pub fn hear_nothing(&mut self, setup: &Setup, shard: usize, (sent, now): (u64, u64)) {
        match setup.shared.as_ref().map(|shared| shared.memory) {
            Some(SharedMemory::Hold(us)) => self.held[shard] = now + us,
            Some(SharedMemory::Window) => self.windows[shard].hear(sent, Came::Overloaded, now),
            _ => {}
        }
    }

    /// Counts something, and tells whether that has to be sent.
    pub fn count(&mut self, now: u64) -> bool {
        let plans = now >= self.counts_sent_at;
        if plans {
            self.counts_sent_at = now + SECOND;
        }
        plans
    }
}
