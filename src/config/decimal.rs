//! Numbers as people write them, read exactly.

use crate::limiter::policy::TOKEN;

/// A whole number without a sign.
pub fn whole(text: &str) -> Option<u64> {
    digits(text).then(|| text.parse().ok()).flatten()
}

/// A number without a sign and with at most six decimals, in millionths.
pub fn micro(text: &str) -> Option<u64> {
    let (integer, fraction) = match text.split_once('.') {
        None => (text, "0"),
        Some((_, fraction)) if fraction.len() > 6 => return None,
        Some(parts) => parts,
    };
    if !digits(fraction) {
        return None;
    }
    let millionths = format!("{fraction:0<6}").parse().ok()?;
    whole(integer)?.checked_mul(TOKEN)?.checked_add(millionths)
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_exactly() {
        for (text, value) in [
            ("0", 0),
            ("0.5", 500_000),
            ("0.000001", 1),
            ("12.345678", 12_345_678),
            ("100", 100_000_000),
            ("1.10", 1_100_000),
        ] {
            assert_eq!(micro(text), Some(value), "{text}");
        }
        for text in [
            "",
            ".",
            ".5",
            "5.",
            "-1",
            "+1",
            "1e3",
            "0.0000001",
            "1.2.3",
            "1 ",
            "٣",
            "99999999999999999999",
            "18446744073710",
            "0x10",
        ] {
            assert_eq!(micro(text), None, "{text}");
        }
    }

    #[test]
    fn whole_numbers_have_neither_sign_nor_point() {
        assert_eq!((whole("0"), whole("30"), whole("007")), (Some(0), Some(30), Some(7)));
        for text in ["", "+1", "-1", "1.0", "1_000", "18446744073709551616"] {
            assert_eq!(whole(text), None, "{text}");
        }
    }
}
