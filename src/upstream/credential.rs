//! Whose credentials a request carries. What a server behind answers to one of them is for nobody else.

use sha2::{Digest, Sha256};

/// Headers that tell nothing of who sent them, and those that begin like this. Everything else may be a credential; the id of a session
/// is one, since what a server tells may differ from session to session.
const PLAIN: [&str; 53] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-type",
    "dnt",
    "last-event-id",
    "origin",
    "pragma",
    "priority",
    "referer",
    "user-agent",
    "cf-connecting-ip",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "sec-gpc",
    "sec-purpose",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-version",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    // What differs from request to request, beside the credential that it goes with: a digest, a proof.
    "content-digest",
    "content-md5",
    "digest",
    "dpop",
    "repr-digest",
    // Names of single requests, for tracing.
    "b3",
    "baggage",
    "idempotency-key",
    "request-id",
    "sentry-trace",
    "traceparent",
    "tracestate",
    "uber-trace-id",
    "x-amzn-trace-id",
    "x-b3-flags",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-b3-spanid",
    "x-b3-traceid",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-datadog-origin",
    "x-datadog-parent-id",
    "x-datadog-sampling-priority",
    "x-datadog-tags",
    "x-datadog-trace-id",
    "x-request-id",
    "x-requested-with",
    "x-trace-id",
];
const PLAIN_PREFIXES: [&str; 3] = ["mcp-param-", "sec-ch-ua", "sec-fetch-"];

/// A digest of all credentials of a request; [`NONE`] for none.
///
/// [`NONE`]: Self::NONE
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Credential(Option<[u8; 32]>);

impl Credential {
    /// No credential at all.
    pub const NONE: Self = Self(None);

    /// The credentials among headers in lower case.
    pub fn of(headers: &[(String, String)]) -> Self {
        let mut secrets: Vec<_> = headers.iter().filter(|(name, _)| !is_plain(name)).collect();
        if secrets.is_empty() {
            return Self::NONE;
        }
        secrets.sort();
        let mut digest = Sha256::new();
        for text in secrets.into_iter().flat_map(|(name, value)| [name, value]) {
            // No header has a zero byte, so no two lists are digested alike.
            digest.update(text.as_bytes());
            digest.update([0]);
        }
        Self(Some(digest.finalize().into()))
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

fn is_plain(name: &str) -> bool {
    PLAIN.contains(&name) || PLAIN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Credential {
        let headers: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Credential::of(&headers)
    }

    #[test]
    fn what_every_client_sends_is_no_credential() {
        let plain = [
            ("accept", "*/*"),
            ("mcp-protocol-version", "x"),
            ("sec-fetch-mode", "cors"),
            ("user-agent", "y"),
            ("x-request-id", "z"),
        ];
        assert!(of(&plain).is_none());
        assert_eq!(of(&plain), Credential::NONE);
    }

    #[test]
    fn anything_else_may_be_one_and_two_of_them_differ() {
        let (a, b) = (of(&[("authorization", "Bearer a")]), of(&[("authorization", "Bearer b")]));
        assert!(!a.is_none() && a != b);
        assert_ne!(of(&[("cookie", "Bearer a")]), a);
        assert_ne!(of(&[("x-api-key", "k")]), of(&[]));
        assert_ne!(of(&[("x-a", "b"), ("x-c", "d")]), of(&[("x-a", "d"), ("x-c", "b")]));
        assert_eq!(of(&[("x-a", "b"), ("accept", "*/*"), ("x-c", "d")]), of(&[("x-c", "d"), ("x-a", "b")]));
    }

    #[test]
    fn a_name_that_only_begins_like_a_known_one_counts() {
        for name in ["mcp-api-key", "sec-token", "sec-websocket-protocol", "x-forwarded-email", "x-b3-token"] {
            assert!(!of(&[(name, "k")]).is_none(), "{name}");
        }
        for name in ["mcp-method", "mcp-param-region", "sec-ch-ua-mobile", "sec-websocket-key", "dpop"] {
            assert!(of(&[(name, "k")]).is_none(), "{name}");
        }
    }

    #[test]
    fn each_session_is_somebody() {
        let within = |session| of(&[("mcp-session-id", session), ("authorization", "Bearer a")]);
        assert_ne!(within("s"), within("t"));
        assert_ne!(of(&[("mcp-session-id", "s")]), Credential::NONE);
    }
}
