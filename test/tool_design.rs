//! The examples of `docs/tool-design.md` are those of `test/examples/`, and they compile and pass their own tests, here in the
//! place of files of `src/tools/`.

// What the example finds there as `super::` and `crate::`.
use sluice::tools::{self, schema_of, Call, Running, Standing, Tool};
use sluice::{mcp, upstream};

#[path = "examples/exchange_rate.rs"]
mod exchange_rate;
#[path = "examples/word_count.rs"]
mod word_count;

const PAGE: &str = include_str!("../docs/tool-design.md");
const EXAMPLES: [&str; 2] = [include_str!("examples/word_count.rs"), include_str!("examples/exchange_rate.rs")];

/// The code blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let opening = format!("```{language}\n");
    let texts = PAGE.split(opening.as_str()).skip(1);
    texts.filter_map(|rest| rest.split_once("```").map(|(block, _)| block)).collect()
}

#[test]
fn the_page_shows_the_examples_as_they_are() {
    for example in EXAMPLES {
        assert!(blocks("rust").contains(&example));
    }
    assert_eq!(exchange_rate::TOOL.name, "exchange_rate");
}

#[test]
fn the_page_shows_the_schema_that_is_published() {
    let shown: serde_json::Value = serde_json::from_str(blocks("json")[0]).unwrap();
    assert_eq!(shown, (word_count::TOOL.input)());
}

#[test]
fn the_page_names_the_fields_that_a_tool_has() {
    // A field that is added without a word fails here, since this has to name it.
    let Tool {
        name,
        title: _,
        description: _,
        cost: _,
        needs_allowance: _,
        needs_capability: _,
        read_only: _,
        input: _,
        output: _,
        run: _,
    } = word_count::TOOL;
    assert_eq!(name, "word_count", "the page calls it by this name");
    assert!(PAGE.contains(&format!("`src/tools/{name}.rs`")));
    let fields = "name title description cost needs_allowance needs_capability read_only input output run";
    for field in fields.split(' ') {
        assert!(PAGE.contains(&format!("| `{field}` |")), "{field}");
    }
}
