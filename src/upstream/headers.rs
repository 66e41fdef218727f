//! Which headers go on to the server behind, and which come back.
//!
//! All but those that are for one connection only (RFC 9110 section 7.6.1), and those that say who is calling: these are set here,
//! from what is known, and never copied from what a client says.

use crate::config::upstream::Auth;

/// Names in lower case, with their values.
pub type Pairs = Vec<(String, String)>;

/// For one connection only.
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
];

/// What a Connection header can't make so: a request is judged by these (and those of MCP), and an answer read.
const END_TO_END: [&str; 3] = ["accept", "authorization", "content-type"];

/// What the runtime makes anew for each request and answer.
const MADE_ANEW: [&str; 4] = ["host", "content-length", "content-encoding", "accept-encoding"];

/// For one request only, beside what mirrors arguments.
const OF_ONE_REQUEST: [&str; 13] = [
    "mcp-name",
    "last-event-id",
    "idempotency-key",
    "x-idempotency-key",
    "dpop",
    "content-digest",
    "repr-digest",
    "digest",
    "content-md5",
    "signature",
    "signature-input",
    "range",
    "if-range",
];

/// What tells who is calling, and those that begin like this.
const WHO: [&str; 5] = ["forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip"];
const WHO_PREFIXES: [&str; 2] = ["cf-", "x-forwarded-"];

/// Whether a header says something of one request alone, so that it would be wrong with another: its name, its digest, its signature,
/// what it mirrors of its body, and where it goes on with a stream.
pub fn is_of_one_request(name: &str) -> bool {
    OF_ONE_REQUEST.contains(&name) || name.starts_with("mcp-param-")
}

/// The headers of a request as they go on. `address` is the client's, when that is known; `host` the name by which it calls us.
pub fn sent_on(headers: &Pairs, auth: &Auth, address: Option<&str>, (scheme, host): (&str, &str)) -> Pairs {
    let named = named_by_connection(headers);
    let goes_on = |name: &str| {
        let credential = matches!(name, "authorization" | "cookie");
        !is_dropped(name, &named)
            && !WHO.contains(&name)
            && !WHO_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            && (!credential || *auth == Auth::Forward)
    };
    let mut sent: Pairs = headers.iter().filter(|(name, _)| goes_on(name)).cloned().collect();
    let mut set = |name: &str, value: &str| sent.push((name.to_owned(), value.to_owned()));
    if let Auth::Token(token) = auth {
        set("authorization", &format!("Bearer {token}"));
    }
    if let Some(address) = address {
        set("cf-connecting-ip", address);
        set("x-forwarded-for", address);
    }
    set("x-forwarded-host", host);
    set("x-forwarded-proto", scheme);
    // What comes back is looked at as it passes.
    set("accept-encoding", "identity");
    sent
}

/// The headers of an answer as they come back. A cookie is a credential like those that go on.
pub fn come_back(headers: &Pairs, auth: &Auth) -> Pairs {
    let named = named_by_connection(headers);
    let comes_back = |name: &str| !is_dropped(name, &named) && (name != "set-cookie" || *auth == Auth::Forward);
    headers.iter().filter(|(name, _)| comes_back(name)).cloned().collect()
}

fn is_dropped(name: &str, named: &[String]) -> bool {
    HOP_BY_HOP.contains(&name) || MADE_ANEW.contains(&name) || named.iter().any(|other| other == name)
}

/// The headers that a Connection header makes hop-by-hop.
fn named_by_connection(headers: &Pairs) -> Vec<String> {
    let values = headers.iter().filter(|(name, _)| name == "connection").map(|(_, value)| value);
    let names = values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase());
    names.filter(|name| !END_TO_END.contains(&name.as_str()) && !name.starts_with("mcp-")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Pairs {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn sent(list: &[(&str, &str)], auth: &Auth, address: Option<&str>) -> Pairs {
        let sent = sent_on(&pairs(list), auth, address, ("https", "sluice.example"));
        let always = pairs(&[
            ("x-forwarded-host", "sluice.example"),
            ("x-forwarded-proto", "https"),
            ("accept-encoding", "identity"),
        ]);
        let (rest, last) = sent.split_at(sent.len() - always.len());
        assert_eq!(last, always);
        rest.to_vec()
    }

    #[test]
    fn what_is_for_one_connection_goes_no_further() {
        let headers = [
            ("accept", "text/event-stream"),
            ("connection", "keep-alive, X-Once"),
            ("x-once", "1"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("upgrade", "websocket"),
            ("proxy-authorization", "Basic eA=="),
            ("transfer-encoding", "chunked"),
            ("host", "sluice.example"),
            ("content-length", "7"),
            ("accept-encoding", "gzip"),
            ("mcp-session-id", "s"),
        ];
        let kept = pairs(&[("accept", "text/event-stream"), ("mcp-session-id", "s")]);
        assert_eq!(sent(&headers, &Auth::Forward, None), kept);
        let judged = [("connection", "content-type, Mcp-Protocol-Version"), ("content-type", "application/json")];
        assert_eq!(sent(&judged, &Auth::Forward, None), pairs(&[("content-type", "application/json")]));
        let back = pairs(&[("connection", "x-once"), ("x-once", "1"), ("content-encoding", "gzip"), ("etag", "e")]);
        assert_eq!(come_back(&back, &Auth::None), pairs(&[("etag", "e")]));
    }

    #[test]
    fn who_calls_is_set_and_never_copied() {
        let forged = [
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-host", "evil.example"),
            ("forwarded", "for=203.0.113.9"),
            ("x-real-ip", "203.0.113.9"),
            ("true-client-ip", "203.0.113.9"),
            ("cf-connecting-ip", "203.0.113.9"),
            ("cf-ray", "x"),
        ];
        let set = pairs(&[("cf-connecting-ip", "192.0.2.1"), ("x-forwarded-for", "192.0.2.1")]);
        assert_eq!(sent(&forged, &Auth::Forward, Some("192.0.2.1")), set);
        assert_eq!(sent(&forged, &Auth::Forward, None), pairs(&[]));
    }

    #[test]
    fn credentials_go_on_only_where_the_operator_has_them_forwarded() {
        let headers = [("authorization", "Bearer a"), ("cookie", "b"), ("x-api-key", "c")];
        assert_eq!(sent(&headers, &Auth::Forward, None), pairs(&headers));
        assert_eq!(sent(&headers, &Auth::None, None), pairs(&[("x-api-key", "c")]));
        let token = Auth::Token("t".to_owned());
        let set = pairs(&[("x-api-key", "c"), ("authorization", "Bearer t")]);
        assert_eq!(sent(&headers, &token, None), set);
        let cookie = pairs(&[("set-cookie", "a=b")]);
        assert_eq!(come_back(&cookie, &Auth::Forward), cookie);
        assert!(come_back(&cookie, &Auth::None).is_empty() && come_back(&cookie, &token).is_empty());
    }

    #[test]
    fn what_belongs_to_one_request_is_known() {
        for name in ["mcp-name", "mcp-param-region", "idempotency-key", "signature-input", "content-digest"] {
            assert!(is_of_one_request(name), "{name}");
        }
        for name in ["authorization", "mcp-session-id", "mcp-method", "x-api-key", "traceparent"] {
            assert!(!is_of_one_request(name), "{name}");
        }
    }
}
