//! Plans (`MCP_PLANS`): other numbers for callers whose token names one.

use super::limits::{self, Given, Limits};
use super::tools::{check_cost, ToolSettings};
use super::variables::scalar;
use super::Fault;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::rc::Rc;

const VARIABLE: &str = "MCP_PLANS";

/// The numbers that a plan can have. What it doesn't give is as for everybody else.
const KEYS: [&str; 4] = ["rate", "burst", "quota", "max_in_flight"];

/// What everybody has, as text.
pub(super) struct Everybody<'a> {
    pub rate: &'a str,
    pub burst: &'a str,
    pub quota: &'a str,
    pub max_in_flight: &'a str,
}

/// Reads the table.
pub(super) fn parse(table: &Map<String, Value>, everybody: &Everybody<'_>) -> Result<BTreeMap<String, Limits>, Fault> {
    table
        .iter()
        .map(|(name, plan)| match plan {
            Value::Object(given) => Ok((name.clone(), one(name, given, everybody)?)),
            _ => Err(Fault::new(&format!("{VARIABLE}.{name}"), "must be a table")),
        })
        .collect()
}

fn one(name: &str, given: &Map<String, Value>, everybody: &Everybody<'_>) -> Result<Limits, Fault> {
    if let Some(key) = given.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let what = format!("a plan has no number of this name; there are {}", KEYS.join(", "));
        return Err(Fault::new(&format!("{VARIABLE}.{name}.{key}"), what));
    }
    let variable = |key: &str| format!("{VARIABLE}.{name}.{key}");
    // A value that is neither text nor a number is read as a text that no number takes.
    let text = |key: &str, default: &str| match given.get(key) {
        None => default.to_owned(),
        Some(value) => scalar(value).unwrap_or_else(|| value.to_string()),
    };
    Ok(Limits {
        bucket: limits::bucket(
            Given { variable: &variable("rate"), text: &text("rate", everybody.rate) },
            Given { variable: &variable("burst"), text: &text("burst", everybody.burst) },
        )?,
        quota: limits::quota(Given { variable: &variable("quota"), text: &text("quota", everybody.quota) })?,
        max_in_flight: limits::max_in_flight(Given {
            variable: &variable("max_in_flight"),
            text: &text("max_in_flight", everybody.max_in_flight),
        })?,
    })
}

/// Whether every cost that the operator gives fits into the bucket of every plan.
pub(super) fn check(
    plans: &BTreeMap<String, Limits>,
    given: &Map<String, Value>,
    tools: &BTreeMap<String, Rc<ToolSettings>>,
) -> Result<(), Fault> {
    for (plan, bucket) in plans.iter().filter_map(|(plan, limits)| limits.bucket.map(|bucket| (plan, bucket))) {
        for (name, settings) in
            tools.iter().filter(|(name, _)| given.get(*name).is_some_and(|tool| tool.get("cost").is_some()))
        {
            check_cost(&format!("MCP_PLANS.{plan}.burst"), name, settings.cost, bucket.capacity_tokens())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::{Policy, TOKEN};
    use crate::limiter::quota::{Quota, Window};
    use serde_json::json;

    fn parsed(table: Value) -> Result<BTreeMap<String, Limits>, Fault> {
        let everybody = Everybody { rate: "0.5", burst: "30", quota: "", max_in_flight: "0" };
        parse(table.as_object().unwrap(), &everybody)
    }

    #[test]
    fn a_plan_has_the_numbers_that_it_gives_and_everybodys_for_the_rest() {
        let plans = parsed(json!({
            "pro": {"rate": 10, "burst": "100", "quota": "1000/day", "max_in_flight": 4},
            "slow": {"rate": "0.1"},
            "same": {},
            "free": {"rate": 0},
        }))
        .unwrap();
        let pro = Limits {
            bucket: Policy::new(100 * TOKEN, 10 * TOKEN).ok(),
            quota: Some(Quota { limit: 1_000, window: Window::Day }),
            max_in_flight: Some(4),
        };
        assert_eq!(plans["pro"], pro);
        assert_eq!(plans["slow"].bucket, Policy::new(30 * TOKEN, TOKEN / 10).ok());
        assert_eq!(plans["same"], Limits { bucket: Policy::new(30 * TOKEN, TOKEN / 2).ok(), ..Limits::default() });
        assert_eq!(plans["free"].bucket, None);
    }

    #[test]
    fn a_wrong_plan_names_the_place() {
        for (table, variable, what) in [
            (json!({"pro": 7}), "MCP_PLANS.pro", "must be a table"),
            (json!({"pro": {"cost": 7}}), "MCP_PLANS.pro.cost", "a plan has no number of this name"),
            (json!({"pro": {"rate": {}}}), "MCP_PLANS.pro.rate", "must be tokens a second"),
            (json!({"pro": {"burst": null}}), "MCP_PLANS.pro.burst", "must be a whole number of tokens"),
            (json!({"pro": {"quota": "5"}}), "MCP_PLANS.pro.quota", "must be calls in a window"),
            (json!({"pro": {"max_in_flight": -1}}), "MCP_PLANS.pro.max_in_flight", "must be a whole number of calls"),
        ] {
            let fault = parsed(table).unwrap_err();
            assert_eq!(fault.variable, variable);
            assert!(fault.what.starts_with(what), "{}", fault.what);
        }
    }
}
