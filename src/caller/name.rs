//! The names of callers that aren't known by their address.

use super::fault::TokenFault;
use super::{CallerKey, CallerKind};
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine as _;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The caller that verified claims name: by the issuer, and by the first of the claims `names` that is there.
pub fn of_claims(claims: &Map<String, Value>, names: &[String]) -> Result<CallerKey, TokenFault> {
    let issuer = claims.get("iss").and_then(Value::as_str).unwrap_or_default();
    let found = names.iter().find_map(|name| Some((name, text(claims.get(name)?)?)));
    let (claim, value) = found.ok_or(TokenFault::Nameless)?;
    Ok(of_claim(issuer, claim, &value))
}

/// The caller of one claim of an issuer's tokens. It outlives each of them.
pub fn of_claim(issuer: &str, claim: &str, value: &str) -> CallerKey {
    let mut digest = Sha256::new();
    for part in [issuer, claim, value] {
        // Without the zero bytes, ("ab", "c") and ("a", "bc") would be one caller.
        digest.update(part.as_bytes());
        digest.update([0]);
    }
    let name = format!("token:{}", URL_SAFE_NO_PAD.encode(digest.finalize()));
    CallerKey { name, kind: CallerKind::Token }
}

/// A claim's value as text: a string that isn't empty, or an integer. Nothing else names anybody.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        _ => None,
    }
}

/// The caller of a token that isn't verified: its digest, and never the token.
pub fn of_digest(token: &str) -> CallerKey {
    let name = format!("digest:{}", URL_SAFE_NO_PAD.encode(Sha256::digest(token)));
    CallerKey { name, kind: CallerKind::Token }
}

/// A caller by its address, where others have tokens: the same name that it would have otherwise.
pub fn anonymous(address: CallerKey) -> CallerKey {
    CallerKey { kind: CallerKind::Anonymous, ..address }
}

/// All callers without a token together.
pub fn shared() -> CallerKey {
    CallerKey { name: "anonymous".to_owned(), kind: CallerKind::Shared }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::address;
    use serde_json::json;

    const ISSUER: &str = "https://issuer.example";

    fn found(claims: Value, names: &[&str]) -> Result<CallerKey, TokenFault> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        of_claims(claims.as_object().unwrap(), &names)
    }

    #[test]
    fn the_names_are_what_they_always_were() {
        // printf 'https://issuer.example\0sub\0alice\0' | openssl dgst -sha256 -binary | basenc --base64url
        let alice = of_claim(ISSUER, "sub", "alice");
        assert_eq!(alice.name(), "token:orAkeW24byTXEdf9w7ZGh2EWE0I-7k2cvkaSwHHMoSA");
        assert_eq!(alice.kind(), "token");
        // printf abc | openssl dgst -sha256 -binary | basenc --base64url
        let digest = of_digest("abc");
        assert_eq!((digest.name(), digest.kind()), ("digest:ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0", "token"));
        assert_eq!((shared().name(), shared().kind()), ("anonymous", "shared"));
        let anonymous = anonymous(address::from_header(Some("192.0.2.1")));
        assert_eq!((anonymous.name(), anonymous.kind()), ("address:192.0.2.1", "anonymous"));
    }

    #[test]
    fn the_first_claim_that_is_there_names_the_caller() {
        let claims = json!({"iss": ISSUER, "client_id": "app", "jti": "1", "sub": "alice"});
        let order = ["sub", "client_id", "jti"];
        assert_eq!(found(claims.clone(), &order), Ok(of_claim(ISSUER, "sub", "alice")));
        assert_eq!(found(claims, &["jti", "sub"]), Ok(of_claim(ISSUER, "jti", "1")));
        for nobody in [json!(""), json!(null), json!(1.5), json!(true), json!(["alice"]), json!({})] {
            let claims = json!({"iss": ISSUER, "sub": nobody, "client_id": "app"});
            assert_eq!(found(claims, &order), Ok(of_claim(ISSUER, "client_id", "app")), "{nobody}");
        }
    }

    #[test]
    fn an_integer_is_its_decimal_text() {
        for (value, text) in [(json!(7), "7"), (json!(-7), "-7"), (json!(u64::MAX), "18446744073709551615")] {
            assert_eq!(found(json!({"iss": ISSUER, "sub": value}), &["sub"]), Ok(of_claim(ISSUER, "sub", text)));
        }
    }

    #[test]
    fn a_token_that_names_nobody_is_refused_and_not_pooled() {
        for claims in [json!({}), json!({"iss": ISSUER, "name": "alice"}), json!({"sub": ""}), json!({"sub": [1]})] {
            assert_eq!(found(claims.clone(), &["sub", "jti"]), Err(TokenFault::Nameless), "{claims}");
        }
    }

    #[test]
    fn issuer_claim_and_value_each_tell_callers_apart() {
        let all = [
            of_claim("", "sub", "alice"),
            of_claim("a", "sub", "alice"),
            of_claim("as", "ub", "alice"),
            of_claim("a", "suba", "lice"),
            of_claim("a", "jti", "alice"),
            of_claim("a", "sub", "alic"),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all.iter().skip(index + 1).all(|other| other != one));
        }
        assert_eq!(found(json!({"sub": "alice"}), &["sub"]), Ok(all[0].clone()));
    }
}
