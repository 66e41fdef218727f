//! The keys of an issuer (RFC 7517, RFC 7518 section 6, RFC 8037): those of a set that can be used here, and which of
//! them a token may be signed with.
//!
//! Each key is for one algorithm, which its type, its curve and what it says of itself decide. So a token can't choose
//! how a key is used: no RSA key is ever the secret of an HMAC, and no set has symmetric keys.

use super::jws::Algorithm;
use crate::mcp::json;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine as _;
use serde_json::{json, Map, Value};

/// The most keys of a set that are kept.
const MOST_KEYS: usize = 100;

/// The most keys that are tried for a token that doesn't name its own.
const MOST_TRIED: usize = 4;

/// The least modulus of an RSA key, in bytes (RFC 7518 section 3.3: 2048 bits).
const LEAST_RSA: usize = 256;

/// The largest, in bytes: beyond it a check takes too long.
const LARGEST_RSA: usize = 1_024;

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwk {
    /// Its name.
    pub kid: Option<String>,
    /// The only one that it is used with.
    pub algorithm: Algorithm,
    /// As JSON, with nothing in it but what makes it this key.
    pub json: String,
}

/// The keys of a set that can be used. Others are passed over (RFC 7517 section 5).
pub fn parse_set(text: &str) -> Result<Vec<Jwk>, String> {
    let set = json::parse(text).map_err(|_| "the key set isn't JSON that can be read".to_owned())?;
    match set.get("keys") {
        Some(Value::Array(keys)) => {
            Ok(keys.iter().filter_map(|key| usable(key.as_object()?)).take(MOST_KEYS).collect())
        }
        _ => Err("the key set has no array of keys".to_owned()),
    }
}

fn usable(key: &Map<String, Value>) -> Option<Jwk> {
    let member = |name: &str| key.get(name).and_then(Value::as_str);
    let sized = |name: &str| Some(URL_SAFE_NO_PAD.decode(member(name)?).ok()?.len());
    let (algorithm, json) = match (member("kty")?, member("crv")) {
        ("RSA", _) if (LEAST_RSA..=LARGEST_RSA).contains(&sized("n")?) => {
            (Algorithm::Rs256, json!({"kty": "RSA", "n": member("n")?, "e": member("e")?}))
        }
        ("EC", Some("P-256")) if (sized("x")?, sized("y")?) == (32, 32) => {
            (Algorithm::Es256, json!({"kty": "EC", "crv": "P-256", "x": member("x")?, "y": member("y")?}))
        }
        ("OKP", Some("Ed25519")) if sized("x")? == 32 => {
            (Algorithm::EdDsa, json!({"kty": "OKP", "crv": "Ed25519", "x": member("x")?}))
        }
        _ => return None,
    };
    // RFC 9864 has another name for what JWS always called EdDSA.
    let for_algorithm = key
        .get("alg")
        .and_then(Value::as_str)
        .is_none_or(|name| name == algorithm.name() || algorithm == Algorithm::EdDsa && name == "Ed25519");
    let for_signatures = key.get("use").is_none_or(|used| used == "sig")
        && key.get("key_ops").is_none_or(|all| all.as_array().is_some_and(|all| all.iter().any(|one| one == "verify")));
    let kid = key.get("kid").and_then(Value::as_str).map(str::to_owned);
    (for_algorithm && for_signatures).then(|| Jwk { kid, algorithm, json: json.to_string() })
}

/// What a set has for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The keys that it may be signed with, at least one.
    Keys(Vec<Jwk>),
    /// The key that it names is for another algorithm.
    Misfit,
    /// Nothing: the key may be newer than the set.
    Unknown,
}

/// Which of `keys` a token may be signed with.
pub fn choose(keys: &[Jwk], algorithm: Algorithm, kid: Option<&str>) -> Choice {
    let named = |key: &&Jwk| kid.is_none() || key.kid.as_deref() == kid;
    let fitting = keys.iter().filter(named).filter(|key| key.algorithm == algorithm);
    let fitting: Vec<Jwk> = fitting.take(MOST_TRIED).cloned().collect();
    match (fitting.is_empty(), kid) {
        (false, _) => Choice::Keys(fitting),
        (true, Some(_)) if keys.iter().any(|key| named(&key)) => Choice::Misfit,
        (true, _) => Choice::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(length: usize) -> String {
        URL_SAFE_NO_PAD.encode(vec![0x80; length])
    }

    fn rsa() -> Value {
        json!({"kty": "RSA", "n": encoded(256), "e": "AQAB"})
    }

    fn ec() -> Value {
        json!({"kty": "EC", "crv": "P-256", "x": encoded(32), "y": encoded(32)})
    }

    fn okp() -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "x": encoded(32)})
    }

    fn with(mut key: Value, name: &str, value: Value) -> Value {
        key[name] = value;
        key
    }

    fn parsed(keys: &[Value]) -> Vec<Jwk> {
        parse_set(&json!({"keys": keys, "more": 1}).to_string()).unwrap()
    }

    fn algorithms(keys: &[Value]) -> Vec<Algorithm> {
        parsed(keys).iter().map(|key| key.algorithm).collect()
    }

    #[test]
    fn a_keys_type_and_curve_say_what_it_is_for() {
        let all = [rsa(), ec(), okp()];
        assert_eq!(algorithms(&all), [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa]);
        let key = with(with(okp(), "kid", json!("k")), "d", json!("private"));
        let [key] = &parsed(&[key])[..] else { panic!() };
        assert_eq!(key.kid.as_deref(), Some("k"));
        assert_eq!(serde_json::from_str::<Value>(&key.json).unwrap(), okp(), "and nothing else of it is kept");
        for (key, json) in parsed(&all).iter().zip(&all) {
            assert_eq!(serde_json::from_str::<Value>(&key.json).unwrap(), *json);
            assert_eq!(key.kid, None);
        }
    }

    #[test]
    fn a_key_that_says_that_it_is_for_something_else_isnt_used() {
        for (key, alg) in [(rsa(), "RS256"), (ec(), "ES256"), (okp(), "EdDSA"), (okp(), "Ed25519")] {
            let good = with(with(key, "alg", json!(alg)), "use", json!("sig"));
            assert_eq!(parsed(&[with(good.clone(), "key_ops", json!(["sign", "verify"]))]).len(), 1);
            for (member, value) in [
                ("use", json!("enc")),
                ("use", json!(null)),
                ("key_ops", json!(["sign"])),
                ("key_ops", json!("verify")),
                ("alg", json!("PS256")),
                ("alg", json!("HS256")),
                ("kty", json!("oct")),
                ("kty", json!(null)),
            ] {
                assert_eq!(parsed(&[with(good.clone(), member, value.clone())]), [], "{member}: {value}");
            }
        }
        assert_eq!(parsed(&[with(rsa(), "alg", json!("Ed25519"))]), []);
    }

    #[test]
    fn a_key_of_another_size_or_curve_isnt_used() {
        let symmetric = json!({"kty": "oct", "k": encoded(32)});
        let wrong = [
            symmetric,
            with(rsa(), "n", json!(encoded(255))),
            with(rsa(), "n", json!(encoded(1_025))),
            with(rsa(), "n", json!("===")),
            with(rsa(), "e", json!(3)),
            with(ec(), "crv", json!("P-384")),
            with(ec(), "crv", json!("Ed25519")),
            with(ec(), "x", json!(encoded(31))),
            with(ec(), "y", json!(encoded(33))),
            with(ec(), "y", json!(null)),
            with(okp(), "crv", json!("Ed448")),
            with(okp(), "crv", json!("P-256")),
            with(okp(), "x", json!(encoded(57))),
            json!({}),
            json!(7),
        ];
        for key in wrong {
            assert_eq!(parsed(std::slice::from_ref(&key)), [], "{key}");
        }
        assert_eq!(parsed(&[with(rsa(), "n", json!(encoded(1_024)))]).len(), 1);
        assert_eq!(parsed(&vec![okp(); 101]).len(), 100);
    }

    #[test]
    fn what_is_no_set_is_a_failure() {
        for text in ["", "<html>", "[]", "7", "{}", r#"{"keys":{}}"#, r#"{"keys":[],"keys":[]}"#] {
            assert!(parse_set(text).unwrap_err().starts_with("the key set "), "{text}");
        }
        assert_eq!(parse_set(r#"{"keys":[]}"#), Ok(vec![]));
    }

    #[test]
    fn a_token_gets_the_key_that_it_names_if_that_is_for_its_algorithm() {
        let keys = parsed(&[with(rsa(), "kid", json!("r")), with(ec(), "kid", json!("e")), okp()]);
        let [r, e, o] = &keys[..] else { panic!() };
        let chosen = |algorithm, kid| choose(&keys, algorithm, kid);
        assert_eq!(chosen(Algorithm::Rs256, Some("r")), Choice::Keys(vec![r.clone()]));
        assert_eq!(chosen(Algorithm::Es256, Some("e")), Choice::Keys(vec![e.clone()]));
        assert_eq!(chosen(Algorithm::Rs256, Some("e")), Choice::Misfit);
        assert_eq!(chosen(Algorithm::Hs256, Some("r")), Choice::Misfit);
        for kid in ["", "R", "x", "../r"] {
            assert_eq!(chosen(Algorithm::Rs256, Some(kid)), Choice::Unknown, "{kid}");
        }
        assert_eq!(chosen(Algorithm::EdDsa, None), Choice::Keys(vec![o.clone()]));
        assert_eq!(chosen(Algorithm::Hs256, None), Choice::Unknown);
        assert_eq!(choose(&[], Algorithm::Rs256, Some("r")), Choice::Unknown);
    }

    #[test]
    fn without_a_name_a_few_keys_are_tried() {
        let keys = parsed(&vec![okp(); 9]);
        assert_eq!(choose(&keys, Algorithm::EdDsa, None), Choice::Keys(keys[..4].to_vec()));
        assert_eq!(choose(&keys, Algorithm::EdDsa, Some("k")), Choice::Unknown);
    }
}
