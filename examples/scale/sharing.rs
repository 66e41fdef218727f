//! A bucket that all callers share: what reaches its object, and what splitting it costs.

use crate::loads::{anonymous, config, crowd, shared};
use crate::plot::{self, Line};
use crate::setup::SharedMemory;
use crate::shards::{admitted, Choice};
use crate::table::{percent, whole, Named, Table};
use crate::world::run;
use sluice::limiter::policy::{Policy, SECOND, TOKEN};

/// A shared bucket that admits more than one object can answer.
const LARGE_PER_SECOND: u64 = 4_000;

const EVEN: Choice = Choice::HashedEven(100_000);
const SKEWED: Choice = Choice::HashedSkewed(1_000);

/// The tables of this kind, by their names in the page, and the plots, by their files.
pub fn tell() -> (Vec<Named>, [Named; 2]) {
    let tables = vec![("shared", ten_thousand()), ("window", few()), ("shards", too_early())];
    (tables, [("shared", questions_plot()), ("shards", shards_plot())])
}

/// Questions for each shared object, those that it couldn't answer, and calls that ran, all in a second.
fn at(every_us: u64, isolates: usize, shards: usize, memory: SharedMemory) -> [f64; 3] {
    let load = crowd("", every_us, isolates, Some(shared(anonymous(), shards, memory)));
    let tally = run(&load.setup);
    let seconds = (load.setup.until_s - load.setup.count_from_s) as f64;
    [
        tally.shared_questions as f64 / seconds / shards as f64,
        tally.shared_failures as f64 / seconds / shards as f64,
        tally.ran as f64 / seconds,
    ]
}

const HOLD: SharedMemory = SharedMemory::Hold(SECOND);

fn ten_thousand() -> String {
    let mut table =
        Table::new(&["10,000 calls/s, 100 tokens/s", "isolates", "questions/s and object", "not answered/s", "run/s"]);
    let ways = [
        ("asked by all", 1, SharedMemory::Nothing),
        ("its debt remembered", 1, SharedMemory::Debt),
        ("a refusal holds for 1 s", 1, HOLD),
        ("a window, which is built", 1, SharedMemory::Window),
        ("16 shards", 16, SharedMemory::Nothing),
        ("16 shards, their debts remembered", 16, SharedMemory::Debt),
    ];
    for (name, shards, memory) in ways {
        for isolates in [1, 16, 300] {
            let mut cells = vec![name.to_owned(), isolates.to_string()];
            cells.extend(at(100, isolates, shards, memory).map(whole));
            table.row(cells);
        }
    }
    table.text()
}

/// What a window costs where no crowd is.
fn few() -> String {
    let loads = [80, 95, 100, 120, 200, 1_000];
    let mut table =
        Table::new(&["run/s, of 100 tokens/s", "isolates", "80 calls/s", "95", "100", "120", "200", "1,000"]);
    for (name, memory) in [("without a window", SharedMemory::Nothing), ("with one", SharedMemory::Window)] {
        for isolates in [1, 16] {
            let mut cells = vec![name.to_owned(), isolates.to_string()];
            cells.extend(loads.map(|load| whole(at(1_000_000 / load, isolates, 1, memory)[2])));
            table.row(cells);
        }
    }
    table.text()
}

fn large() -> Policy {
    Policy::new(2 * LARGE_PER_SECOND * TOKEN, LARGE_PER_SECOND * TOKEN).expect("a possible policy")
}

/// The default shared bucket, if each of 16 shards had room for a caller's whole burst.
fn roomy() -> Policy {
    let burst = config().limits.bucket.expect("callers have buckets").capacity();
    Policy::new(16 * burst, anonymous().refill()).expect("a possible policy")
}

/// What shards refuse of a load that one bucket admits. They can be ahead in a minute, since they were behind before it.
fn lost(whole: Policy, shards: usize, choice: Choice, load: u64) -> f64 {
    (admitted(whole, 1, choice, load) - admitted(whole, shards, choice, load)).max(0.0)
}

fn too_early() -> String {
    let loads = [80, 95, 100, 120, 0];
    let mut table =
        Table::new(&["refused that one bucket admits", "shards", "load 80 %", "95 %", "100 %", "120 %", "all at once"]);
    let ways = [
        ("4,000/s, any shard for each call", large(), Choice::Random),
        ("4,000/s, by caller, even", large(), EVEN),
        ("4,000/s, by caller, skewed", large(), SKEWED),
        ("100/s that holds 200, by caller, even", anonymous(), EVEN),
        ("100/s that holds 480, by caller, even", roomy(), EVEN),
    ];
    for (name, policy, choice) in ways {
        for shards in [4, 16] {
            let mut cells = vec![name.to_owned(), shards.to_string()];
            cells.extend(loads.map(|load| percent(lost(policy, shards, choice, load))));
            table.row(cells);
        }
    }
    table.text()
}

fn questions_plot() -> String {
    let line = |name, shards, isolates, memory| {
        let points = [10_000, 4_000, 1_000, 400, 100, 40, 10];
        let points = points.map(|every_us| (1e6 / every_us as f64, at(every_us, isolates, shards, memory)[0]));
        Line { name, points: points.to_vec() }
    };
    let lines = [
        line("without a window", 1, 16, SharedMemory::Nothing),
        line("with a window, 16 isolates", 1, 16, SharedMemory::Window),
        line("with a window, 300 isolates", 1, 300, SharedMemory::Window),
        line("each of 16 shards", 16, 16, SharedMemory::Nothing),
    ];
    plot::log_lines("Questions/s to a shared object of 100 tokens/s, by calls/s", 1_000.0, &lines)
}

fn shards_plot() -> String {
    let line = |name, policy, shards, choice| {
        let points = (70..=130).step_by(5).map(|load| (load as f64, lost(policy, shards, choice, load) * 100.0));
        Line { name, points: points.collect() }
    };
    let lines = [
        line("4,000/s, 16 shards by caller, skewed", large(), 16, SKEWED),
        line("100/s that holds 480, 16 shards by caller, even", roomy(), 16, EVEN),
        line("4,000/s, 16 shards by caller, even", large(), 16, EVEN),
        line("4,000/s, 16 shards, any", large(), 16, Choice::Random),
    ];
    plot::lines("Percent refused that one bucket admits, by load in percent of the rate", &lines)
}
