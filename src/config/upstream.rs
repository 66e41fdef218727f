//! The server behind, where Sluice is a gateway (`MCP_UPSTREAM`).

use super::callers::Identity;
use super::limits::{Limits, MOST_SLOTS};
use super::variables::Variables;
use super::{address, Fault};
use url::Url;

/// The name of the service binding, and the value of `MCP_UPSTREAM` that means it.
pub const BINDING: &str = "UPSTREAM";

/// Where a service binding is asked when no address is given. The host means nothing to it.
const BOUND_URL: &str = "https://upstream/mcp";

/// The longest that an answer can be waited for, in milliseconds.
const LONGEST_TIMEOUT_MS: u64 = 900_000;

/// The server behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Its endpoint. Nothing that a client sends changes it.
    pub url: Url,
    /// Whether the service binding leads there.
    pub is_bound: bool,
    /// What it is told of who calls.
    pub auth: Auth,
    /// How long the beginning of an answer is waited for, in milliseconds.
    pub timeout_ms: u32,
    /// How many calls of one session may run at the same time.
    pub max_in_flight_session: Option<u64>,
}

/// Whose credentials are sent on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// The client's own.
    Forward,
    /// None: a token is for one audience.
    None,
    /// This bearer token.
    Token(String),
}

/// Reads all that is said of the server behind; None when Sluice has tools of its own. `has_binding` says whether there is a service
/// binding of that name.
pub(super) fn parse(
    variables: &Variables<'_>,
    has_binding: bool,
    identity: &Identity,
    limits: &Limits,
) -> Result<Option<Upstream>, Fault> {
    let given = variables.text("MCP_UPSTREAM", "")?;
    let by_name = given == BINDING;
    if by_name && !has_binding {
        return Err(Fault::new("MCP_UPSTREAM", format!("there is no service binding {BINDING}")));
    }
    let timeout = variables.whole("MCP_UPSTREAM_TIMEOUT_MS", "60000", 1, LONGEST_TIMEOUT_MS)?;
    let session = variables.whole("MCP_MAX_IN_FLIGHT_SESSION", "0", 0, MOST_SLOTS)?;
    let token = variables.secret("MCP_UPSTREAM_TOKEN")?;
    let auth = variables.one_of("MCP_UPSTREAM_AUTH", "", &["", "forward", "none", "token"])?;
    if given.is_empty() && !has_binding {
        return match session {
            0 => Ok(None),
            _ => Err(Fault::new("MCP_MAX_IN_FLIGHT_SESSION", "is for a gateway, and MCP_UPSTREAM isn't set")),
        };
    }
    if session > 0 && limits.is_empty() {
        let what = "a client makes up its sessions, so this can't be the only limit; set MCP_RATE_LIMIT, MCP_QUOTA or MCP_MAX_IN_FLIGHT";
        return Err(Fault::new("MCP_MAX_IN_FLIGHT_SESSION", what));
    }
    let auth = match (auth, token) {
        (3, Some(token)) => Auth::Token(token),
        (3, None) => return Err(Fault::new("MCP_UPSTREAM_TOKEN", "must be set when MCP_UPSTREAM_AUTH is \"token\"")),
        (1, _) => Auth::Forward,
        (0, _) if !identity.is_verified() => Auth::Forward,
        _ => Auth::None,
    };
    Ok(Some(Upstream {
        url: url(if given.is_empty() || by_name { BOUND_URL } else { &given })?,
        is_bound: has_binding,
        auth,
        timeout_ms: u32::try_from(timeout).unwrap_or(u32::MAX),
        max_in_flight_session: Some(session).filter(|calls| *calls > 0),
    }))
}

fn url(given: &str) -> Result<Url, Fault> {
    let expected = format!("an http or https address, or {BINDING:?} for the service binding");
    address::parse("MCP_UPSTREAM", given, |url| matches!(url.scheme(), "http" | "https"), &expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    fn parsed(variables: Value, has_binding: bool) -> Result<Option<Upstream>, Fault> {
        let config = crate::config::parse_with(variables.as_object().unwrap(), &[], has_binding)?;
        Ok(config.upstream)
    }

    fn upstream(variables: Value) -> Upstream {
        parsed(variables, false).unwrap().unwrap()
    }

    #[track_caller]
    fn fault(variables: Value, variable: &str) -> String {
        let fault = parsed(variables, false).unwrap_err();
        assert_eq!(fault.variable, variable);
        fault.what
    }

    #[test]
    fn without_an_address_or_a_binding_there_is_no_gateway() {
        assert_eq!(parsed(json!({}), false), Ok(None));
        assert_eq!(parsed(json!({"MCP_UPSTREAM": "", "MCP_UPSTREAM_AUTH": "none"}), false), Ok(None));
        fault(json!({"MCP_MAX_IN_FLIGHT_SESSION": "1"}), "MCP_MAX_IN_FLIGHT_SESSION");
    }

    #[test]
    fn an_address_is_taken_as_it_is_and_the_defaults_hold() {
        let found = upstream(json!({"MCP_UPSTREAM": "http://mcp.example:8000/a/mcp?b=c"}));
        assert_eq!(found.url.as_str(), "http://mcp.example:8000/a/mcp?b=c");
        assert_eq!((found.is_bound, found.auth, found.timeout_ms), (false, Auth::Forward, 60_000));
        assert_eq!(found.max_in_flight_session, None);
        for wrong in
            ["mcp.example", "ftp://mcp.example", "https://a:b@mcp.example", "https://mcp.example/#x", "UPSTREAM"]
        {
            assert!(!fault(json!({"MCP_UPSTREAM": wrong}), "MCP_UPSTREAM").contains("a:b"), "{wrong}");
        }
    }

    #[test]
    fn a_binding_is_enough_and_an_address_beside_it_says_where_in_it() {
        for vars in [json!({}), json!({"MCP_UPSTREAM": "UPSTREAM"})] {
            let found = parsed(vars, true).unwrap().unwrap();
            assert_eq!((found.url.as_str(), found.is_bound), ("https://upstream/mcp", true));
        }
        let found = parsed(json!({"MCP_UPSTREAM": "https://behind/x"}), true).unwrap().unwrap();
        assert_eq!((found.url.as_str(), found.is_bound), ("https://behind/x", true));
    }

    #[test]
    fn a_token_that_was_verified_here_is_not_sent_on_unless_the_operator_says_so() {
        let vars = |auth: &str| {
            let secret = "0123456789abcdef0123456789abcdef";
            json!({
                "MCP_UPSTREAM": "https://a.example", "MCP_CALLER": "token", "MCP_JWT_SECRET": secret,
                "MCP_UPSTREAM_AUTH": auth, "MCP_UPSTREAM_TOKEN": "t0ken",
            })
        };
        assert_eq!(upstream(vars("")).auth, Auth::None);
        assert_eq!(upstream(vars("none")).auth, Auth::None);
        assert_eq!(upstream(vars("forward")).auth, Auth::Forward);
        assert_eq!(upstream(vars("token")).auth, Auth::Token("t0ken".to_owned()));
        let digest = json!({
            "MCP_UPSTREAM": "https://a.example", "MCP_CALLER": "token", "MCP_TOKEN_UNVERIFIED": "digest",
        });
        assert_eq!(upstream(digest).auth, Auth::Forward);
        let by_address = json!({"MCP_UPSTREAM": "https://a.example", "MCP_UPSTREAM_AUTH": "none"});
        assert_eq!(upstream(by_address).auth, Auth::None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with = |name: &str, value: &str| fault(json!({"MCP_UPSTREAM": "https://a.example", name: value}), name);
        with("MCP_UPSTREAM_AUTH", "basic");
        with("MCP_UPSTREAM_TIMEOUT_MS", "0");
        with("MCP_UPSTREAM_TIMEOUT_MS", "900001");
        with("MCP_MAX_IN_FLIGHT_SESSION", "1001");
        with("MCP_UPSTREAM_TOKEN", "two words");
        fault(json!({"MCP_UPSTREAM": "https://a.example", "MCP_UPSTREAM_AUTH": "token"}), "MCP_UPSTREAM_TOKEN");
    }

    #[test]
    fn a_limit_of_sessions_is_never_the_only_one() {
        let vars = |more: Value| {
            let mut vars = json!({
                "MCP_UPSTREAM": "https://a.example", "MCP_RATE_LIMIT": "0", "MCP_MAX_IN_FLIGHT_SESSION": "3",
                "MCP_UPSTREAM_TIMEOUT_MS": 5,
            });
            vars.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            vars
        };
        fault(vars(json!({})), "MCP_MAX_IN_FLIGHT_SESSION");
        for more in [json!({"MCP_QUOTA": "5/day"}), json!({"MCP_MAX_IN_FLIGHT": 2}), json!({"MCP_RATE_LIMIT": 1})] {
            let found = upstream(vars(more));
            assert_eq!((found.max_in_flight_session, found.timeout_ms), (Some(3), 5));
        }
    }
}
