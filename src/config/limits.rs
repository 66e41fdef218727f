//! The numbers that hold for a caller: its bucket, its quota, how many of its calls may run at the same time. They are
//! written the same way in variables of their own, for single tools (`MCP_TOOLS`) and for plans (`MCP_PLANS`).

use super::{decimal, Fault};
use crate::limiter::policy::{Policy, PolicyFault, TOKEN};
use crate::limiter::quota::{Quota, Window};

/// What holds for one caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Its bucket; None when buckets are switched off.
    pub bucket: Option<Policy>,
    /// Calls in a window.
    pub quota: Option<Quota>,
    /// Calls at the same time.
    pub max_in_flight: Option<u64>,
}

impl Limits {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A text, and the name of the variable that it stands in, for faults.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The variable, with the path into a table.
    pub variable: &'a str,
    /// What is given.
    pub text: &'a str,
}

impl Given<'_> {
    fn fault(self, what: impl Into<String>) -> Fault {
        Fault::new(self.variable, what)
    }
}

/// A bucket of `burst` tokens that gets `rate` back each second; None when that is 0.
pub(super) fn bucket(rate: Given<'_>, burst: Given<'_>) -> Result<Option<Policy>, Fault> {
    let refill = refill(rate)?;
    let capacity = decimal::whole(burst.text)
        .filter(|tokens| *tokens > 0)
        .ok_or_else(|| burst.fault(format!("must be a whole number of tokens, at least 1, not {:?}", burst.text)))?;
    policy(capacity.saturating_mul(TOKEN), refill, rate, burst)
}

/// A bucket that all of many callers share: it gets `rate` back each second, and holds what comes back in two seconds, but
/// at least `burst` tokens. None when the rate is 0.
pub(super) fn shared_bucket(rate: Given<'_>, burst: Given<'_>) -> Result<Option<Policy>, Fault> {
    let refill = refill(rate)?;
    let least = decimal::whole(burst.text).unwrap_or_default().saturating_mul(TOKEN);
    // A whole number of tokens, so that what is told is what there is.
    let twice = refill.saturating_mul(2).div_ceil(TOKEN).saturating_mul(TOKEN);
    policy(twice.max(least), refill, rate, rate)
}

fn refill(rate: Given<'_>) -> Result<u64, Fault> {
    decimal::micro(rate.text).ok_or_else(|| {
        rate.fault(format!("must be tokens a second, such as 0.5, with at most six decimals; not {:?}", rate.text))
    })
}

fn policy(capacity: u64, refill: u64, rate: Given<'_>, burst: Given<'_>) -> Result<Option<Policy>, Fault> {
    match Policy::new(capacity, refill) {
        Ok(policy) => Ok(Some(policy)),
        Err(PolicyFault::NoRefill) => Ok(None),
        Err(fault @ (PolicyFault::NoCapacity | PolicyFault::CapacityTooLarge)) => Err(burst.fault(fault.to_string())),
        Err(fault @ (PolicyFault::RefillTooLarge | PolicyFault::FillsTooSlowly)) => Err(rate.fault(fault.to_string())),
    }
}

/// The most calls of a quota: counts are stored, and must pass through JSON unchanged.
const MOST_CALLS: u64 = 1_000_000_000_000;

/// The most slots: each that is taken stands in the object's row.
pub(super) const MOST_SLOTS: u64 = 1_000;

/// A quota, such as `1000/day`; None when nothing is given.
pub(super) fn quota(given: Given<'_>) -> Result<Option<Quota>, Fault> {
    if given.text.is_empty() {
        return Ok(None);
    }
    let parts = given.text.split_once('/').map(|(calls, window)| (calls.trim(), window.trim()));
    let window = parts.and_then(|(_, name)| Window::ALL.into_iter().find(|window| window.name() == name));
    let limit = parts.and_then(|(calls, _)| decimal::whole(calls)).filter(|calls| (1..=MOST_CALLS).contains(calls));
    match (limit, window) {
        (Some(limit), Some(window)) => Ok(Some(Quota { limit, window })),
        _ => {
            let windows = Window::ALL.map(Window::name).join(", ");
            Err(given.fault(format!("must be calls in a window ({windows}), such as 1000/day, not {:?}", given.text)))
        }
    }
}

/// How many calls may run at the same time; None when that is 0.
pub(super) fn max_in_flight(given: Given<'_>) -> Result<Option<u64>, Fault> {
    match decimal::whole(given.text) {
        Some(0) => Ok(None),
        Some(calls) if calls <= MOST_SLOTS => Ok(Some(calls)),
        _ => {
            let what = format!("must be a whole number of calls up to {MOST_SLOTS}, 0 for any, not {:?}", given.text);
            Err(given.fault(what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given<'a>(variable: &'a str, text: &'a str) -> Given<'a> {
        Given { variable, text }
    }

    fn fault<T: std::fmt::Debug>(result: Result<T, Fault>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_bucket_has_two_numbers_and_each_is_named_when_it_is_wrong() {
        let read = |rate, burst| bucket(given("RATE", rate), given("BURST", burst));
        assert_eq!(read("0.5", "30"), Ok(Policy::new(30 * TOKEN, TOKEN / 2).ok()));
        assert_eq!(read("0", "30"), Ok(None));
        assert!(fault(read("fast", "30")).starts_with("RATE: must be tokens a second"));
        assert!(fault(read("0.5", "0")).starts_with("BURST: must be a whole number of tokens"));
        assert!(fault(read("9999999999", "30")).starts_with("RATE: "));
        assert!(fault(read("1", "9999999999")).starts_with("BURST: "));
        assert!(fault(read("0.000001", "4504")).starts_with("RATE: "), "it would fill in 142 years");
    }

    #[test]
    fn a_shared_bucket_holds_what_comes_back_in_two_seconds_and_at_least_the_burst() {
        let read = |rate, burst| shared_bucket(given("RATE", rate), given("BURST", burst));
        assert_eq!(read("100", "30"), Ok(Policy::new(200 * TOKEN, 100 * TOKEN).ok()));
        assert_eq!(read("1", "30"), Ok(Policy::new(30 * TOKEN, TOKEN).ok()));
        assert_eq!(read("20.3", "30"), Ok(Policy::new(41 * TOKEN, 20_300_000).ok()), "in whole tokens");
        assert_eq!(read("0", "30"), Ok(None));
        assert!(fault(read("-1", "30")).starts_with("RATE: "));
        assert!(fault(read("4503599627", "30")).starts_with("RATE: the bucket can hold"));
    }

    #[test]
    fn a_quota_is_a_number_and_a_window() {
        let read = |text| quota(given("MCP_QUOTA", text));
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("1000/day"), Ok(Some(Quota { limit: 1_000, window: Window::Day })));
        assert_eq!(read("5 / minute"), Ok(Some(Quota { limit: 5, window: Window::Minute })));
        for wrong in ["1000", "0/day", "x/day", "1000/week", "1000/days", "/day", "1000/", "1000000000001/day", "1/Day"]
        {
            let expected = "MCP_QUOTA: must be calls in a window (minute, hour, day, month), such as 1000/day, not ";
            assert_eq!(fault(read(wrong)), format!("{expected}{wrong:?}"));
        }
        assert!(read("1000000000000/month").is_ok());
    }

    #[test]
    fn slots_are_a_number_and_0_is_any() {
        let read = |text| max_in_flight(given("MCP_MAX_IN_FLIGHT", text));
        assert_eq!((read("0"), read("2")), (Ok(None), Ok(Some(2))));
        assert_eq!(
            fault(read("-1")),
            "MCP_MAX_IN_FLIGHT: must be a whole number of calls up to 1000, 0 for any, not \"-1\""
        );
        assert!(read("1000").is_ok() && read("1001").is_err());
    }
}
