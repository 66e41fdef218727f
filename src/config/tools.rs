//! What the operator decides tool by tool (`MCP_TOOLS`).

use super::limits::{self, Given};
use super::variables::{scalar, whole};
use super::{decimal, Fail, Fault};
use crate::limiter::policy::{Policy, LARGEST, TOKEN};
use crate::limiter::quota::Quota;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::rc::Rc;

const VARIABLE: &str = "MCP_TOOLS";

/// The settings that a tool can have.
const KEYS: [&str; 9] =
    ["cost", "rate", "burst", "quota", "fail", "max_in_flight", "status_tool", "poll_seconds", "min_gap_ms"];

/// After how many seconds asking again makes sense when all slots are taken, unless the operator says otherwise.
const POLL_SECONDS: u64 = 5;

/// The longest that can be waited between two questions, in seconds; and between two calls, in milliseconds.
const LONGEST_POLL_SECONDS: u64 = 86_400;
const LONGEST_GAP_MS: u64 = 3_600_000;

/// A tool that there is, and what it costs unless the operator says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolDefault<'a> {
    /// Its name.
    pub name: &'a str,
    /// Tokens a call.
    pub cost: u64,
}

/// What holds for one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSettings {
    /// Tokens a call.
    pub cost: u64,
    /// What happens to a call when the limiter can't answer.
    pub fail: Fail,
    /// A bucket of its own for each caller.
    pub bucket: Option<Policy>,
    /// A quota of its own for each caller.
    pub quota: Option<Quota>,
    /// How many calls of it one caller may have running.
    pub max_in_flight: Option<u64>,
    /// The tool that tells how running calls are doing.
    pub status_tool: Option<String>,
    /// After how many seconds asking again makes sense.
    pub poll_seconds: u64,
    /// Milliseconds between the starts of two calls, whoever makes them.
    pub min_gap_ms: Option<u64>,
}

/// What holds where a tool's own settings say nothing.
pub(super) struct Defaults<'a> {
    /// When the limiter can't answer.
    pub fail: Fail,
    /// The text of the caller's rate.
    pub rate: &'a str,
    /// The text of the caller's burst.
    pub burst: &'a str,
    /// The bucket that the two make.
    pub bucket: Option<Policy>,
}

impl ToolSettings {
    /// A tool of this cost that nothing else is said of.
    pub fn new(cost: u64, fail: Fail) -> Self {
        let (bucket, quota, max_in_flight, status_tool, min_gap_ms) = Default::default();
        Self { cost, fail, bucket, quota, max_in_flight, status_tool, poll_seconds: POLL_SECONDS, min_gap_ms }
    }

    /// Micro-tokens a call.
    pub fn micro_cost(&self) -> u64 {
        self.cost.saturating_mul(TOKEN)
    }
}

/// Reads the table, where any tool may be named: those of a server behind aren't known here, and cost 1.
pub(super) fn parse_any(
    table: &Map<String, Value>,
    defaults: &Defaults<'_>,
) -> Result<BTreeMap<String, Rc<ToolSettings>>, Fault> {
    let status_tools = table.values().filter_map(|given| given.get("status_tool")).filter_map(Value::as_str);
    let named = table.keys().map(String::as_str).chain(status_tools.map(str::trim));
    let tools: Vec<ToolDefault<'_>> = named.map(|name| ToolDefault { name, cost: 1 }).collect();
    parse(table, &tools, defaults)
        .map(|settings| settings.into_iter().filter(|(name, _)| table.contains_key(name)).collect())
}

/// Reads the table.
pub(super) fn parse(
    table: &Map<String, Value>,
    tools: &[ToolDefault<'_>],
    defaults: &Defaults<'_>,
) -> Result<BTreeMap<String, Rc<ToolSettings>>, Fault> {
    if let Some(stranger) = table.keys().find(|name| !tools.iter().any(|tool| tool.name == name.as_str())) {
        return Err(unknown_tool(&format!("{VARIABLE}.{stranger}"), tools));
    }
    let mut settings = BTreeMap::new();
    for tool in tools {
        let read = match table.get(tool.name) {
            None => ToolSettings::new(tool.cost, defaults.fail),
            Some(Value::Object(given)) => one(*tool, given, tools, defaults)?,
            Some(_) => return Err(Fault::new(&format!("{VARIABLE}.{}", tool.name), "must be a table")),
        };
        settings.insert(tool.name.to_owned(), Rc::new(read));
    }
    Ok(settings)
}

fn unknown_tool(variable: &str, tools: &[ToolDefault<'_>]) -> Fault {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
    Fault::new(variable, format!("no tool has this name; there are {}", names.join(", ")))
}

/// What is given for one tool. A cost above the capacity is a fault; a tool's own default above a small bucket is not
/// the operator's, so there each call is refused for it (`capacity`), and the other tools work.
fn one(
    tool: ToolDefault<'_>,
    given: &Map<String, Value>,
    tools: &[ToolDefault<'_>],
    defaults: &Defaults<'_>,
) -> Result<ToolSettings, Fault> {
    let path = |key: &str| format!("{VARIABLE}.{}.{key}", tool.name);
    if let Some(key) = given.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let what = format!("there is no setting of this name; there are {}", KEYS.join(", "));
        return Err(Fault::new(&path(key), what));
    }
    // A value that is neither text nor a number is read as a text that no setting takes.
    let text = |key: &str| given.get(key).map(|value| scalar(value).unwrap_or_else(|| value.to_string()));
    let mut settings = ToolSettings::new(tool.cost, defaults.fail);
    if let Some(fail) = text("fail") {
        settings.fail = Fail::read(&path("fail"), &fail)?;
    }
    if given.contains_key("rate") || given.contains_key("burst") {
        let (rate, burst) = (path("rate"), path("burst"));
        let rate_text = text("rate").unwrap_or_else(|| defaults.rate.to_owned());
        let burst_text = text("burst").unwrap_or_else(|| defaults.burst.to_owned());
        let rate = Given { variable: &rate, text: &rate_text };
        let burst = Given { variable: &burst, text: &burst_text };
        settings.bucket = limits::bucket(rate, burst)?;
        if settings.bucket.is_none() && !given.contains_key("rate") {
            return Err(Fault::new(burst.variable, "a burst needs a rate, and MCP_RATE_LIMIT is 0"));
        }
    }
    if let Some(cost) = text("cost") {
        settings.cost = decimal::whole(&cost)
            .ok_or_else(|| Fault::new(&path("cost"), format!("must be a whole number of tokens, not {cost:?}")))?;
    } else if let Some(bucket) = settings.bucket {
        check_cost(&path("burst"), tool.name, settings.cost, bucket.capacity_tokens())?;
    }
    if given.contains_key("cost") {
        let capacities =
            [defaults.bucket, settings.bucket].into_iter().flatten().map(|bucket| bucket.capacity_tokens());
        check_cost(&path("cost"), tool.name, settings.cost, capacities.min().unwrap_or(LARGEST / TOKEN))?;
    }
    if let Some(quota) = text("quota") {
        settings.quota = limits::quota(Given { variable: &path("quota"), text: &quota })?;
    }
    if let Some(calls) = text("max_in_flight") {
        settings.max_in_flight = limits::max_in_flight(Given { variable: &path("max_in_flight"), text: &calls })?;
    }
    if let Some(name) = text("status_tool").filter(|name| !name.is_empty()) {
        if !tools.iter().any(|tool| tool.name == name) {
            return Err(unknown_tool(&path("status_tool"), tools));
        }
        settings.status_tool = Some(name);
    }
    if let Some(seconds) = text("poll_seconds") {
        settings.poll_seconds = whole(&path("poll_seconds"), &seconds, 1, LONGEST_POLL_SECONDS)?;
    }
    if let Some(ms) = text("min_gap_ms") {
        let ms = whole(&path("min_gap_ms"), &ms, 0, LONGEST_GAP_MS)?;
        settings.min_gap_ms = Some(ms).filter(|ms| *ms > 0);
    }
    Ok(settings)
}

/// Whether a call of `tool` can ever run.
pub(super) fn check_cost(variable: &str, tool: &str, cost: u64, capacity: u64) -> Result<(), Fault> {
    if cost > capacity {
        let what = format!("a call of {tool} costs {cost} tokens and the bucket holds {capacity}");
        return Err(Fault::new(variable, what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::quota::Window;
    use serde_json::json;

    const TOOLS: [ToolDefault<'_>; 2] =
        [ToolDefault { name: "echo", cost: 1 }, ToolDefault { name: "search", cost: 2 }];

    fn parsed_under(table: Value, rate: &str, burst: &str) -> Result<BTreeMap<String, Rc<ToolSettings>>, Fault> {
        let given = |text| Given { variable: "", text };
        let bucket = limits::bucket(given(rate), given(burst)).unwrap();
        let defaults = Defaults { fail: Fail::Open, rate, burst, bucket };
        parse(table.as_object().unwrap(), &TOOLS, &defaults)
    }

    fn parsed(table: Value) -> Result<BTreeMap<String, Rc<ToolSettings>>, Fault> {
        parsed_under(table, "1", "30")
    }

    #[track_caller]
    fn fault(table: Value, variable: &str) -> String {
        let fault = parsed(table).unwrap_err();
        assert_eq!(fault.variable, variable);
        fault.what
    }

    #[test]
    fn every_setting_is_read_as_text_and_as_a_number() {
        let text = json!({
            "cost": "3", "rate": "0.5", "burst": "5", "quota": "10/hour", "fail": "closed", "max_in_flight": "2",
            "status_tool": "search", "poll_seconds": "7", "min_gap_ms": "250",
        });
        let numbers = json!({
            "cost": 3, "rate": 0.5, "burst": 5, "quota": "10/hour", "fail": "closed", "max_in_flight": 2,
            "status_tool": "search", "poll_seconds": 7, "min_gap_ms": 250,
        });
        let expected = ToolSettings {
            cost: 3,
            fail: Fail::Closed,
            bucket: Policy::new(5 * TOKEN, TOKEN / 2).ok(),
            quota: Some(Quota { limit: 10, window: Window::Hour }),
            max_in_flight: Some(2),
            status_tool: Some("search".to_owned()),
            poll_seconds: 7,
            min_gap_ms: Some(250),
        };
        for given in [text, numbers] {
            let settings = parsed(json!({ "echo": given })).unwrap();
            assert_eq!(*settings["echo"], expected);
            assert_eq!(*settings["search"], ToolSettings::new(2, Fail::Open));
        }
        assert_eq!(expected.micro_cost(), 3 * TOKEN);
    }

    #[test]
    fn what_is_nothing_is_as_if_it_wasnt_given() {
        let none = json!({"rate": 0, "burst": 5, "quota": "", "max_in_flight": 0, "status_tool": "", "min_gap_ms": 0});
        assert_eq!(*parsed(json!({ "echo": none })).unwrap()["echo"], ToolSettings::new(1, Fail::Open));
        assert_eq!(parsed(json!({"echo": {}, "search": {"cost": 0}})).unwrap()["search"].cost, 0);
    }

    #[test]
    fn of_a_tools_bucket_one_number_is_enough_and_the_other_is_the_callers() {
        let bucket = |given| parsed(json!({ "echo": given })).unwrap()["echo"].bucket;
        assert_eq!(bucket(json!({"rate": 2})), Policy::new(30 * TOKEN, 2 * TOKEN).ok());
        assert_eq!(bucket(json!({"burst": 4})), Policy::new(4 * TOKEN, TOKEN).ok());
        let off = parsed_under(json!({"echo": {"burst": 4}}), "0", "30").unwrap_err();
        assert_eq!(off.to_string(), "MCP_TOOLS.echo.burst: a burst needs a rate, and MCP_RATE_LIMIT is 0");
    }

    #[test]
    fn a_wrong_table_names_the_place() {
        assert_eq!(fault(json!({"ecko": {}}), "MCP_TOOLS.ecko"), "no tool has this name; there are echo, search");
        assert_eq!(fault(json!({"echo": 3}), "MCP_TOOLS.echo"), "must be a table");
        for cost in [json!(-1), json!(1.5), json!("x"), json!(null), json!({})] {
            assert!(fault(json!({"echo": {"cost": cost}}), "MCP_TOOLS.echo.cost").contains("whole number"));
        }
        for (key, value, what) in [
            ("fail", json!("ajar"), "closed"),
            ("fail", json!({}), "closed"),
            ("rate", json!("fast"), "tokens a second"),
            ("burst", json!(0), "at least 1"),
            ("quota", json!("10/week"), "minute, hour, day, month"),
            ("max_in_flight", json!(-1), "0 for any"),
            ("status_tool", json!("ecko"), "no tool has this name"),
            ("poll_seconds", json!(0), "from 1 to 86400"),
            ("min_gap_ms", json!(3_600_001), "from 0 to 3600000"),
            ("price", json!(1), "there is no setting of this name; there are cost, rate, burst"),
        ] {
            let found = fault(json!({"echo": {key: value}}), &format!("MCP_TOOLS.echo.{key}"));
            assert!(found.contains(what), "{found}");
        }
    }

    #[test]
    fn a_cost_above_the_capacity_is_a_fault() {
        assert!(parsed(json!({"echo": {"cost": 30}})).is_ok());
        let what = fault(json!({"echo": {"cost": 31}}), "MCP_TOOLS.echo.cost");
        assert_eq!(what, "a call of echo costs 31 tokens and the bucket holds 30");
        let what = fault(json!({"echo": {"cost": 5, "burst": 4}}), "MCP_TOOLS.echo.cost");
        assert_eq!(what, "a call of echo costs 5 tokens and the bucket holds 4");
        let what = fault(json!({"search": {"burst": 1}}), "MCP_TOOLS.search.burst");
        assert_eq!(what, "a call of search costs 2 tokens and the bucket holds 1");
    }

    #[test]
    fn a_bucket_smaller_than_a_tools_own_cost_leaves_the_other_tools_usable() {
        let settings = parsed_under(json!({}), "1", "1").unwrap();
        assert_eq!((settings["echo"].cost, settings["search"].cost), (1, 2));
    }

    #[test]
    fn of_a_server_behind_any_tool_can_be_named() {
        let table = json!({"render": {"cost": 4, "status_tool": "render_status"}, "a/b": {}});
        let policy = Policy::new(30 * TOKEN, TOKEN).ok();
        let defaults = Defaults { fail: Fail::Open, rate: "1", burst: "30", bucket: policy };
        let settings = parse_any(table.as_object().unwrap(), &defaults).unwrap();
        assert_eq!(settings.keys().collect::<Vec<_>>(), ["a/b", "render"]);
        assert_eq!(*settings["a/b"], ToolSettings::new(1, Fail::Open));
        assert_eq!((settings["render"].cost, settings["render"].status_tool.as_deref()), (4, Some("render_status")));
        let wrong = json!({"render": {"cost": 31}});
        assert!(parse_any(wrong.as_object().unwrap(), &defaults).is_err());
    }

    #[test]
    fn without_a_bucket_any_cost_that_can_be_counted_will_do() {
        let settings = |cost: u64| parsed_under(json!({"echo": {"cost": cost}}), "0", "30");
        assert!(settings(LARGEST / TOKEN).is_ok());
        assert!(settings(LARGEST / TOKEN + 1).is_err());
    }
}
