//! Who is a caller (`MCP_CALLER`), and by what a token is verified.

use super::variables::Variables;
use super::{address, Fault};
use serde_json::Value;
use url::{Host, Url};

/// The least secret of HS256, in bytes (RFC 7518 section 3.2).
const LEAST_SECRET: usize = 32;

/// Who is a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// An address.
    Address,
    /// Whoever has a token.
    Token {
        /// What makes a token good.
        trust: Trust,
        /// What becomes of those without one.
        anonymous: Anonymous,
    },
}

impl Identity {
    /// Whether callers without a token are let in where others have one.
    pub fn anonymous_may_call(&self) -> bool {
        matches!(self, Self::Token { anonymous: Anonymous::Address | Anonymous::Shared, .. })
    }

    /// Whether tokens are verified here.
    pub fn is_verified(&self) -> bool {
        matches!(self, Self::Token { trust: Trust::Verified(_), .. })
    }

    /// Whether tokens aren't verified here.
    pub fn is_unverified(&self) -> bool {
        matches!(self, Self::Token { trust: Trust::Digest, .. })
    }
}

/// What makes a token good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is verified.
    Verified(Verification),
    /// Nothing: somebody behind verifies it.
    Digest,
}

/// How tokens are verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// The secret of HS256.
    pub secret: Option<String>,
    /// Where the keys of the other algorithms are.
    pub jwks_url: Option<String>,
    /// The issuer; None takes any whose key fits.
    pub issuer: Option<String>,
    /// Whom tokens must be for; None takes those for anybody.
    pub audience: Option<String>,
    /// The claims that name a caller; the first that is there counts.
    pub claims: Vec<String>,
}

/// What becomes of those without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anonymous {
    /// They are refused.
    Refuse,
    /// Each is known by its address.
    Address,
    /// They are one caller together.
    Shared,
}

/// Reads all that is said of callers. What is wrong by itself is a fault; what isn't needed with addresses isn't.
pub(super) fn parse(variables: &Variables<'_>) -> Result<Identity, Fault> {
    let by_token = variables.one_of("MCP_CALLER", "address", &["address", "token"])? == 1;
    let anonymous = match variables.one_of("MCP_ANONYMOUS", "refuse", &["refuse", "address", "shared"])? {
        0 => Anonymous::Refuse,
        1 => Anonymous::Address,
        _ => Anonymous::Shared,
    };
    let digest = variables.one_of("MCP_TOKEN_UNVERIFIED", "", &["", "digest"])? == 1;
    let verification = Verification {
        secret: secret(variables.get("MCP_JWT_SECRET"))?,
        jwks_url: optional(variables, "MCP_JWKS_URL")?.map(|url| address("MCP_JWKS_URL", &url)).transpose()?,
        issuer: optional(variables, "MCP_JWT_ISSUER")?,
        audience: optional(variables, "MCP_JWT_AUDIENCE")?,
        claims: claims(&variables.text("MCP_CALLER_CLAIMS", "sub,client_id,jti")?)?,
    };
    let can_verify = verification.secret.is_some() || verification.jwks_url.is_some();
    match (by_token, digest, can_verify) {
        (false, ..) => Ok(Identity::Address),
        (true, true, true) => {
            let what = "digest says that tokens aren't verified, but MCP_JWT_SECRET or MCP_JWKS_URL is set";
            Err(Fault::new("MCP_TOKEN_UNVERIFIED", what))
        }
        (true, false, false) => {
            let what = "token needs something to verify by: MCP_JWT_SECRET or MCP_JWKS_URL (or MCP_TOKEN_UNVERIFIED)";
            Err(Fault::new("MCP_CALLER", what))
        }
        (true, true, false) => Ok(Identity::Token { trust: Trust::Digest, anonymous }),
        (true, false, true) => Ok(Identity::Token { trust: Trust::Verified(verification), anonymous }),
    }
}

/// Where clients get tokens (RFC 9728 section 2, `authorization_servers`), as they are written.
pub(super) fn authorization_servers(variables: &Variables<'_>) -> Result<Vec<String>, Fault> {
    let name = "MCP_AUTHORIZATION_SERVERS";
    items(&variables.text(name, "")?).map(|url| address(name, url)).collect()
}

/// A text that may be absent, which an empty one is too.
fn optional(variables: &Variables<'_>, name: &str) -> Result<Option<String>, Fault> {
    variables.text(name, "").map(|text| Some(text).filter(|text| !text.is_empty()))
}

/// The parts of a list with commas.
fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// The secret, to the byte: blanks at its ends are part of it.
fn secret(given: Option<&Value>) -> Result<Option<String>, Fault> {
    match given {
        None => Ok(None),
        Some(Value::String(secret)) if secret.len() >= LEAST_SECRET => Ok(Some(secret.clone())),
        Some(_) => {
            let what = format!("must be text of at least {LEAST_SECRET} bytes (RFC 7518 section 3.2)");
            Err(Fault::new("MCP_JWT_SECRET", what))
        }
    }
}

fn claims(list: &str) -> Result<Vec<String>, Fault> {
    let claims: Vec<String> = items(list).map(str::to_owned).collect();
    if claims.is_empty() || claims.iter().any(|claim| claim.contains('\0')) {
        return Err(Fault::new("MCP_CALLER_CLAIMS", "must be names of claims, separated by commas, at least one"));
    }
    Ok(claims)
}

/// An address with TLS, or one on this machine; as it is written.
fn address(variable: &str, given: &str) -> Result<String, Fault> {
    let is_safe = |url: &Url| match url.scheme() {
        "https" => true,
        "http" => url.host().is_some_and(|host| is_loopback(&host)),
        _ => false,
    };
    address::parse(variable, given, is_safe, "an https address (http on a loopback host, for tests)")?;
    Ok(given.to_owned())
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    const JWKS: &str = "https://issuer.example/jwks.json";

    fn parsed(variables: Value) -> Result<Identity, Fault> {
        parse(&Variables(variables.as_object().unwrap()))
    }

    #[track_caller]
    fn fault(variables: Value, variable: &str) -> String {
        let fault = parsed(variables).unwrap_err();
        assert_eq!(fault.variable, variable);
        fault.what
    }

    fn token(mut variables: Value) -> Value {
        variables["MCP_CALLER"] = json!("token");
        variables
    }

    fn verification(variables: Value) -> Verification {
        match parsed(token(variables)) {
            Ok(Identity::Token { trust: Trust::Verified(verification), anonymous: Anonymous::Refuse }) => verification,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn with_addresses_the_rest_is_read_and_not_needed() {
        assert_eq!(parsed(json!({})), Ok(Identity::Address));
        let all = json!({
            "MCP_CALLER": "address", "MCP_JWKS_URL": JWKS, "MCP_JWT_SECRET": SECRET, "MCP_ANONYMOUS": "shared",
            "MCP_TOKEN_UNVERIFIED": "digest",
        });
        assert_eq!(parsed(all), Ok(Identity::Address));
        fault(json!({"MCP_JWKS_URL": "x"}), "MCP_JWKS_URL");
    }

    #[test]
    fn what_tokens_are_verified_by() {
        let least = verification(json!({"MCP_JWT_SECRET": SECRET}));
        assert_eq!(
            least,
            Verification {
                secret: Some(SECRET.to_owned()),
                jwks_url: None,
                issuer: None,
                audience: None,
                claims: ["sub", "client_id", "jti"].map(str::to_owned).to_vec(),
            }
        );
        let most = verification(json!({
            "MCP_JWT_SECRET": SECRET, "MCP_JWKS_URL": JWKS, "MCP_JWT_ISSUER": "i", "MCP_JWT_AUDIENCE": " a ",
            "MCP_CALLER_CLAIMS": " azp , ,sub",
        }));
        assert_eq!((most.secret.as_deref(), most.jwks_url.as_deref()), (Some(SECRET), Some(JWKS)));
        assert_eq!((most.issuer.as_deref(), most.audience.as_deref()), (Some("i"), Some("a")));
        assert_eq!(most.claims, ["azp", "sub"]);
        let empty =
            json!({"MCP_JWT_SECRET": SECRET, "MCP_JWKS_URL": "", "MCP_JWT_ISSUER": "", "MCP_JWT_AUDIENCE": " "});
        assert_eq!(verification(empty), least);
    }

    #[test]
    fn those_without_a_token() {
        for (value, anonymous) in
            [("refuse", Anonymous::Refuse), ("address", Anonymous::Address), ("shared", Anonymous::Shared)]
        {
            let variables = token(json!({"MCP_TOKEN_UNVERIFIED": "digest", "MCP_ANONYMOUS": value}));
            assert_eq!(parsed(variables), Ok(Identity::Token { trust: Trust::Digest, anonymous }));
        }
        assert!(fault(json!({"MCP_ANONYMOUS": "allow"}), "MCP_ANONYMOUS").contains("\"shared\""));
        assert!(fault(json!({"MCP_TOKEN_UNVERIFIED": "yes"}), "MCP_TOKEN_UNVERIFIED").contains("\"digest\""));
    }

    #[test]
    fn a_token_is_verified_or_said_not_to_be_and_never_both_or_neither() {
        assert!(fault(token(json!({})), "MCP_CALLER").contains("verify by"));
        assert!(fault(token(json!({"MCP_JWT_ISSUER": "i", "MCP_JWKS_URL": ""})), "MCP_CALLER").contains("verify by"));
        for (name, value) in [("MCP_JWT_SECRET", SECRET), ("MCP_JWKS_URL", JWKS)] {
            let both = token(json!({"MCP_TOKEN_UNVERIFIED": "digest", name: value}));
            assert!(fault(both, "MCP_TOKEN_UNVERIFIED").contains("aren't verified"));
        }
    }

    #[test]
    fn a_secret_has_32_bytes() {
        for secret in [json!(""), json!(&SECRET[1..]), json!(7), json!(null), json!({})] {
            assert!(fault(json!({"MCP_JWT_SECRET": secret}), "MCP_JWT_SECRET").contains("32 bytes"));
        }
        let padded = format!(" {} ", &SECRET[2..]);
        assert_eq!(verification(json!({"MCP_JWT_SECRET": padded})).secret, Some(padded));
    }

    #[test]
    fn addresses_have_tls_or_are_on_this_machine() {
        for good in [
            JWKS,
            "https://issuer.example:8443/a?b=c",
            "http://localhost:8787/jwks",
            "http://127.0.0.1:1/jwks",
            "http://[::1]/jwks",
        ] {
            assert_eq!(verification(json!({"MCP_JWKS_URL": good})).jwks_url.as_deref(), Some(good));
        }
        for bad in [
            "http://issuer.example/jwks",
            "http://localhost.evil.example/",
            "http://10.0.0.1/",
            "issuer.example",
            "//issuer.example",
            "ftp://localhost/",
            "file:///jwks",
            "https://",
            "https://user@issuer.example/",
            "https://:secret@issuer.example/",
            "https://issuer.example/#a",
        ] {
            assert!(fault(json!({"MCP_JWKS_URL": bad}), "MCP_JWKS_URL").contains("https address"), "{bad}");
        }
        let servers = |list: &str| {
            let variables = json!({"MCP_AUTHORIZATION_SERVERS": list});
            authorization_servers(&Variables(variables.as_object().unwrap()))
        };
        assert_eq!(servers(""), Ok(vec![]));
        let two = vec!["https://a.example".to_owned(), "http://localhost:1/b".to_owned()];
        assert_eq!(servers(" https://a.example, http://localhost:1/b,"), Ok(two));
        assert_eq!(servers("https://a.example,b").unwrap_err().variable, "MCP_AUTHORIZATION_SERVERS");
    }

    #[test]
    fn there_is_a_claim_at_least() {
        for list in ["", " ", ",", "sub\0"] {
            assert!(fault(json!({"MCP_CALLER_CLAIMS": list}), "MCP_CALLER_CLAIMS").contains("at least one"));
        }
    }
}
