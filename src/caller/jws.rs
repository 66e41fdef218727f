//! A token as a JWS in compact form (RFC 7515 section 7.1) whose payload is claims (RFC 7519), not verified yet.
//!
//! Everything is strict: base64url without padding and without stray bits, JSON without a name that comes twice. What
//! the header says of where a key is to be found (`jku`, `jwk`, `x5u`, `x5c`) isn't looked at.

use super::fault::TokenFault;
use crate::mcp::json;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine as _;
use serde_json::{Map, Value};

/// The algorithms that are accepted (RFC 7518 section 3.1, RFC 8037 section 3.1). `none` isn't one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// The algorithm of this name, which is case-sensitive.
    fn from_name(name: &str) -> Option<Self> {
        [Self::Hs256, Self::Rs256, Self::Es256, Self::EdDsa].into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Its name in headers and keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// A token taken apart. Nothing of it may be believed before the signature is verified.
#[derive(Clone, Debug, PartialEq)]
pub struct Jws<'a> {
    /// What it says that it is signed with.
    pub algorithm: Algorithm,
    /// The key's name. It is compared with names that are known, and used for nothing else.
    pub kid: Option<String>,
    /// What is signed: header and payload as they were sent.
    pub signed: &'a str,
    /// The claims.
    pub claims: Map<String, Value>,
    /// The signature's bytes.
    pub signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    /// Takes `token` apart.
    pub fn parse(token: &'a str) -> Result<Self, TokenFault> {
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenFault::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(TokenFault::Malformed)?;
        let header = object(header)?;
        if header.contains_key("crit") {
            return Err(TokenFault::Critical);
        }
        let algorithm = match header.get("alg") {
            Some(Value::String(name)) => Algorithm::from_name(name).ok_or(TokenFault::Algorithm)?,
            _ => return Err(TokenFault::Malformed),
        };
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid.clone()),
            Some(_) => return Err(TokenFault::Malformed),
        };
        Ok(Self { algorithm, kid, signed, claims: object(payload)?, signature: bytes(signature)? })
    }
}

/// A part that is a JSON object. A point, as more parts would have, is no base64url.
fn object(part: &str) -> Result<Map<String, Value>, TokenFault> {
    let text = String::from_utf8(bytes(part)?).map_err(|_| TokenFault::Malformed)?;
    match json::parse(&text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) | Err(_) => Err(TokenFault::Malformed),
    }
}

fn bytes(part: &str) -> Result<Vec<u8>, TokenFault> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenFault::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn encoded(text: &str) -> String {
        URL_SAFE_NO_PAD.encode(text)
    }

    fn token(header: &str, payload: &str) -> String {
        format!("{}.{}.{}", encoded(header), encoded(payload), encoded("signature"))
    }

    fn fault(header: &str, payload: &str) -> TokenFault {
        Jws::parse(&token(header, payload)).unwrap_err()
    }

    #[test]
    fn the_example_of_rfc_7515_is_taken_apart() {
        // Appendix A.1.1
        let signed = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
            eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let token = format!("{signed}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        let jws = Jws::parse(&token).unwrap();
        assert_eq!((jws.algorithm, jws.kid, jws.signed), (Algorithm::Hs256, None, signed));
        let claims = json!({"iss": "joe", "exp": 1_300_819_380, "http://example.com/is_root": true});
        assert_eq!(Value::Object(jws.claims), claims);
        assert_eq!((jws.signature.len(), jws.signature[0], jws.signature[31]), (32, 116, 121));
    }

    #[test]
    fn four_algorithms_are_accepted_and_no_other() {
        for algorithm in [Algorithm::Hs256, Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa] {
            let name = algorithm.name();
            let token = token(&json!({"alg": name, "kid": "../a"}).to_string(), "{}");
            let jws = Jws::parse(&token).unwrap();
            assert_eq!((jws.algorithm, jws.kid.as_deref()), (algorithm, Some("../a")));
        }
        for name in ["none", "None", "NONE", "", "hs256", "HS384", "RS512", "PS256", "ES384", "ES256K", "Ed448", "dir"]
        {
            assert_eq!(fault(&json!({"alg": name}).to_string(), "{}"), TokenFault::Algorithm, "{name}");
        }
    }

    #[test]
    fn a_header_is_an_object_whose_members_have_their_types() {
        for header in [
            "",
            "{",
            "[]",
            "null",
            "{}",
            r#"{"alg":null}"#,
            r#"{"alg":["HS256"]}"#,
            r#"{"alg":"HS256","kid":7}"#,
            r#"{"alg":"HS256","kid":null}"#,
            r#"{"alg":"HS256","alg":"none"}"#,
            r#"{"alg":"HS256"} x"#,
        ] {
            assert_eq!(fault(header, "{}"), TokenFault::Malformed, "{header}");
        }
        for crit in ["[]", "null", r#"["b64"]"#] {
            assert_eq!(fault(&format!(r#"{{"alg":"HS256","crit":{crit}}}"#), "{}"), TokenFault::Critical);
        }
    }

    #[test]
    fn a_payload_is_an_object_that_is_read_one_way_only() {
        for payload in ["", "7", r#"["sub"]"#, r#"{"sub":"a","sub":"b"}"#, r#"{"sub":"a""#, r#"{"exp":1e999}"#] {
            assert_eq!(fault(r#"{"alg":"HS256"}"#, payload), TokenFault::Malformed, "{payload}");
        }
    }

    #[test]
    fn parts_are_three_and_base64url_without_padding_or_stray_bits() {
        let good = token(r#"{"alg":"HS256"}"#, "{}");
        let (header, payload) = (encoded(r#"{"alg":"HS256"}"#), encoded("{}"));
        assert!(Jws::parse(&good).is_ok());
        for bad in [
            String::new(),
            ".".into(),
            "..".into(),
            header.clone(),
            format!("{header}.{payload}"),
            format!("{good}.{payload}"),
            format!("{good}.{payload}.{payload}"),
            format!("{header}.e30=.AAAA"),
            format!("{header}.{payload}.AAA="),
            format!("{header}.{payload}.AAB"),
            format!("{header}.{payload}.A"),
            format!("{header}.{payload}.AA+/"),
            format!("{header}.{payload}.AA A"),
            format!("{header}.{}.AAAA", URL_SAFE_NO_PAD.encode(b"\"\xff\"")),
        ] {
            assert_eq!(Jws::parse(&bad), Err(TokenFault::Malformed), "{bad}");
        }
        assert_eq!(Jws::parse(&format!("{header}.{payload}.")).unwrap().signature, [] as [u8; 0]);
    }
}
