//! Why a caller isn't accepted. A closed set of short texts: none of them holds anything of the token.

use std::fmt;

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// It is larger than tokens may be.
    TooLarge,
    /// It isn't one token, or not made as one.
    Malformed,
    /// It demands an extension that isn't understood (`crit`).
    Critical,
    /// Its algorithm isn't accepted here, or doesn't fit its key.
    Algorithm,
    /// Its key isn't among the known ones.
    UnknownKey,
    /// The signature isn't that of what is signed.
    Signature,
    /// Another issuer's.
    Issuer,
    /// For another server.
    Audience,
    /// No longer valid.
    Expired,
    /// Not valid yet.
    NotYetValid,
    /// It has none of the claims that name a caller.
    Nameless,
}

impl TokenFault {
    /// What is told, in characters that `error_description` may have (RFC 6750 section 3).
    pub fn description(self) -> &'static str {
        match self {
            Self::TooLarge => "the token is too large",
            Self::Malformed => "the token is malformed",
            Self::Critical => "the token demands an extension that is not understood",
            Self::Algorithm => "the token's algorithm is not accepted",
            Self::UnknownKey => "the token's key is not known",
            Self::Signature => "the token's signature does not fit",
            Self::Issuer => "the token's issuer is not accepted",
            Self::Audience => "the token is not meant for this server",
            Self::Expired => "the token has expired",
            Self::NotYetValid => "the token is not valid yet",
            Self::Nameless => "the token names no caller",
        }
    }
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.description())
    }
}

/// Why nobody was identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unidentified {
    /// There is no bearer token, and one is needed.
    NoToken,
    /// There is one, and it isn't accepted.
    BadToken(TokenFault),
    /// There is one, and nobody can say: no key is to be had.
    NoKeys,
}

impl From<TokenFault> for Unidentified {
    fn from(fault: TokenFault) -> Self {
        Self::BadToken(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_fault_has_a_text_of_its_own_that_a_header_can_carry() {
        let all = [
            TokenFault::TooLarge,
            TokenFault::Malformed,
            TokenFault::Critical,
            TokenFault::Algorithm,
            TokenFault::UnknownKey,
            TokenFault::Signature,
            TokenFault::Issuer,
            TokenFault::Audience,
            TokenFault::Expired,
            TokenFault::NotYetValid,
            TokenFault::Nameless,
        ];
        let texts: BTreeSet<String> = all.iter().map(TokenFault::to_string).collect();
        assert_eq!(texts.len(), all.len());
        for text in texts {
            assert!(text.bytes().all(|byte| (0x20..=0x7e).contains(&byte) && !b"\"\\".contains(&byte)), "{text}");
        }
        assert_eq!(Unidentified::from(TokenFault::Expired), Unidentified::BadToken(TokenFault::Expired));
    }
}
