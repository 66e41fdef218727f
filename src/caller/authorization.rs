//! The `Authorization` header (RFC 9110 section 11.6.2) -> one bearer token (RFC 6750 section 2.1).

use super::fault::{TokenFault, Unidentified};

/// The header.
pub const HEADER: &str = "authorization";

/// The largest token, in bytes. Those of real servers have one to four thousand; all headers together may have 32 KB
/// at Cloudflare's edge.
pub const LONGEST_TOKEN: usize = 8 << 10;

/// The token that a header's value carries. A header that was sent twice arrives joined by a comma, and no token has
/// one.
pub fn bearer(value: &str) -> Result<&str, Unidentified> {
    let value = value.trim_matches([' ', '\t']);
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Unidentified::NoToken);
    }
    let token = token.trim_start_matches(' ');
    if token.len() > LONGEST_TOKEN {
        return Err(TokenFault::TooLarge.into());
    }
    if !is_token68(token) {
        return Err(TokenFault::Malformed.into());
    }
    Ok(token)
}

/// The characters of a token, with `=` at the end only, and not by itself.
fn is_token68(token: &str) -> bool {
    let body = token.trim_end_matches('=');
    !body.is_empty() && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_bearer_in_any_case() {
        for value in ["Bearer a.b-c_d~e+f/g==", "bearer a.b-c_d~e+f/g==", " BEARER   a.b-c_d~e+f/g== "] {
            assert_eq!(bearer(value), Ok("a.b-c_d~e+f/g=="), "{value}");
        }
        for value in ["", " ", "Basic YTpi", "Bearerx", "xBearer a", "Token a", "a.b.c"] {
            assert_eq!(bearer(value), Err(Unidentified::NoToken), "{value}");
        }
    }

    #[test]
    fn what_isnt_one_token_is_malformed() {
        for value in [
            "Bearer",
            "Bearer ",
            "Bearer a, Bearer b",
            "Bearer a,b",
            "Bearer a b",
            "Bearer a\tb",
            "Bearer =",
            "Bearer a=b",
            "Bearer \u{e9}",
            "Bearer \"a\"",
        ] {
            assert_eq!(bearer(value), Err(TokenFault::Malformed.into()), "{value}");
        }
    }

    #[test]
    fn a_token_has_at_most_8_kib() {
        let longest = "a".repeat(LONGEST_TOKEN);
        assert_eq!(bearer(&format!("Bearer {longest}")), Ok(longest.as_str()));
        assert_eq!(bearer(&format!("Bearer {longest}a")), Err(TokenFault::TooLarge.into()));
    }
}
