//! For whom and until when a token is good (RFC 7519 section 4.1). Looked at before the signature, since it costs
//! nothing: a token that is over needs no key.

use super::fault::TokenFault;
use serde_json::{Map, Value};

/// How much the clocks of issuer and server may differ, in seconds.
const LEEWAY: f64 = 60.0;

/// Checks the registered claims at `now`, in microseconds since 1970. Without a named issuer or audience any will do;
/// a token without `exp` doesn't expire.
pub fn check(
    claims: &Map<String, Value>,
    issuer: Option<&str>,
    audience: Option<&str>,
    now: u64,
) -> Result<(), TokenFault> {
    let given = match claims.get("iss") {
        None => None,
        // A zero byte ends the issuer in a caller's name.
        Some(Value::String(given)) if !given.contains('\0') => Some(given.as_str()),
        Some(_) => return Err(TokenFault::Malformed),
    };
    if issuer.is_some() && given != issuer {
        return Err(TokenFault::Issuer);
    }
    if audience.is_some_and(|audience| !is_for(audience, claims.get("aud"))) {
        return Err(TokenFault::Audience);
    }
    let now = now as f64 / 1_000_000.0;
    if seconds(claims, "exp")?.is_some_and(|end| now >= end + LEEWAY) {
        return Err(TokenFault::Expired);
    }
    if seconds(claims, "nbf")?.is_some_and(|begin| now + LEEWAY < begin) {
        return Err(TokenFault::NotYetValid);
    }
    Ok(())
}

/// `aud` is one text, or an array that this audience is one of.
fn is_for(audience: &str, given: Option<&Value>) -> bool {
    match given {
        Some(Value::String(given)) => given == audience,
        Some(Value::Array(all)) => all.iter().any(|given| given.as_str() == Some(audience)),
        _ => false,
    }
}

/// Seconds since 1970, which may have a fraction.
fn seconds(claims: &Map<String, Value>, name: &str) -> Result<Option<f64>, TokenFault> {
    match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or(TokenFault::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: u64 = 1_000_000;

    fn at(now_us: u64, claims: Value) -> Result<(), TokenFault> {
        check(claims.as_object().unwrap(), Some("i"), Some("a"), now_us)
    }

    /// With issuer and audience as they should be.
    fn at_now(mut claims: Value) -> Result<(), TokenFault> {
        claims["iss"] = json!("i");
        claims["aud"] = json!("a");
        at(NOW * 1_000_000, claims)
    }

    #[test]
    fn the_issuer_is_the_named_one() {
        assert_eq!(at(0, json!({"iss": "i", "aud": "a"})), Ok(()));
        for claims in [json!({"aud": "a"}), json!({"iss": "I", "aud": "a"}), json!({"iss": "i/", "aud": "a"})] {
            assert_eq!(at(0, claims.clone()), Err(TokenFault::Issuer), "{claims}");
        }
        for issuer in [json!(null), json!(7), json!(["i"]), json!("i\0")] {
            assert_eq!(at(0, json!({"iss": issuer, "aud": "a"})), Err(TokenFault::Malformed));
        }
    }

    #[test]
    fn the_audience_is_the_named_one_or_has_it() {
        for audience in [json!("a"), json!(["a"]), json!(["b", 7, "a"])] {
            assert_eq!(at(0, json!({"iss": "i", "aud": audience})), Ok(()));
        }
        for audience in [json!("b"), json!("A"), json!([]), json!(["b"]), json!([["a"]]), json!(null), json!({"a": 1})]
        {
            assert_eq!(at(0, json!({"iss": "i", "aud": audience})), Err(TokenFault::Audience));
        }
        assert_eq!(at(0, json!({"iss": "i"})), Err(TokenFault::Audience));
    }

    #[test]
    fn where_none_is_named_any_will_do() {
        for claims in [json!({}), json!({"iss": "x", "aud": "y"}), json!({"aud": 7})] {
            assert_eq!(check(claims.as_object().unwrap(), None, None, 0), Ok(()));
        }
        let wrong = json!({"iss": 7});
        assert_eq!(check(wrong.as_object().unwrap(), None, None, 0), Err(TokenFault::Malformed));
    }

    #[test]
    fn it_has_a_minute_beyond_its_end() {
        for end in [json!(NOW + 1), json!(NOW), json!(NOW - 59), json!(999_940.5), json!(1e12)] {
            assert_eq!(at_now(json!({"exp": end})), Ok(()), "{end}");
        }
        for end in [json!(NOW - 60), json!(NOW - 61), json!(0), json!(-1), json!(999_940.0)] {
            assert_eq!(at_now(json!({"exp": end})), Err(TokenFault::Expired), "{end}");
        }
        let last = at(NOW * 1_000_000 - 1, json!({"iss": "i", "aud": "a", "exp": NOW - 60}));
        assert_eq!(last, Ok(()), "to the microsecond");
        assert_eq!(at_now(json!({})), Ok(()), "without an end it has none");
    }

    #[test]
    fn it_has_a_minute_before_its_beginning() {
        for begin in [json!(0), json!(NOW), json!(NOW + 60), json!(1_000_059.5)] {
            assert_eq!(at_now(json!({"nbf": begin})), Ok(()), "{begin}");
        }
        for begin in [json!(NOW + 61), json!(1_000_060.5), json!(1e12)] {
            assert_eq!(at_now(json!({"nbf": begin})), Err(TokenFault::NotYetValid), "{begin}");
        }
    }

    #[test]
    fn times_are_numbers() {
        for name in ["exp", "nbf"] {
            for value in [json!("2000000"), json!(null), json!([1]), json!(true)] {
                assert_eq!(at_now(json!({name: value})), Err(TokenFault::Malformed), "{name}: {value}");
            }
        }
    }
}
