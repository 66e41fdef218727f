//! What Sluice costs and how far it goes, by simulation: the figures of `docs/scale.md` and its plots.
//!
//!   cargo run --release --example scale                prints the tables
//!   cargo run --release --example scale -- --write     writes them into the page, and the plots beside it
//!   cargo run --release --example scale -- --check     fails when the page or a plot says otherwise
//!
//! What is decided is decided by the code of `src/limiter/`; what is simulated is callers, isolates, time and prices.

// Nobody's request depends on this program.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice
)]

mod costs;
mod isolate;
mod loads;
mod object;
mod plot;
mod prices;
mod random;
mod setup;
mod shards;
mod sharing;
mod table;
mod traffic;
mod world;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use table::Named;

fn main() -> ExitCode {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let (mut tables, cost_plot) = costs::tell();
    let (more, plots) = sharing::tell();
    tables.extend(more);
    for (name, table) in &tables {
        println!("{name}\n\n{table}");
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let page = docs.join("scale.md");
    let mut files = vec![(page.clone(), filled(fs::read_to_string(&page).expect("the page can be read"), &tables))];
    for (name, plot) in [("cost", cost_plot)].into_iter().chain(plots) {
        files.push((docs.join("scale").join(name).with_extension("svg"), plot));
    }
    let mut differs = false;
    for (path, text) in files {
        match mode.as_str() {
            "--write" => {
                fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder can be made");
                fs::write(&path, text).expect("the file can be written");
            }
            "--check" if fs::read_to_string(&path).ok() != Some(text) => {
                eprintln!("{} says otherwise. (--write)", path.display());
                differs = true;
            }
            _ => {}
        }
    }
    if differs {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// The page with each table between its marks.
fn filled(mut page: String, tables: &[Named]) -> String {
    const END: &str = "<!-- scale:end -->";
    for (name, table) in tables {
        let mark = format!("<!-- scale:begin {name} -->\n");
        let begin = page.find(&mark).unwrap_or_else(|| panic!("the page has no place for {name}")) + mark.len();
        let end = begin + page[begin..].find(END).unwrap_or_else(|| panic!("the place for {name} has no end"));
        page.replace_range(begin..end, &format!("\n{table}\n"));
    }
    page
}
