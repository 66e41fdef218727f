//! What holds for one caller: its limits, by its plan or as for everybody, and the bucket that it shares with others.

use crate::caller::{Caller, CallerKind};
use crate::config::limits::Limits;
use crate::config::Config;
use crate::limiter::admit::{Shared, Whose};
use crate::limiter::policy::Policy;
use crate::limiter::shards;
use crate::limiter::standing::bucket_item;
use serde_json::Value;

/// The bucket of all callers without a token. Where they are one caller it is that caller's, which has the same name.
const ANONYMOUS: &str = "anonymous";

/// The bucket of all callers whose tokens aren't verified.
const SHARED: &str = "shared";

/// What holds for a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its own limits.
    pub limits: Limits,
    /// Whose they are.
    pub whose: Whose,
    /// The bucket that it shares: it is asked first, since the caller has made its key itself, or can.
    pub shared: Option<Shared>,
    /// Whether its token names a plan that there isn't.
    pub unknown_plan: bool,
}

impl Subject {
    /// What `config` says of `caller`.
    pub fn new(caller: &Caller, config: &Config) -> Self {
        let everybody = Self { limits: config.limits, whose: Whose::Caller, shared: None, unknown_plan: false };
        let burst = config.limits.bucket.map_or(0, |bucket| bucket.capacity());
        let share = |name, whose, bucket: Option<Policy>| {
            let bucket = bucket?;
            let count = shards::count(bucket, burst);
            let shard = (count > 1).then(|| caller.key.nth_of(count));
            Some(Shared { name, shard, whose, bucket: shards::share(bucket, count) })
        };
        if caller.key.is(CallerKind::Shared) {
            let limits = Limits { bucket: config.anonymous_bucket, ..Limits::default() };
            return Self { limits, whose: Whose::Anonymous, ..everybody };
        }
        if caller.key.is(CallerKind::Anonymous) {
            return Self { shared: share(ANONYMOUS, Whose::Anonymous, config.anonymous_bucket), ..everybody };
        }
        if caller.unverified {
            return Self { shared: share(SHARED, Whose::Shared, config.shared_bucket), ..everybody };
        }
        let named = config.plan_claim.as_ref().and_then(|claim| caller.claims.get(claim));
        match named.map(|name| name.as_str().and_then(|name| config.plan(name))) {
            None => everybody,
            Some(Some(limits)) => Self { limits: *limits, ..everybody },
            Some(None) => Self { unknown_plan: named != Some(&Value::Null), ..everybody },
        }
    }

    /// The shared bucket, as header fields tell it.
    pub fn shared_item(&self) -> Option<String> {
        self.shared.map(|shared| bucket_item(shared.name, shared.bucket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{address, name};
    use crate::limiter::policy::TOKEN;
    use serde_json::json;

    fn config(vars: Value) -> Config {
        let mut all = json!({"MCP_RATE_LIMIT_ANONYMOUS": "7", "MCP_RATE_LIMIT_SHARED": "9", "MCP_QUOTA": "5/day"});
        all.as_object_mut().unwrap().extend(vars.as_object().unwrap().clone());
        crate::config::parse(all.as_object().unwrap(), &[]).unwrap()
    }

    fn holds(caller: &Caller, vars: Value) -> (Subject, Config) {
        let config = config(vars);
        (Subject::new(caller, &config), config)
    }

    fn token(claims: Value) -> Caller {
        let claims = claims.as_object().unwrap().clone();
        Caller { claims, ..Caller::plain(name::of_claim("", "sub", "alice")) }
    }

    #[test]
    fn a_caller_by_address_has_what_everybody_has() {
        let (subject, config) = holds(&Caller::plain(address::from_header(Some("192.0.2.1"))), json!({}));
        assert_eq!((subject.limits, subject.whose, subject.shared), (config.limits, Whose::Caller, None));
        assert_eq!(subject.shared_item(), None);
    }

    #[test]
    fn callers_without_a_token_share_a_bucket_beside_their_own_or_have_that_one_alone() {
        let anonymous = Caller::plain(name::anonymous(address::from_header(Some("192.0.2.1"))));
        let (subject, config) = holds(&anonymous, json!({}));
        let bucket = config.anonymous_bucket.unwrap();
        assert_eq!(subject.shared, Some(Shared { name: "anonymous", shard: None, whose: Whose::Anonymous, bucket }));
        assert_eq!((subject.limits, subject.whose), (config.limits, Whose::Caller));
        assert_eq!(subject.shared_item().unwrap(), r#""anonymous";q=30;w=5"#);
        let (alone, _) = holds(&Caller::plain(name::shared()), json!({}));
        assert_eq!(alone.limits, Limits { bucket: Some(bucket), ..Limits::default() });
        assert_eq!((alone.whose, alone.shared), (Whose::Anonymous, None));
        assert_eq!(holds(&anonymous, json!({"MCP_RATE_LIMIT_ANONYMOUS": "0"})).0.shared, None);
    }

    #[test]
    fn unverified_tokens_share_a_bucket_beside_their_own() {
        let caller = Caller { unverified: true, ..token(json!({})) };
        let (subject, config) = holds(&caller, json!({}));
        let bucket = config.shared_bucket.unwrap();
        assert_eq!(subject.shared, Some(Shared { name: "shared", shard: None, whose: Whose::Shared, bucket }));
        assert_eq!(holds(&caller, json!({"MCP_RATE_LIMIT_SHARED": "0"})).0.shared, None);
        let (split, _) = holds(&caller, json!({"MCP_RATE_LIMIT_SHARED": "2000"}));
        let shared = split.shared.unwrap();
        assert_eq!((shared.bucket.refill(), shared.bucket.capacity_tokens()), (500 * TOKEN, 1_000));
        assert_eq!(shared.object(), format!("shared:{}", caller.key.nth_of(4)));
        assert_eq!(split.shared_item().unwrap(), r#""shared";q=1000;w=2"#);
    }

    #[test]
    fn a_verified_token_chooses_its_plan_and_an_unknown_one_is_the_default_and_is_seen() {
        let plans = json!({"MCP_PLAN_CLAIM": "plan", "MCP_PLANS": {"pro": {"burst": 99}}});
        let chosen = |claims| holds(&token(claims), plans.clone());
        let (pro, config) = chosen(json!({"plan": "pro"}));
        assert_eq!((pro.limits, pro.unknown_plan), (*config.plan("pro").unwrap(), false));
        for (claims, unknown) in [
            (json!({"plan": "gold"}), true),
            (json!({"plan": 7}), true),
            (json!({"plan": null}), false),
            (json!({"tier": "pro"}), false),
        ] {
            let (subject, config) = chosen(claims);
            assert_eq!((subject.limits, subject.unknown_plan), (config.limits, unknown));
        }
    }
}
