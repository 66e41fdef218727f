//! What the operator decides tool by tool (`MCP_TOOLS`).

use super::variables::scalar;
use super::{decimal, Fail, Fault};
use crate::limiter::policy::{Policy, LARGEST, TOKEN};
use crate::mcp::json::{self, JsonFault};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const VARIABLE: &str = "MCP_TOOLS";

/// A tool that there is, and what it costs unless the operator says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolDefault {
    /// Its name.
    pub name: &'static str,
    /// Tokens a call.
    pub cost: u64,
}

/// What holds for one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolSettings {
    /// Tokens a call.
    pub cost: u64,
    /// What happens to a call when the limiter can't answer.
    pub fail: Fail,
}

impl ToolSettings {
    /// Micro-tokens a call.
    pub fn micro_cost(self) -> u64 {
        self.cost.saturating_mul(TOKEN)
    }
}

/// Reads the table, given as such or as JSON text.
pub(super) fn parse(
    table: Option<&Value>,
    tools: &[ToolDefault],
    default_fail: Fail,
    policy: Option<Policy>,
) -> Result<BTreeMap<String, ToolSettings>, Fault> {
    let table = match table {
        None => Map::new(),
        Some(Value::Object(table)) => table.clone(),
        Some(Value::String(text)) => from_text(text)?,
        Some(_) => return Err(Fault::new(VARIABLE, "must be a table, or one as JSON text")),
    };
    if let Some(stranger) = table.keys().find(|name| !tools.iter().any(|tool| tool.name == name.as_str())) {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
        let what = format!("no tool has this name; there are {}", names.join(", "));
        return Err(Fault::new(&format!("{VARIABLE}.{stranger}"), what));
    }
    let mut settings = BTreeMap::new();
    for tool in tools {
        let read = match table.get(tool.name) {
            None => ToolSettings { cost: tool.cost, fail: default_fail },
            Some(Value::Object(given)) => one(*tool, given, default_fail, policy)?,
            Some(_) => return Err(Fault::new(&format!("{VARIABLE}.{}", tool.name), "must be a table")),
        };
        settings.insert(tool.name.to_owned(), read);
    }
    Ok(settings)
}

fn from_text(text: &str) -> Result<Map<String, Value>, Fault> {
    match json::parse(text) {
        Ok(Value::Object(table)) => Ok(table),
        Ok(_) => Err(Fault::new(VARIABLE, "must be a table, or one as JSON text")),
        Err(JsonFault::Syntax(what) | JsonFault::DuplicateMember(what)) => {
            Err(Fault::new(VARIABLE, format!("isn't JSON that can be read: {what}")))
        }
    }
}

/// What is given for one tool. A cost above the capacity is a fault; a tool's own default above a small bucket is not
/// the operator's, so there each call is refused for it (`capacity`), and the other tools work.
fn one(
    tool: ToolDefault,
    given: &Map<String, Value>,
    default_fail: Fail,
    policy: Option<Policy>,
) -> Result<ToolSettings, Fault> {
    let most = policy.map_or(LARGEST / TOKEN, |policy| policy.capacity_tokens());
    let mut settings = ToolSettings { cost: tool.cost, fail: default_fail };
    for (key, value) in given {
        let path = format!("{VARIABLE}.{}.{key}", tool.name);
        let text = scalar(value);
        match key.as_str() {
            "cost" => {
                let Some(cost) = text.as_deref().and_then(decimal::whole) else {
                    return Err(Fault::new(&path, format!("must be a whole number of tokens, not {value}")));
                };
                if cost > most {
                    let what = format!("a call of {} costs {cost} tokens and the bucket holds {most}", tool.name);
                    return Err(Fault::new(&path, what));
                }
                settings.cost = cost;
            }
            "fail" => settings.fail = Fail::read(&path, text.as_deref().unwrap_or_default())?,
            _ => return Err(Fault::new(&path, "there is no setting of this name; there are cost and fail")),
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TOOLS: [ToolDefault; 2] = [ToolDefault { name: "echo", cost: 1 }, ToolDefault { name: "search", cost: 2 }];

    fn parsed(table: Value) -> Result<BTreeMap<String, ToolSettings>, Fault> {
        parse(Some(&table), &TOOLS, Fail::Open, Policy::new(30 * TOKEN, TOKEN).ok())
    }

    #[track_caller]
    fn fault(table: Value, variable: &str) -> String {
        let fault = parsed(table).unwrap_err();
        assert_eq!(fault.variable, variable);
        fault.what
    }

    #[test]
    fn a_table_and_its_json_text_say_the_same() {
        let table = json!({"echo": {"cost": 3, "fail": "closed"}, "search": {"cost": "0"}});
        let settings = parsed(table.clone()).unwrap();
        assert_eq!(settings["echo"], ToolSettings { cost: 3, fail: Fail::Closed });
        assert_eq!(settings["search"], ToolSettings { cost: 0, fail: Fail::Open });
        assert_eq!(settings["echo"].micro_cost(), 3 * TOKEN);
        assert_eq!(parsed(Value::String(table.to_string())).unwrap(), settings);
        assert_eq!(parsed(json!({"echo": {}})).unwrap()["echo"].cost, 1);
    }

    #[test]
    fn a_wrong_table_names_the_place() {
        for table in [json!(7), json!([]), json!("[]"), json!(null)] {
            assert_eq!(fault(table, "MCP_TOOLS"), "must be a table, or one as JSON text");
        }
        for text in ["", "{", r#"{"echo":{},"echo":{}}"#] {
            assert!(fault(json!(text), "MCP_TOOLS").starts_with("isn't JSON that can be read: "));
        }
        assert_eq!(fault(json!({"ecko": {}}), "MCP_TOOLS.ecko"), "no tool has this name; there are echo, search");
        assert_eq!(fault(json!({"echo": 3}), "MCP_TOOLS.echo"), "must be a table");
        for cost in [json!(-1), json!(1.5), json!("x"), json!(null), json!({})] {
            assert!(fault(json!({"echo": {"cost": cost}}), "MCP_TOOLS.echo.cost").contains("whole number"));
        }
        assert!(fault(json!({"echo": {"fail": "ajar"}}), "MCP_TOOLS.echo.fail").contains("closed"));
        assert!(fault(json!({"echo": {"fail": {}}}), "MCP_TOOLS.echo.fail").contains("closed"));
        assert!(fault(json!({"echo": {"rate": 1}}), "MCP_TOOLS.echo.rate").contains("cost and fail"));
    }

    #[test]
    fn a_cost_above_the_capacity_is_a_fault() {
        assert!(parsed(json!({"echo": {"cost": 30}})).is_ok());
        let what = fault(json!({"echo": {"cost": 31}}), "MCP_TOOLS.echo.cost");
        assert_eq!(what, "a call of echo costs 31 tokens and the bucket holds 30");
    }

    #[test]
    fn a_bucket_smaller_than_a_tools_own_cost_leaves_the_other_tools_usable() {
        let settings = parse(None, &TOOLS, Fail::Open, Policy::new(TOKEN, TOKEN).ok()).unwrap();
        assert_eq!((settings["echo"].cost, settings["search"].cost), (1, 2));
    }

    #[test]
    fn without_a_bucket_any_cost_that_can_be_counted_will_do() {
        let settings = |cost: u64| parse(Some(&json!({"echo": {"cost": cost}})), &TOOLS, Fail::Open, None);
        assert!(settings(LARGEST / TOKEN).is_ok());
        assert!(settings(LARGEST / TOKEN + 1).is_err());
    }
}
