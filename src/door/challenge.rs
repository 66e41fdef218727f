//! What is told to whom nobody knows: 401 with a challenge (RFC 6750 section 3), and where tokens are to be had
//! (RFC 9728).

use super::reply::Reply;
use crate::caller::fault::Unidentified;
use crate::config::callers::Identity;
use crate::config::Config;
use crate::mcp::id::Id;
use crate::mcp::reply::{Response, RpcError};
use serde_json::json;
use url::Url;

/// Where the protected-resource document is: the well-known path with the endpoint's after it (RFC 9728 section 3.1).
pub const RESOURCE_PATH: &str = "/.well-known/oauth-protected-resource/mcp";

/// After how many seconds to come again when no keys are to be had.
const NO_KEYS_SECONDS: &str = "5";

/// The answer to a POST to `url` whose sender isn't known; `id` is that of its request, if it was one.
pub fn refusal(why: Unidentified, id: Option<Id>, config: &Config, url: &str) -> Reply {
    let tell = |error: RpcError| Reply::rpc(&Response { id, outcome: Err(error) });
    let detail = match why {
        Unidentified::NoKeys => {
            let error = RpcError { status: 503, ..RpcError::internal("Tokens can't be verified at the moment.") };
            return tell(error).with("retry-after", NO_KEYS_SECONDS);
        }
        Unidentified::NoToken => None,
        Unidentified::BadToken(fault) => Some(fault.description()),
    };
    let error = RpcError::unacceptable(401, detail.unwrap_or("a bearer token is needed"));
    tell(error).with("www-authenticate", challenge(detail, config, url))
}

/// The value of `WWW-Authenticate`. Without a token there is no error, only the demand.
fn challenge(detail: Option<&str>, config: &Config, url: &str) -> String {
    let error = detail.map(|detail| format!("error=\"invalid_token\", error_description=\"{detail}\""));
    let document = (!config.authorization_servers.is_empty())
        .then(|| Some(format!("resource_metadata=\"{}{RESOURCE_PATH}\"", origin(url)?)))
        .flatten();
    let parameters: Vec<String> = error.into_iter().chain(document).collect();
    format!("Bearer {}", parameters.join(", ")).trim_end().to_owned()
}

/// The protected-resource document; 404 when there is nothing that it could tell.
pub fn document(config: &Config, url: &str) -> Reply {
    match (&config.identity, origin(url)) {
        (Identity::Token { .. }, Some(origin)) if !config.authorization_servers.is_empty() => {
            let document = json!({
                "resource": format!("{origin}/mcp"),
                "authorization_servers": config.authorization_servers,
                "bearer_methods_supported": ["header"],
            });
            Reply::json(200, &document)
        }
        _ => Reply::empty(404),
    }
}

fn origin(url: &str) -> Option<String> {
    Url::parse(url).ok().map(|url| url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::fault::TokenFault;
    use serde_json::Value;

    const URL: &str = "https://sluice.example:8443/mcp?a=b";

    fn config(variables: Value) -> Config {
        crate::config::parse(variables.as_object().unwrap(), &[]).unwrap()
    }

    fn by_token(servers: &str) -> Config {
        config(json!({
            "MCP_CALLER": "token", "MCP_TOKEN_UNVERIFIED": "digest", "MCP_AUTHORIZATION_SERVERS": servers,
        }))
    }

    fn header<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
        reply.headers.iter().find(|(header, _)| *header == name).map(|(_, value)| value.as_str())
    }

    fn challenged(why: Unidentified, servers: &str) -> String {
        let reply = refusal(why, None, &by_token(servers), URL);
        assert_eq!(reply.status, 401);
        header(&reply, "www-authenticate").unwrap().to_owned()
    }

    #[test]
    fn the_challenge_tells_what_is_wrong_and_where_tokens_are() {
        let expired = Unidentified::BadToken(TokenFault::Expired);
        let document = r#"resource_metadata="https://sluice.example:8443/.well-known/oauth-protected-resource/mcp""#;
        let error = r#"error="invalid_token", error_description="the token has expired""#;
        assert_eq!(challenged(Unidentified::NoToken, ""), "Bearer");
        assert_eq!(challenged(expired, ""), format!("Bearer {error}"));
        assert_eq!(challenged(Unidentified::NoToken, "https://a.example"), format!("Bearer {document}"));
        assert_eq!(challenged(expired, "https://a.example"), format!("Bearer {error}, {document}"));
    }

    #[test]
    fn without_keys_it_is_our_fault_and_no_challenge() {
        let reply = refusal(Unidentified::NoKeys, None, &by_token("https://a.example"), URL);
        assert_eq!((reply.status, header(&reply, "retry-after")), (503, Some("5")));
        assert_eq!(header(&reply, "www-authenticate"), None);
        let error = RpcError { status: 503, ..RpcError::internal("Tokens can't be verified at the moment.") };
        let told = Reply::rpc(&Response::without_id(error)).with("retry-after", "5");
        assert_eq!(reply, told);
    }

    #[test]
    fn the_document_is_there_when_it_has_something_to_tell() {
        let told = Reply::json(
            200,
            &json!({
                "resource": "https://sluice.example:8443/mcp",
                "authorization_servers": ["https://a.example", "https://b.example/x"],
                "bearer_methods_supported": ["header"],
            }),
        );
        let url = format!("https://sluice.example:8443{RESOURCE_PATH}");
        assert_eq!(document(&by_token("https://a.example,https://b.example/x"), &url), told);
        assert_eq!(document(&by_token(""), &url), Reply::empty(404));
        let by_address = config(json!({"MCP_AUTHORIZATION_SERVERS": "https://a.example"}));
        assert_eq!(document(&by_address, &url), Reply::empty(404));
        assert_eq!(document(&by_token("https://a.example"), "no url"), Reply::empty(404));
    }
}
