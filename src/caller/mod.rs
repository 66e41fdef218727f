//! Who is calling. The answer is a name: the name of the caller's Durable Object. A name that is made another way is
//! a fresh bucket for everybody, so the tests pin them.
//!
//! `address.rs` and `name.rs` make the names. A token goes from `authorization.rs` (the header) over `jws.rs` (its
//! parts), `claims.rs` (for whom and until when) and `jwk.rs` (which key) to `keys.rs`, where the keys are and the
//! signature is checked; `key_cache.rs` decides when keys are fetched. `identify.rs` leads all of it.

pub mod address;
pub mod authorization;
pub mod claims;
pub mod fault;
pub mod identify;
pub mod jwk;
pub mod jws;
pub mod key_cache;
pub mod keys;
pub mod name;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// How a caller is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerKind {
    /// By its address.
    Address,
    /// By a token, verified or not.
    Token,
    /// By its address, where others have tokens.
    Anonymous,
    /// Not at all: everybody without a token is this one caller.
    Shared,
}

/// The key of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerKey {
    name: String,
    kind: CallerKind,
}

impl CallerKey {
    /// The name of the caller's object. It may hold an address, so it is for the object alone: not for a log, not for
    /// a metric.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the caller is known in this way.
    pub fn is(&self, kind: CallerKind) -> bool {
        self.kind == kind
    }

    /// What kind of caller this is, for metrics.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            CallerKind::Address => "address",
            CallerKind::Token => "token",
            CallerKind::Anonymous => "anonymous",
            CallerKind::Shared => "shared",
        }
    }

    /// One of sixteen groups of callers, as a hex digit: enough to tell one greedy caller from many, and nobody by
    /// name.
    pub fn group(&self) -> char {
        let first = Sha256::digest(self.name.as_bytes()).first().copied().unwrap_or_default();
        char::from_digit(u32::from(first >> 4), 16).unwrap_or('0')
    }

    /// Which of `count` equal groups of callers, counted from 0.
    pub fn nth_of(&self, count: u64) -> u64 {
        let [.., a, b, c, d] = Sha256::digest(self.name.as_bytes()).0;
        u64::from(u32::from_be_bytes([a, b, c, d])).checked_rem(count).unwrap_or_default()
    }
}

/// A caller that was identified.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    /// Its key.
    pub key: CallerKey,
    /// What its token says; empty without a verified token.
    pub claims: Map<String, Value>,
    /// Whether it chose its key itself, with a token that nobody has verified.
    pub unverified: bool,
}

impl Caller {
    /// A caller of which nothing is known but its key.
    pub fn plain(key: CallerKey) -> Self {
        Self { key, claims: Map::new(), unverified: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_the_first_hex_digit_of_the_names_digest() {
        let group = |name: &str| CallerKey { name: name.into(), kind: CallerKind::Address }.group();
        // printf address:192.0.2.1 | sha256sum
        assert_eq!(group("address:192.0.2.1"), '6');
        assert_eq!(group("address:192.0.2.2"), '0');
    }

    #[test]
    fn callers_are_spread_evenly_over_groups_and_stay_in_theirs() {
        let nth = |caller: u32| CallerKey { name: format!("address:{caller}"), kind: CallerKind::Address }.nth_of(4);
        let mut sizes = [0; 4];
        (0..4_000).for_each(|caller| sizes[nth(caller) as usize] += 1);
        assert!(sizes.iter().all(|size| (900..1_100).contains(size)), "{sizes:?}");
        assert_eq!(nth(7), nth(7));
        assert_eq!(CallerKey { name: "x".into(), kind: CallerKind::Address }.nth_of(0), 0);
    }

    #[test]
    fn each_kind_has_its_name() {
        for (kind, name) in [
            (CallerKind::Address, "address"),
            (CallerKind::Token, "token"),
            (CallerKind::Anonymous, "anonymous"),
            (CallerKind::Shared, "shared"),
        ] {
            let key = CallerKey { name: "x".into(), kind };
            assert_eq!((key.kind(), key.is(kind)), (name, true));
            assert_eq!(key.is(CallerKind::Address), kind == CallerKind::Address);
        }
    }
}
