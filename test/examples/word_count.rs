//! `word_count`: how many words a text has.

use super::{schema_of, Call, Running, Standing, Tool};
use crate::mcp::tool_result::ToolResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const TOOL: Tool = Tool {
    name: "word_count",
    title: "Count words",
    description: "Counts the words of a text. With `longer_than`, only those of more characters than that.",
    cost: 1,
    needs_allowance: false,
    needs_capability: None,
    read_only: true,
    input: schema_of::<Arguments>,
    output: Some(schema_of::<Count>),
    run,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The text.
    #[schemars(length(max = 10_000))]
    text: String,
    /// Count only words of more characters than this.
    #[serde(default)]
    #[schemars(range(max = 100))]
    longer_than: u32,
}

#[derive(Serialize, JsonSchema)]
struct Count {
    words: usize,
}

fn run(call: Call) -> Running {
    call.answer(|arguments: Arguments, _: Standing| {
        let longest = usize::try_from(arguments.longer_than).unwrap_or(usize::MAX);
        let words = arguments.text.split_whitespace().filter(|word| word.chars().count() > longest).count();
        ToolResult::structured(&Count { words })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::arguments;
    use futures_util::FutureExt as _;
    use serde_json::{json, Value};

    /// What the door does with a call: check the arguments, then run the tool.
    fn called(arguments: Value) -> ToolResult {
        match arguments::check(&TOOL, arguments) {
            Ok(arguments) => run(Call { arguments, standing: Standing::Unknown }).now_or_never().unwrap(),
            Err(text) => ToolResult::error(text),
        }
    }

    #[test]
    fn words_are_counted() {
        let words = |arguments| called(arguments).structured.unwrap()["words"].clone();
        assert_eq!(words(json!({"text": "to be or not to be"})), 6);
        assert_eq!(words(json!({"text": "a tall tree", "longer_than": 3})), 2);
        assert_eq!(words(json!({"text": ""})), 0);
    }

    #[test]
    fn a_wrong_argument_is_named() {
        let result = called(json!({"text": "a", "longer_than": -1}));
        assert!(result.is_error);
        assert_eq!(
            result.content[0]["text"],
            "Invalid arguments for word_count: /longer_than must be at least 0, not -1."
        );
    }
}
