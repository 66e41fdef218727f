//! Who is calling. The answer is a name: the name of the caller's Durable Object. A name that is made another way is
//! a fresh bucket for everybody, so the tests pin them.

pub mod address;

use sha2::{Digest, Sha256};

/// The key of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerKey {
    name: String,
}

impl CallerKey {
    /// The name of the caller's object. It holds an address, so it is for the object alone: not for a log, not for a
    /// metric.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What kind of caller this is, for metrics.
    pub fn kind(&self) -> &'static str {
        "address"
    }

    /// One of sixteen groups of callers, as a hex digit: enough to tell one greedy caller from many, and nobody by
    /// name.
    pub fn group(&self) -> char {
        let first = Sha256::digest(self.name.as_bytes()).first().copied().unwrap_or_default();
        char::from_digit(u32::from(first >> 4), 16).unwrap_or('0')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_the_first_hex_digit_of_the_names_digest() {
        let group = |name: &str| CallerKey { name: name.into() }.group();
        // printf address:192.0.2.1 | sha256sum
        assert_eq!(group("address:192.0.2.1"), '6');
        assert_eq!(group("address:192.0.2.2"), '0');
        assert_eq!(CallerKey { name: "x".into() }.kind(), "address");
    }
}
