//! The loads that are told of, under the numbers that hold by default.

use crate::setup::{Setup, SharedBucket, SharedMemory};
use crate::traffic::Shape;
use sluice::config::Config;
use sluice::limiter::policy::Policy;
use sluice::limiter::shards::share;

const MS: u64 = 1_000;
const S: u64 = 1_000 * MS;

/// What the flood gate of `wrangler.toml` lets through.
const GATE_PER_MINUTE: u64 = 6_000;

/// A load, by its name in tables.
pub struct Load {
    pub name: &'static str,
    pub setup: Setup,
    /// The same with so few callers that the free plan might carry it.
    pub few_callers: Option<usize>,
}

/// The default configuration.
pub fn config() -> Config {
    sluice::config::parse(&serde_json::Map::new(), &[]).expect("nothing set is a good configuration")
}

/// Each caller's bucket.
fn own() -> Policy {
    config().limits.bucket.expect("callers have buckets")
}

/// The bucket of all anonymous callers.
pub fn anonymous() -> Policy {
    config().anonymous_bucket.expect("anonymous callers share a bucket")
}

fn load(name: &'static str, shape: Shape, callers: usize, (count_from_s, until_s): (u64, u64)) -> Load {
    let setup = Setup {
        shape,
        callers,
        isolates: 4,
        own: own(),
        shared: None,
        remembers: true,
        alarm_later_us: 0,
        gate_per_minute: Some(GATE_PER_MINUTE),
        count_from_s,
        until_s,
    };
    Load { name, setup, few_callers: None }
}

/// All of them.
pub fn all() -> Vec<Load> {
    let bursts = Shape::Bursts { calls: 8, gap_us: 2 * S, pause_us: 300 * S };
    let flood = load("one address, 1,000 calls/s", Shape::Loop { every_us: MS }, 1, (120, 720));
    let ungated = Setup { gate_per_minute: None, ..flood.setup.clone() };
    vec![
        Load {
            few_callers: Some(3),
            ..load("steady: a call each 10 s", Shape::Steady { every_us: 10 * S }, 1_000, (120, 1_320))
        },
        Load { few_callers: Some(10), ..load("bursts: 8 calls in 16 s, then 5 min", bursts, 1_000, (600, 4_200)) },
        Load {
            few_callers: Some(1),
            ..load("loops that wait as they are told", Shape::Obedient { every_us: 200 * MS }, 100, (120, 1_320))
        },
        Load {
            few_callers: Some(1),
            ..load("loops that don't, 5 calls/s each", Shape::Loop { every_us: 200 * MS }, 100, (120, 720))
        },
        flood,
        Load { name: "the same without the flood gate", setup: ungated, few_callers: None },
        crowd("100,000 addresses, 10,000 calls/s", 100, 16, None),
        crowd("the same, sharing 100 tokens/s", 100, 16, Some(shared(anonymous(), 1, SharedMemory::Window))),
    ]
}

/// A call of anyone of 100,000 addresses, each so many microseconds.
pub fn crowd(name: &'static str, every_us: u64, isolates: usize, shared: Option<SharedBucket>) -> Load {
    let span = if shared.is_some() { (10, 25) } else { (60, 120) };
    let load = load(name, Shape::Crowd { every_us }, 100_000, span);
    let setup = Setup { isolates, shared, ..load.setup };
    Load { setup, ..load }
}

/// A shared bucket in so many shards.
pub fn shared(whole: Policy, shards: usize, memory: SharedMemory) -> SharedBucket {
    let names = (0..shards).map(|shard| format!("anonymous:{shard}")).collect();
    SharedBucket { policy: share(whole, shards as u64), shards, names, memory }
}

/// Loops that one object, or as many as an isolate can't remember, have to bear; without a flood gate.
pub fn loops() -> Vec<Load> {
    let one = |name, every_us| load(name, Shape::Loop { every_us }, 1, (120, 240));
    let mut loops = vec![
        one("a loop, 5 calls/s", 200 * MS),
        one("a loop, 100 calls/s", 10 * MS),
        one("a loop, 1,000 calls/s", MS),
        load("20,000 loops, 1 call/s each", Shape::Loop { every_us: S }, 20_000, (80, 100)),
    ];
    for load in &mut loops {
        load.setup.gate_per_minute = None;
    }
    loops
}
