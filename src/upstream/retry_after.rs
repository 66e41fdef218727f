//! The `Retry-After` header (RFC 9110 section 10.2.3): seconds, or a date.

use crate::limiter::policy::SECOND;
use std::time::UNIX_EPOCH;

/// The longest pause that is believed, in microseconds.
const LONGEST: u64 = 3_600 * SECOND;

/// The pause that a header's value asks for at `now`, in microseconds; None when it says nothing that can be read.
pub fn pause(value: &str, now: u64) -> Option<u64> {
    let value = once(value);
    // No standard has parts of a second; some servers do.
    let (whole, part) = value.split_once('.').unwrap_or((&value, "0"));
    if [whole, part].iter().all(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())) {
        // More seconds than can be counted are a long time, too.
        let seconds = whole.parse::<u64>().unwrap_or(u64::MAX);
        let more = u64::from(part.bytes().any(|byte| byte != b'0'));
        return Some(seconds.saturating_add(more).saturating_mul(SECOND).min(LONGEST));
    }
    let date = httpdate::parse_http_date(&value).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let at = date.as_secs().saturating_mul(SECOND);
    Some(at.saturating_sub(now).min(LONGEST))
}

/// A value that two headers agree on, which arrive joined by a comma. (Most dates have a comma of their own.)
fn once(value: &str) -> String {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    let all = [1, 2].into_iter().find_map(|size| {
        let mut values = parts.chunks(size);
        let first = values.next()?;
        values.all(|other| other == first).then(|| first.join(", "))
    });
    all.unwrap_or_default()
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
    fn a_part_of_a_second_is_a_whole_one_and_what_is_said_twice_is_said_once() {
        assert_eq!(pause("7.5", NOW), Some(8 * SECOND));
        assert_eq!(pause("7.000", NOW), Some(7 * SECOND));
        assert_eq!(pause("7, 7", NOW), Some(7 * SECOND));
        let date = "Sun, 06 Nov 1994 08:49:47 GMT";
        assert_eq!(pause(&format!("{date}, {date}"), NOW), Some(10 * SECOND));
    }

    #[test]
    fn what_cant_be_read_says_nothing() {
        for value in ["", "soon", "-1", "1.", ".5", "1.5.2", ",", "7, 8", "1 s"] {
            assert_eq!(pause(value, NOW), None, "{value}");
        }
    }
}
