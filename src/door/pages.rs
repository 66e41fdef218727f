//! What is read with GET: whether the server is well, and what was counted.

use super::incoming::Incoming;
use super::reply::Reply;
use crate::config::publish::published;
use crate::config::Config;
use crate::stats::{flow, show};
use serde_json::json;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use worker::{console_error, Env};

/// `/healthz` of a server that is configured well.
pub fn healthy() -> Reply {
    Reply::json(200, &json!({ "status": "ok" }))
}

/// `/healthz` of one that isn't.
pub fn unhealthy(fault: &str) -> Reply {
    Reply::json(503, &json!({ "status": "fault", "error": format!("The server is configured wrongly. {fault}") }))
}

/// `/limits`: what a client can plan with.
pub fn limits(config: &Config) -> Reply {
    Reply::json(200, &published(config))
}

/// `/stats` and `/metrics`. What this isolate hasn't sent yet is sent first.
pub async fn counted(request: &Incoming, config: &Config, env: &Env) -> Reply {
    let authorization = request.header("authorization");
    if config.admin_token.as_deref().is_some_and(|token| !is_admin(authorization.as_deref(), token)) {
        return Reply::empty(401).with("www-authenticate", "Bearer");
    }
    let reply = match flow::send(env).await {
        Ok(counts) if request.head.path() == "/stats" => Reply::json(200, &show::stats(&counts)),
        Ok(counts) => Reply::text(200, show::METRICS_TYPE, show::metrics(&counts)),
        Err(failure) => {
            console_error!("{}", json!({ "event": "stats_failure", "cause": failure.cause() }));
            Reply::json(503, &json!({ "error": "The counts can't be read." }))
        }
    };
    reply.with("cache-control", "no-store")
}

/// Whether an Authorization header has the token (RFC 6750 section 2.1). Digests are compared, in a time that tells
/// neither how much of the token was right nor how long it is.
pub fn is_admin(authorization: Option<&str>, token: &str) -> bool {
    let given = authorization.and_then(|value| value.split_once(' '));
    given.is_some_and(|(scheme, given)| {
        let same = Sha256::digest(given.trim()).ct_eq(&Sha256::digest(token));
        scheme.eq_ignore_ascii_case("bearer") && bool::from(same)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_the_token() {
        assert!(is_admin(Some("Bearer s3cret"), "s3cret"));
        assert!(is_admin(Some("bearer  s3cret"), "s3cret"));
        for value in [
            None,
            Some(""),
            Some("s3cret"),
            Some("Bearer"),
            Some("Bearer "),
            Some("Bearer s3cre"),
            Some("Bearer s3cret2"),
            Some("Basic s3cret"),
        ] {
            assert!(!is_admin(value, "s3cret"), "{value:?}");
        }
    }
}
