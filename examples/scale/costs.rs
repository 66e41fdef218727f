//! What calls cost, what stays alive, what memory saves, and what the free plan carries.

use crate::loads::{self, Load};
use crate::plot;
use crate::prices::{storage_dollars_per_month, Usage};
use crate::setup::Setup;
use crate::table::{about, fine, percent, whole, Named, Table};
use crate::world::{run, Tally};
use sluice::limiter::policy::SECOND;

/// The tables of this kind, by their names in the page, and the plot.
pub fn tell() -> (Vec<Named>, String) {
    let loads = loads::all();
    let tallies: Vec<Tally> = loads.iter().map(|load| run(&load.setup)).collect();
    let bars: Vec<_> = loads
        .iter()
        .zip(&tallies)
        .map(|(load, tally)| (load.name, Usage::worker_dollars(), tally.usage.limiter_dollars()))
        .collect();
    let tables = vec![
        ("costs", costs(&loads, &tallies)),
        ("alive", alive(&loads, &tallies)),
        ("alarms", alarms(&loads)),
        ("memory", memory()),
        ("free", free(&loads)),
    ];
    (tables, plot::bars("Dollars for a million calls", ["the Worker", "the limiter"], &bars))
}

fn costs(loads: &[Load], tallies: &[Tally]) -> String {
    let mut table = Table::new(&[
        "a million calls",
        "run",
        "questions",
        "alarms",
        "counts",
        "rows read",
        "rows written",
        "GB-s",
        "limiter",
        "in all",
    ]);
    for (load, tally) in loads.iter().zip(tallies) {
        let usage = &tally.usage;
        let amounts = [usage.questions, usage.alarms, usage.counts, usage.rows_read, usage.rows_written];
        let limiter = usage.limiter_dollars();
        let mut cells = vec![load.name.to_owned(), percent(usage.per_call(tally.ran))];
        cells.extend(amounts.map(|amount| fine(usage.per_call(amount))));
        cells.push(whole(usage.gb_seconds_per_million()));
        cells.extend([limiter, limiter + Usage::worker_dollars()].map(|dollars| format!("${dollars:.2}")));
        table.row(cells);
    }
    table.text()
}

fn alive(loads: &[Load], tallies: &[Tally]) -> String {
    let mut table =
        Table::new(&["load", "callers", "calls/s", "objects in memory", "objects stored", "stored", "a month of it"]);
    for (load, tally) in loads.iter().zip(tallies) {
        let Setup { callers, until_s, count_from_s, .. } = load.setup;
        let seconds = (until_s - count_from_s) as f64;
        let mean_stored = tally.usage.stored_seconds / seconds;
        table.row([
            load.name.to_owned(),
            whole(callers as f64),
            whole(tally.usage.calls as f64 / seconds),
            whole(tally.most_in_memory as f64),
            whole(mean_stored),
            format!("{:.2} MB", mean_stored * crate::prices::STORED_GB_PER_OBJECT * 1e3),
            format!("${:.4}", storage_dollars_per_month(mean_stored)),
        ]);
    }
    table.text()
}

/// What it would save to have alarms go off later.
fn alarms(loads: &[Load]) -> String {
    let later = [0, 10, 30, 50];
    let mut headings = vec!["rows written for a call, and dollars for a million".to_owned()];
    headings.extend(later.map(|seconds| if seconds == 0 { "now".to_owned() } else { format!("{seconds} s later") }));
    let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    for index in [0, 1, 2, 6] {
        let mut cells = vec![loads[index].name.to_owned()];
        cells.extend(later.map(|seconds| {
            let usage = run(&Setup { alarm_later_us: seconds * SECOND, ..loads[index].setup.clone() }).usage;
            format!("{} · ${:.2}", fine(usage.per_call(usage.rows_written)), usage.limiter_dollars())
        }));
        table.row(cells);
    }
    table.text()
}

/// Questions that remembered debts save.
fn memory() -> String {
    let mut table =
        Table::new(&["questions for 1,000 calls", "nothing remembered", "1 isolate", "4 isolates", "16 isolates"]);
    for load in loads::loops() {
        let mut cells = vec![load.name.to_owned()];
        cells.extend([(false, 1), (true, 1), (true, 4), (true, 16)].map(|(remembers, isolates)| {
            let usage = run(&Setup { remembers, isolates, ..load.setup.clone() }).usage;
            whole(usage.per_call(usage.questions) * 1e3)
        }));
        table.row(cells);
    }
    table.text()
}

fn free(loads: &[Load]) -> String {
    let mut table = Table::new(&["load", "callers", "calls a day", "of which run", "used up first"]);
    for load in loads {
        let Some(callers) = load.few_callers else {
            continue;
        };
        // Six hours, so that the few that there are tell enough.
        let tally =
            run(&Setup { callers, isolates: 1, until_s: load.setup.count_from_s + 21_600, ..load.setup.clone() });
        let (calls, what) = tally.usage.free_calls();
        let run = calls * tally.usage.per_call(tally.ran);
        table.row([load.name.to_owned(), whole(callers as f64), about(calls), about(run), what.to_owned()]);
    }
    table.text()
}
