//! The `Retry-After` header (RFC 9110 section 10.2.3): seconds, or a date.

use crate::limiter::policy::SECOND;
use std::time::UNIX_EPOCH;

/// The longest pause that is believed, in microseconds.
const LONGEST: u64 = 3_600 * SECOND;

/// The pause that a header's value asks for at `now`, in microseconds; None when it says nothing that can be read.
pub fn pause(value: &str, now: u64) -> Option<u64> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More seconds than can be counted are a long time, too.
        let seconds = value.parse::<u64>().unwrap_or(u64::MAX);
        return Some(seconds.saturating_mul(SECOND).min(LONGEST));
    }
    let date = httpdate::parse_http_date(value).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let at = date.as_secs().saturating_mul(SECOND);
    Some(at.saturating_sub(now).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const NOW: u64 = 784_111_777 * SECOND;

    #[test]
    fn seconds_are_taken_up_to_an_hour() {
        assert_eq!(pause("7", NOW), Some(7 * SECOND));
        assert_eq!(pause(" 0 ", NOW), Some(0));
        assert_eq!(pause("3600", NOW), Some(3_600_000_000));
        for long in ["3601", "99999999999999999999999"] {
            assert_eq!(pause(long, NOW), Some(3_600_000_000));
        }
    }

    #[test]
    fn a_date_is_taken_in_all_three_forms_and_one_that_is_over_is_no_pause() {
        for date in ["Sun, 06 Nov 1994 08:49:47 GMT", "Sunday, 06-Nov-94 08:49:47 GMT", "Sun Nov  6 08:49:47 1994"] {
            assert_eq!(pause(date, NOW), Some(10 * SECOND), "{date}");
        }
        assert_eq!(pause("Sun, 06 Nov 1994 08:49:07 GMT", NOW), Some(0));
        assert_eq!(pause("Mon, 07 Nov 1994 08:49:37 GMT", NOW), Some(LONGEST));
    }

    #[test]
    fn what_cant_be_read_says_nothing() {
        for value in ["", "soon", "-1", "1.5", "7, 8", "1 s"] {
            assert_eq!(pause(value, NOW), None, "{value}");
        }
    }
}
