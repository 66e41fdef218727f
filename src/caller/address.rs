//! A caller known by its network address.
//!
//! An IPv4 address is one caller. Of IPv6 it is the /64: that is what one subscriber gets (RFC 6177), and whoever has
//! one can change the lower half at will. An IPv4 address that is written as IPv6 (RFC 4291 section 2.5.5.2) is IPv4.
//! Whoever comes without a readable address shares one bucket with all the others like that: nobody passes free.

use super::{CallerKey, CallerKind};
use std::net::{IpAddr, Ipv6Addr};

/// The header in which Cloudflare's edge tells the client's address. Nothing else is believed.
pub const ADDRESS_HEADER: &str = "cf-connecting-ip";

/// The name that all callers without a readable address share.
const UNREADABLE: &str = "address:unknown";

/// The caller that the value of [`ADDRESS_HEADER`] names.
pub fn from_header(value: Option<&str>) -> CallerKey {
    let name = match value.and_then(|text| text.trim().parse::<IpAddr>().ok()) {
        Some(IpAddr::V4(address)) => format!("address:{address}"),
        Some(IpAddr::V6(address)) => match address.to_ipv4_mapped() {
            Some(address) => format!("address:{address}"),
            None => format!("address:{}/64", network(address)),
        },
        None => UNREADABLE.to_owned(),
    };
    CallerKey { name, kind: CallerKind::Address }
}

/// Whether a text is an address at all.
pub fn is_readable(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// The first 64 bits, the rest zero.
fn network(address: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(value: &str) -> String {
        from_header(Some(value)).name().to_owned()
    }

    #[test]
    fn the_names_are_what_they_always_were() {
        assert_eq!(name("192.0.2.1"), "address:192.0.2.1");
        assert_eq!(name(" 192.0.2.1 "), "address:192.0.2.1");
        assert_eq!(name("2001:db8:1:2:3:4:5:6"), "address:2001:db8:1:2::/64");
        assert_eq!(name("2001:0DB8:0001:0002::1"), "address:2001:db8:1:2::/64");
        assert_eq!(name("2001:db8::1"), "address:2001:db8::/64");
        assert_eq!(name("::ffff:192.0.2.1"), "address:192.0.2.1");
        assert_eq!(name("::ffff:c000:201"), "address:192.0.2.1");
    }

    #[test]
    fn only_an_address_is_readable() {
        assert!(is_readable("192.0.2.1") && is_readable("2001:db8::1"));
        assert!(!is_readable("192.0.2.256") && !is_readable(" 192.0.2.1") && !is_readable(""));
    }

    #[test]
    fn two_networks_are_two_callers() {
        assert_ne!(name("2001:db8:1:2::1"), name("2001:db8:1:3::1"));
    }

    #[test]
    fn an_address_that_cant_be_read_shares_one_bucket() {
        for value in [
            "",
            "unknown",
            "192.0.2.1, 192.0.2.2",
            "192.0.2.256",
            "192.0.2.1:80",
            "[::1]",
            "fe80::1%eth0",
            "0300.0.2.1",
        ] {
            assert_eq!(name(value), "address:unknown", "{value}");
        }
        assert_eq!(from_header(None).name(), "address:unknown");
    }
}
