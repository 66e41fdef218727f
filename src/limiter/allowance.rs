//! What is left to a caller, as clients are told: in `_meta["sluice/allowance"]` and in the RateLimit header fields
//! (draft-ietf-httpapi-ratelimit-headers-10).

use super::bucket::Debt;
use super::policy::{whole_ms, whole_seconds, Policy};
use serde::{Deserialize, Serialize};

/// The name of the caller's bucket in the RateLimit header fields.
const POLICY_NAME: &str = "tools-call";

/// What is left of a caller's bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Allowance {
    /// Tokens that the bucket holds.
    pub limit: u64,
    /// Whole tokens that can be spent now.
    pub remaining: u64,
    /// Milliseconds until one more can; 0 when the bucket is full.
    pub next_token_ms: u64,
}

impl Allowance {
    /// What `policy` leaves on `debt`, as of the moment at which the debt was counted.
    pub fn new(debt: Debt, policy: Policy) -> Self {
        Self {
            limit: policy.capacity_tokens(),
            remaining: debt.remaining(policy),
            next_token_ms: whole_ms(debt.next_token(policy)),
        }
    }

    /// The value of `RateLimit`: what remains, and the seconds until there is more.
    pub fn rate_limit_header(&self) -> String {
        let remaining = self.remaining;
        match self.next_token_ms {
            0 => format!("\"{POLICY_NAME}\";r={remaining}"),
            ms => format!("\"{POLICY_NAME}\";r={remaining};t={}", whole_seconds(ms)),
        }
    }
}

/// The value of `RateLimit-Policy`: the capacity, and the seconds in which an empty bucket fills.
pub fn policy_header(policy: Policy) -> String {
    format!("\"{POLICY_NAME}\";q={};w={}", policy.capacity_tokens(), policy.window_seconds())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::policy::TOKEN;

    fn policy() -> Policy {
        Policy::new(30 * TOKEN, TOKEN / 2).unwrap()
    }

    #[test]
    fn the_default_bucket_in_header_fields() {
        assert_eq!(policy_header(policy()), r#""tools-call";q=30;w=60"#);
        let used = Allowance::new(Debt { owed: 18 * TOKEN, at: 0 }, policy());
        assert_eq!(used.rate_limit_header(), r#""tools-call";r=12;t=2"#);
        let full = Allowance::new(Debt::default(), policy());
        assert_eq!(full.rate_limit_header(), r#""tools-call";r=30"#, "a full bucket gets no more");
    }

    #[test]
    fn the_meta_field_is_what_it_always_was() {
        let used = Allowance::new(Debt { owed: 18 * TOKEN, at: 0 }, policy());
        let json = serde_json::to_string(&used).unwrap();
        assert_eq!(json, r#"{"limit":30,"remaining":12,"nextTokenMs":2000}"#);
    }
}
