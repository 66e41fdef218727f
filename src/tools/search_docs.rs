//! `search_docs`: the sections of the documents in which the most words of a query stand.

use super::documents::{Document, DECISIONS, DOCS};
use super::{schema_of, Call, Running, Standing, Tool};
use crate::mcp::tool_result::ToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

pub const TOOL: Tool = Tool {
    name: "search_docs",
    title: "Search the documents",
    description: "Searches the project's documents and decisions for words, and returns the sections that fit best.",
    cost: 2,
    needs_allowance: false,
    needs_capability: None,
    read_only: true,
    input: schema_of::<Arguments>,
    output: Some(schema_of::<Found>),
    run,
};

/// How much of a section is shown, in characters.
const EXCERPT: usize = 600;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Words to look for.
    #[schemars(length(min = 1, max = 200))]
    query: String,
    /// How many sections to return at the most.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 20))]
    limit: usize,
}

fn five() -> usize {
    5
}

#[derive(Serialize, JsonSchema)]
struct Found {
    /// The best first.
    sections: Vec<Section>,
}

#[derive(Serialize, JsonSchema)]
struct Section {
    /// The page's path in the repository.
    page: &'static str,
    heading: String,
    /// How it begins.
    text: String,
}

fn run(call: Call) -> Running {
    call.answer(|arguments: Arguments, _: Standing| {
        let words: Vec<String> = words(&arguments.query).collect();
        let mut scored: Vec<_> = DOCS
            .iter()
            .chain(DECISIONS)
            .flat_map(sections)
            .map(|section| (score(&section, &words), section))
            .filter(|(score, _)| *score > (0, 0))
            .collect();
        scored.sort_by_key(|(score, _)| Reverse(*score));
        let sections = scored.into_iter().take(arguments.limit).map(|(_, section)| section.shortened()).collect();
        ToolResult::structured(&Found { sections })
    })
}

/// A page's sections, each from its heading to the next.
fn sections(page: &'static Document) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut in_code = false;
    for line in page.text.lines() {
        in_code ^= line.starts_with("```");
        match sections.last_mut() {
            Some(section) if in_code || !line.starts_with('#') => {
                section.text.push_str(line);
                section.text.push('\n');
            }
            _ => {
                let heading = line.trim_start_matches('#').trim().to_owned();
                sections.push(Section { page: page.path, heading, text: String::new() });
            }
        }
    }
    sections
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// How many of the words stand in a section, and how often; in the heading they count threefold.
fn score(section: &Section, wanted: &[String]) -> (usize, usize) {
    let heading: Vec<String> = words(&section.heading).collect();
    let text: Vec<String> = words(&section.text).collect();
    let count = |word: &String| {
        let in_heading = heading.iter().filter(|other| *other == word).count();
        let in_text = text.iter().filter(|other| *other == word).count();
        in_heading.saturating_mul(3).saturating_add(in_text)
    };
    let counts: Vec<usize> = wanted.iter().map(count).filter(|count| *count > 0).collect();
    (counts.len(), counts.iter().fold(0, |sum, count| sum.saturating_add(*count)))
}

impl Section {
    fn shortened(mut self) -> Self {
        self.text = self.text.trim().chars().take(EXCERPT).collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Document =
        Document { path: "docs/x.md", text: "# One\nalpha beta\n```\n# not a heading\n```\n## Two beta\ngamma\n" };
    static STORED: Document = PAGE;

    fn scores(query: &str) -> Vec<(usize, usize)> {
        let wanted: Vec<String> = words(query).collect();
        sections(&STORED).iter().map(|section| score(section, &wanted)).collect()
    }

    #[test]
    fn a_page_is_cut_at_its_headings_but_not_inside_code() {
        let headings: Vec<_> = sections(&STORED).into_iter().map(|section| section.heading).collect();
        assert_eq!(headings, ["One", "Two beta"]);
        assert!(sections(&STORED)[0].text.contains("not a heading"));
    }

    #[test]
    fn words_count_once_in_the_text_and_threefold_in_the_heading() {
        assert_eq!(scores("BETA"), [(1, 1), (1, 3)]);
        assert_eq!(scores("alpha, beta"), [(2, 2), (1, 3)]);
        assert_eq!(scores("nothing"), [(0, 0), (0, 0)]);
        assert_eq!(scores("?!"), [(0, 0), (0, 0)]);
    }

    #[test]
    fn an_excerpt_is_cut_between_characters() {
        let long = Section { page: "", heading: String::new(), text: "é".repeat(EXCERPT + 1) };
        assert_eq!(long.shortened().text.chars().count(), EXCERPT);
    }
}
