//! From a request's headers to its caller, by the operator's rules.
//!
//! The session id, `clientInfo` and `X-Forwarded-For` are no part of this: whoever sends them chooses them.

use super::authorization::{self, bearer};
use super::fault::Unidentified;
use super::jws::Jws;
use super::{address, claims, keys, name, Caller, CallerKey};
use crate::config::callers::{Anonymous, Identity, Trust};
use crate::mcp::headers::Header;
use crate::platform::now_us;
use worker::Context;

/// Who sent a request with these headers.
pub async fn identify(identity: &Identity, header: Header<'_>, context: &Context) -> Result<Caller, Unidentified> {
    let Identity::Token { trust, anonymous } = identity else {
        return Ok(Caller::plain(by_address(header)));
    };
    let Some(value) = header(authorization::HEADER) else {
        return match anonymous {
            Anonymous::Refuse => Err(Unidentified::NoToken),
            Anonymous::Address => Ok(Caller::plain(name::anonymous(by_address(header)))),
            Anonymous::Shared => Ok(Caller::plain(name::shared())),
        };
    };
    let token = bearer(&value)?;
    let rules = match trust {
        Trust::Digest => return Ok(Caller { unverified: true, ..Caller::plain(name::of_digest(token)) }),
        Trust::Verified(rules) => rules,
    };
    let jws = Jws::parse(token)?;
    claims::check(&jws.claims, rules.issuer.as_deref(), rules.audience.as_deref(), now_us())?;
    let key = name::of_claims(&jws.claims, &rules.claims)?;
    keys::verify(&jws, rules, context).await?;
    // Verified, from here on.
    Ok(Caller { key, claims: jws.claims, unverified: false })
}

fn by_address(header: Header<'_>) -> CallerKey {
    address::from_header(header(address::ADDRESS_HEADER).as_deref())
}
