//! What a POST may be made of: JSON in UTF-8, as it is, for a client that takes JSON back.

use super::reply::Reply;
use crate::mcp::headers::Header;
use crate::mcp::reply::{Response, RpcError};

/// Checks the headers of a POST.
pub fn check(header: Header<'_>) -> Result<(), Reply> {
    check_body(header)?;
    if header("accept").is_some_and(|value| !takes(&value, JSON)) {
        let error = RpcError::unacceptable(406, "the answer is application/json, and Accept excludes that");
        return Err(Reply::rpc(&Response::without_id(error)));
    }
    Ok(())
}

/// Checks what they say of the body.
pub fn check_body(header: Header<'_>) -> Result<(), Reply> {
    if !header("content-type").is_some_and(|value| is_json(&value)) {
        return Err(Reply::empty(415).with("accept-post", "application/json"));
    }
    let encoding = header("content-encoding").unwrap_or_default();
    if !encoding.is_empty() && !encoding.trim().eq_ignore_ascii_case("identity") {
        return Err(Reply::empty(415).with("accept-encoding", "identity"));
    }
    Ok(())
}

/// Whether an Accept lets JSON or a stream of events through.
pub fn takes_json_or_events(accept: &str) -> bool {
    takes(accept, JSON) || takes(accept, EVENTS)
}

/// Whether an Accept lets a stream of events through, and no JSON.
pub fn takes_events_only(accept: &str) -> bool {
    takes(accept, EVENTS) && !takes(accept, JSON)
}

/// A media type, as a range of its own and of all of its kind.
type Range = (&'static str, &'static str);
const JSON: Range = ("application/json", "application/*");
const EVENTS: Range = ("text/event-stream", "text/*");

/// Whether a Content-Type is JSON in UTF-8 (RFC 9110 section 8.3; RFC 8259 section 8.1). Parameters but the charset
/// mean nothing, and an empty one, as in `application/json;`, is none.
fn is_json(value: &str) -> bool {
    let mut parts = value.split(';').map(str::trim);
    let json = parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"));
    let charset_fits = parts.all(|parameter| match parameter.split_once('=') {
        Some((name, charset)) if name.trim().eq_ignore_ascii_case("charset") => {
            charset.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => !parameter.contains(','),
    });
    json && charset_fits
}

/// Whether an Accept lets a media type through (RFC 9110 section 12.5.1). The most specific range decides.
fn takes(value: &str, (itself, of_its_kind): Range) -> bool {
    let mut best: Option<(u8, bool)> = None;
    for range in value.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let rank = match parts.next().map(str::to_ascii_lowercase).as_deref() {
            Some(range) if range == itself => 3,
            Some(range) if range == of_its_kind => 2,
            Some("*/*") => 1,
            _ => continue,
        };
        let refused = parts.any(|parameter| {
            let weight = parameter.split_once('=').filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
            weight.and_then(|(_, weight)| weight.trim().parse::<f32>().ok()) == Some(0.0)
        });
        if best.is_none_or(|(other, _)| rank > other) {
            best = Some((rank, !refused));
        }
    }
    best.is_some_and(|(_, taken)| taken) || value.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_in_utf_8_is_taken_and_nothing_else() {
        for value in [
            "application/json",
            "Application/JSON",
            "application/json;",
            "application/json; charset=UTF-8",
            "application/json;charset=\"utf-8\"",
            " application/json ; x=y",
        ] {
            assert!(is_json(value), "{value}");
        }
        for value in [
            "",
            "text/plain",
            "application/jsonp",
            "application/json, application/json",
            "application/json; x=y, text/plain",
            "application/json; charset=latin1",
            "application/json; charset=utf-16",
            "text/plain; application/json",
            "application/vnd.api+json",
        ] {
            assert!(!is_json(value), "{value}");
        }
    }

    #[test]
    fn an_accept_that_lets_json_through_will_do() {
        for value in [
            "application/json, text/event-stream",
            "*/*",
            "application/*",
            "",
            "text/html, */*;q=0.1",
            "text/event-stream;q=0, APPLICATION/JSON;q=0.5",
        ] {
            assert!(takes(value, JSON), "{value}");
        }
        for value in [
            "text/event-stream",
            "text/html",
            "application/json;q=0",
            "application/json; q=0.000, */*",
            "application/*;q=0, */*",
        ] {
            assert!(!takes(value, JSON), "{value}");
        }
    }

    #[test]
    fn who_takes_events_alone_is_known() {
        for (value, events_only, either) in [
            ("text/event-stream", true, true),
            ("application/json, text/event-stream", false, true),
            ("*/*", false, true),
            ("", false, true),
            ("text/*, application/json;q=0", true, true),
            ("application/json", false, true),
            ("text/html", false, false),
        ] {
            assert_eq!((takes_events_only(value), takes_json_or_events(value)), (events_only, either), "{value}");
        }
    }

    #[test]
    fn each_fault_has_its_status() {
        let checked = |pairs: &[(&str, &str)]| {
            let header = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
            check(&header).map_err(|reply| reply.status)
        };
        let json = ("content-type", "application/json");
        assert_eq!(checked(&[json]), Ok(()));
        assert_eq!(checked(&[]), Err(415));
        assert_eq!(checked(&[json, ("content-encoding", "gzip")]), Err(415));
        assert_eq!(checked(&[json, ("content-encoding", "Identity")]), Ok(()));
        assert_eq!(checked(&[json, ("accept", "text/html")]), Err(406));
    }
}
