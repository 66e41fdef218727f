//! The keys of `MCP_JWKS_URL`: fetched once for all requests of an isolate, and the signature check with them.

use super::fault::{TokenFault, Unidentified};
use super::jwk::{self, Jwk};
use super::jws::{Algorithm, Jws};
use super::key_cache::{Answer, KeyCache, FETCH_TIME};
use crate::config::callers::Verification;
use crate::platform::crypto::{is_signed, Key};
use crate::platform::delay::Delay;
use crate::platform::{fetch, now_us};
use serde_json::json;
use std::cell::RefCell;
use worker::{console_error, Context};

thread_local! {
    static CACHE: RefCell<KeyCache> = RefCell::default();
}

/// The largest key set, in bytes. Those of large issuers, with their certificates, have 20 to 50 thousand.
const LARGEST_SET: usize = 256 << 10;

/// How often a request that waits for keys looks, in milliseconds.
const LOOK_MS: u64 = 25;

/// The most looks: as many as fit into the time that a fetch can take.
const MOST_LOOKS: u64 = FETCH_TIME / 1_000 / LOOK_MS;

/// Checks the signature of a token, with the key that its algorithm belongs to: the secret signs with HMAC and nothing
/// else, the keys of the set with anything but that.
pub async fn verify(jws: &Jws<'_>, rules: &Verification, context: &Context) -> Result<(), Unidentified> {
    if jws.algorithm == Algorithm::Hs256 {
        let secret = rules.secret.as_deref().ok_or(TokenFault::Algorithm)?;
        return check(jws, &[Key::HmacSha256(secret.as_bytes())]).await;
    }
    let url = rules.jwks_url.as_deref().ok_or(TokenFault::Algorithm)?;
    let jwks = keys(url, jws, context).await?;
    let keys: Vec<Key<'_>> = jwks.iter().filter_map(of_jwk).collect();
    check(jws, &keys).await
}

fn of_jwk(jwk: &Jwk) -> Option<Key<'_>> {
    match jwk.algorithm {
        Algorithm::Rs256 => Some(Key::RsaSha256(&jwk.json)),
        Algorithm::Es256 => Some(Key::EcdsaP256Sha256(&jwk.json)),
        Algorithm::EdDsa => Some(Key::Ed25519(&jwk.json)),
        Algorithm::Hs256 => None,
    }
}

/// Whether one of `keys` made the signature.
async fn check(jws: &Jws<'_>, keys: &[Key<'_>]) -> Result<(), Unidentified> {
    for key in keys {
        match is_signed(*key, &jws.signature, jws.signed.as_bytes()).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(cause) => log_failure(&cause),
        }
    }
    Err(TokenFault::Signature.into())
}

/// The keys that a token may be signed with, from the cache. What isn't there yet is fetched after this request if it
/// must be, and looked for until it is there: a client that goes away takes no fetch with it.
async fn keys(url: &str, jws: &Jws<'_>, context: &Context) -> Result<Vec<Jwk>, Unidentified> {
    for _ in 0..=MOST_LOOKS {
        let look = |cache: &mut KeyCache| cache.look(jws.algorithm, jws.kid.as_deref(), now_us());
        let (start, answer) = CACHE.with_borrow_mut(look);
        if start {
            let url = url.to_owned();
            context.wait_until(async move { load(&url).await });
        }
        match answer {
            Answer::Keys(keys) => return Ok(keys),
            Answer::None(why) => return Err(why),
            Answer::Wait => Delay::new(LOOK_MS).await,
        }
    }
    Err(Unidentified::NoKeys)
}

/// Fetches the keys into the cache.
async fn load(url: &str) {
    let deadline_ms = u32::try_from(FETCH_TIME / 1_000).unwrap_or(u32::MAX);
    let keys = fetch::text(url, LARGEST_SET, deadline_ms).await.and_then(|text| jwk::parse_set(&text));
    match &keys {
        Err(cause) => log_failure(cause),
        Ok(keys) if keys.is_empty() => log_failure("the key set has no key that can be used here"),
        Ok(_) => {}
    }
    CACHE.with_borrow_mut(|cache| cache.settle(keys.ok(), now_us()));
}

fn log_failure(cause: &str) {
    console_error!("{}", json!({ "event": "jwks_failure", "cause": cause }));
}
