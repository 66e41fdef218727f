//! What the operator gives one caller, read from the body of a PUT and shown again: `rate`, `burst`, `quota` and
//! `max_in_flight` as in variables, or `blocked`, and for how many `seconds`. An empty object ends what held.

use super::limits::{self, Given, Limits};
use super::variables::{scalar, whole};
use super::{Config, Fault};
use crate::limiter::operator::Override;
use crate::limiter::policy::{tokens, whole_ms, SECOND};
use crate::mcp::json::{self as strict, JsonFault};
use serde_json::{json, Map, Value};

const KEYS: [&str; 6] = ["rate", "burst", "quota", "max_in_flight", "blocked", "seconds"];

const NO_BUCKET: (&str, &str) = ("rate", "nothing limits callers here (MCP_RATE_LIMIT is 0), so no object is asked");
const NO_QUOTA: (&str, &str) = ("quota", "callers have no quota here: MCP_QUOTA is empty");
const NO_SLOTS: (&str, &str) = ("max_in_flight", "callers have no slots here: MCP_MAX_IN_FLIGHT is 0");

/// The longest that it can hold, in seconds: a year.
const LONGEST_SECONDS: u64 = 31_536_000;

/// Reads a body at `now` (microseconds). An error says what is wrong.
pub fn parse(body: &[u8], config: &Config, now: u64) -> Result<Override, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the body isn't UTF-8".to_owned())?;
    let given = match strict::parse(text) {
        Ok(Value::Object(given)) => given,
        Ok(_) => return Err("the body must be an object".to_owned()),
        Err(JsonFault::Syntax(what) | JsonFault::DuplicateMember(what)) => {
            return Err(format!("the body isn't JSON that can be read: {what}"));
        }
    };
    if let Some(key) = given.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("{key}: there is nothing of this name; there are {}", KEYS.join(", ")));
    }
    if given.is_empty() {
        return Ok(Override { until: now, ..Override::default() });
    }
    read(&given, config, now).map_err(|fault| fault.to_string())
}

fn read(given: &Map<String, Value>, config: &Config, now: u64) -> Result<Override, Fault> {
    let text = |key: &str| given.get(key).map(|value| scalar(value).unwrap_or_else(|| value.to_string()));
    let Some(seconds) = text("seconds") else {
        return Err(Fault::new("seconds", "must be given: for how long this holds"));
    };
    let seconds = whole("seconds", &seconds, 1, LONGEST_SECONDS)?;
    let mut held = Override { until: now.saturating_add(seconds.saturating_mul(SECOND)), ..Override::default() };
    held.blocked = match given.get("blocked") {
        None => false,
        Some(Value::Bool(blocked)) => *blocked,
        Some(other) => return Err(Fault::new("blocked", format!("must be true or false, not {other}"))),
    };
    let given_bucket = given.contains_key("rate") || given.contains_key("burst");
    check(
        given_bucket || held.blocked,
        config,
        |limits| limits.bucket.is_some() || held.blocked && !limits.is_empty(),
        NO_BUCKET,
    )?;
    check(given.contains_key("quota"), config, |limits| limits.quota.is_some(), NO_QUOTA)?;
    check(given.contains_key("max_in_flight"), config, |limits| limits.max_in_flight.is_some(), NO_SLOTS)?;
    // One number of a bucket is held against one that goes with any: the other is the caller's, which isn't known here.
    let rate = text("rate").unwrap_or_else(|| "1".to_owned());
    let burst = text("burst").unwrap_or_else(|| "1".to_owned());
    let bucket = limits::bucket(Given { variable: "rate", text: &rate }, Given { variable: "burst", text: &burst })?;
    held.refill = given.contains_key("rate").then(|| bucket.map_or(0, |bucket| bucket.refill()));
    held.capacity = bucket.filter(|_| given.contains_key("burst")).map(|bucket| bucket.capacity());
    if let Some(quota) = text("quota") {
        held.quota = limits::quota(Given { variable: "quota", text: &quota })?;
        if held.quota.is_none() {
            return Err(Fault::new("quota", "must be calls in a window, such as 1000/day"));
        }
    }
    if let Some(calls) = text("max_in_flight") {
        held.max_in_flight = Some(whole("max_in_flight", &calls, 1, limits::MOST_SLOTS)?);
    }
    Ok(held)
}

/// What can't be changed for one caller where no caller has it: questions don't ask for it then.
fn check(wanted: bool, config: &Config, has: impl Fn(&Limits) -> bool, what: (&str, &str)) -> Result<(), Fault> {
    if wanted && !config.all_limits().any(has) {
        return Err(Fault::new(what.0, what.1));
    }
    Ok(())
}

/// The same, as it was given, and for how long it still holds.
pub fn shown(held: &Override, now: u64) -> Value {
    let mut told = Map::new();
    let mut tell = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            told.insert(name.to_owned(), value);
        }
    };
    tell("blocked", held.blocked.then_some(Value::Bool(true)));
    tell("rate", held.refill.map(|refill| json!(tokens(refill))));
    tell("burst", held.capacity.map(|capacity| json!(tokens(capacity))));
    tell("quota", held.quota.map(|quota| json!(quota.to_string())));
    tell("max_in_flight", held.max_in_flight.map(Value::from));
    tell("endsMs", Some(json!(whole_ms(held.until.saturating_sub(now)))));
    Value::Object(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::TOKEN;
    use crate::limiter::quota::{Quota, Window};

    const NOW: u64 = 1_796_000_000 * SECOND;

    fn config(vars: &Value) -> Config {
        crate::config::parse(vars.as_object().unwrap(), &[]).unwrap()
    }

    fn parsed(body: &Value) -> Result<Override, String> {
        let config = config(&json!({"MCP_QUOTA": "5/day", "MCP_MAX_IN_FLIGHT": 2}));
        parse(body.to_string().as_bytes(), &config, NOW)
    }

    #[test]
    fn numbers_are_read_as_in_variables_and_shown_again() {
        let held =
            parsed(&json!({"rate": "2.5", "burst": 60, "quota": "9/hour", "max_in_flight": 4, "seconds": 60})).unwrap();
        assert_eq!((held.capacity, held.refill), (Some(60 * TOKEN), Some(2_500_000)));
        assert_eq!((held.quota, held.max_in_flight), (Some(Quota { limit: 9, window: Window::Hour }), Some(4)));
        assert_eq!((held.until, held.blocked), (NOW + 60 * SECOND, false));
        let told = json!({"rate": 2.5, "burst": 60.0, "quota": "9/hour", "max_in_flight": 4, "endsMs": 59_000});
        assert_eq!(shown(&held, NOW + SECOND), told);
    }

    #[test]
    fn of_a_bucket_only_what_is_given_changes_and_a_rate_of_0_switches_it_off() {
        let held = |given| parsed(&given).map(|held| (held.capacity, held.refill)).unwrap();
        assert_eq!(held(json!({"burst": 60, "seconds": 1})), (Some(60 * TOKEN), None));
        assert_eq!(held(json!({"rate": 2, "seconds": 1})), (None, Some(2 * TOKEN)));
        assert_eq!(held(json!({"rate": 0, "seconds": 1})), (None, Some(0)));
        assert_eq!(held(json!({"quota": "1/day", "seconds": 1})), (None, None));
    }

    #[test]
    fn blocking_is_for_a_time_and_nothing_ends_it() {
        let held = parsed(&json!({"blocked": true, "seconds": 3600})).unwrap();
        assert_eq!(held, Override { until: NOW + 3_600 * SECOND, blocked: true, ..Override::default() });
        assert_eq!(shown(&held, NOW), json!({"blocked": true, "endsMs": 3_600_000}));
        assert_eq!(parsed(&json!({})).unwrap(), Override { until: NOW, ..Override::default() });
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (given, what) in [
            (json!({"blocked": true}), "seconds: must be given"),
            (json!({"blocked": true, "seconds": 0}), "seconds: must be a whole number from 1 to 31536000"),
            (json!({"blocked": 1, "seconds": 1}), "blocked: must be true or false, not 1"),
            (json!({"rate": "fast", "seconds": 1}), "rate: must be tokens a second"),
            (json!({"burst": 0, "seconds": 1}), "burst: must be a whole number of tokens"),
            (json!({"quota": "9", "seconds": 1}), "quota: must be calls in a window"),
            (json!({"quota": "", "seconds": 1}), "quota: must be calls in a window"),
            (json!({"max_in_flight": 1_001, "seconds": 1}), "max_in_flight: must be a whole number from 1 to 1000"),
            (json!({"max_in_flight": 0, "seconds": 1}), "max_in_flight: must be a whole number from 1"),
            (json!({"until": 1}), "until: there is nothing of this name; there are rate"),
            (json!([]), "the body must be an object"),
        ] {
            let found = parsed(&given).unwrap_err();
            assert!(found.starts_with(what), "{found}");
        }
        let raw = |body: &[u8]| parse(body, &config(&json!({})), NOW).unwrap_err();
        assert!(raw(b"{").starts_with("the body isn't JSON that can be read: "));
        assert!(raw(br#"{"seconds":1,"seconds":2}"#).starts_with("the body isn't JSON that can be read: "));
        assert_eq!(raw(b"\xff"), "the body isn't UTF-8");
    }

    #[test]
    fn what_no_caller_has_cant_be_changed_for_one() {
        let given = |vars: &Value, body: Value| parse(body.to_string().as_bytes(), &config(vars), NOW);
        let none = json!({"MCP_RATE_LIMIT": 0});
        for body in [
            json!({"rate": 1, "seconds": 1}),
            json!({"burst": 1, "seconds": 1}),
            json!({"blocked": true, "seconds": 1}),
        ] {
            assert!(given(&none, body).unwrap_err().contains("MCP_RATE_LIMIT is 0"));
        }
        assert!(given(&none, json!({"quota": "1/day", "seconds": 1})).unwrap_err().contains("MCP_QUOTA is empty"));
        assert!(given(&none, json!({"max_in_flight": 1, "seconds": 1}))
            .unwrap_err()
            .contains("MCP_MAX_IN_FLIGHT is 0"));
        let quota = json!({"MCP_RATE_LIMIT": 0, "MCP_QUOTA": "5/day"});
        assert!(given(&quota, json!({"blocked": true, "seconds": 1})).is_ok());
        assert!(given(&quota, json!({"rate": 1, "seconds": 1})).is_err());
        let plan = json!({"MCP_PLAN_CLAIM": "plan", "MCP_PLANS": {"pro": {"quota": "9/day"}}});
        assert!(given(&plan, json!({"quota": "1/day", "seconds": 1})).is_ok(), "those of a plan have one");
    }
}
