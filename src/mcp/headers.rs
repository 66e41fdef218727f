//! The headers that mirror a modern request's body: they must say the same, or the request is refused
//! (2026-07-28, basic/transports, Standard request headers and Custom headers; SEP-2243).
//!
//! A header is given as a function from its name to its value, so that only those that are needed are read.

use super::reply::RpcError;
use base64::prelude::{Engine as _, BASE64_STANDARD};
use serde_json::Value;

/// The value of a request header; a header that came twice has both values, joined by a comma.
pub type Header<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A header's value without the blanks round it, which are spaces and tabs and no others (RFC 9110 section 5.5): what stands behind
/// keeps all else.
pub fn trimmed(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// `Mcp-Method` must be the method.
pub fn check_method(header: Header<'_>, method: &str) -> Result<(), RpcError> {
    match header("mcp-method") {
        Some(value) if trimmed(&value) == method => Ok(()),
        Some(_) => Err(RpcError::header_mismatch("Mcp-Method does not match the body's method")),
        None => Err(RpcError::header_mismatch("Mcp-Method is missing")),
    }
}

/// `Mcp-Name` must be the name of the tool.
pub fn check_name(header: Header<'_>, name: &str) -> Result<(), RpcError> {
    let Some(value) = header("mcp-name") else {
        return Err(RpcError::header_mismatch("Mcp-Name is missing"));
    };
    match decode(trimmed(&value)) {
        Some(decoded) if decoded == name => Ok(()),
        Some(_) => Err(RpcError::header_mismatch("Mcp-Name does not match params.name")),
        None => Err(RpcError::header_mismatch("Mcp-Name can't be decoded")),
    }
}

/// Both, where they are there at all: a server behind may go by them, in whatever revision. `name` is that of the tool when `method`
/// calls one.
pub fn check_present(header: Header<'_>, method: &str, name: Option<&str>) -> Result<(), RpcError> {
    if header("mcp-method").is_some() {
        check_method(header, method)?;
    }
    match name {
        Some(name) if header("mcp-name").is_some() => check_name(header, name),
        _ => Ok(()),
    }
}

/// Each argument that `schema` annotates with `x-mcp-header` must be mirrored by its `Mcp-Param-` header, and by none
/// when it is absent or null.
pub fn check_params(header: Header<'_>, schema: &Value, arguments: &Value) -> Result<(), RpcError> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Ok(());
    };
    for (property, schema) in properties {
        let argument = arguments.get(property).unwrap_or(&Value::Null);
        if let Some(suffix) = schema.get("x-mcp-header").and_then(Value::as_str) {
            let name = format!("Mcp-Param-{suffix}");
            let value = header(&name.to_ascii_lowercase());
            let same = match (value, argument) {
                (None, Value::Null) => true,
                (None, _) | (Some(_), Value::Null) => false,
                (Some(value), argument) => decode(trimmed(&value)).is_some_and(|decoded| mirrors(&decoded, argument)),
            };
            if !same {
                return Err(RpcError::header_mismatch(&format!("{name} does not match the argument {property}")));
            }
        }
        check_params(header, schema, argument)?;
    }
    Ok(())
}

/// Whether a decoded header says what the argument says. Numbers are compared as numbers.
fn mirrors(decoded: &str, argument: &Value) -> bool {
    match argument {
        Value::String(text) => decoded == text,
        Value::Bool(flag) => decoded == if *flag { "true" } else { "false" },
        Value::Number(number) => match (decoded.parse::<i64>(), number.as_i64()) {
            (Ok(left), Some(right)) => left == right,
            _ => decoded.parse::<f64>().ok().is_some_and(|value| number.as_f64() == Some(value)),
        },
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

/// A header's value, decoded when it is wrapped in `=?base64?` and `?=`, else as it is. None when the wrapping holds
/// anything but the base64 of UTF-8.
fn decode(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => BASE64_STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok()),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_method_must_be_mirrored_to_the_letter() {
        assert!(check_method(&with(&[("mcp-method", " tools/list ")]), "tools/list").is_ok());
        for value in ["TOOLS/LIST", "tools/call", "tools/list, tools/list", ""] {
            let error = check_method(&with(&[("mcp-method", value)]), "tools/list").unwrap_err();
            assert_eq!((error.status, error.code), (400, -32020));
        }
        assert_eq!(check_method(&with(&[]), "tools/list").unwrap_err().code, -32020);
    }

    #[test]
    fn the_name_may_be_encoded_and_is_decoded_strictly() {
        for (value, name) in [
            ("echo", "echo"),
            (" echo\t", "echo"),
            ("=?base64?ZWNobw==?=", "echo"),
            ("=?base64?w6k=?=", "é"),
            ("=?base64?ZWNobw==", "=?base64?ZWNobw=="),
            ("ZWNobw==?=", "ZWNobw==?="),
            ("=?BASE64?ZWNobw==?=", "=?BASE64?ZWNobw==?="),
        ] {
            assert!(check_name(&with(&[("mcp-name", value)]), name).is_ok(), "{value}");
        }
        for value in [
            "=?base64?ZWNobw?=",
            "=?base64?ZW Nobw==?=",
            "=?base64?ZWNobw==\u{e9}?=",
            "=?base64?_w==?=",
            "=?base64?/w==?=",
            "Echo",
            "echo, echo",
        ] {
            assert_eq!(check_name(&with(&[("mcp-name", value)]), "echo").unwrap_err().code, -32020, "{value}");
        }
        assert_eq!(check_name(&with(&[]), "echo").unwrap_err().code, -32020);
    }

    #[test]
    fn only_spaces_and_tabs_are_passed_over() {
        for blank in ["\u{a0}", "\u{85}", "\u{b}", "\u{2003}"] {
            let value = format!("echo{blank}");
            assert_eq!(check_name(&with(&[("mcp-name", &value)]), "echo").unwrap_err().code, -32020, "{blank:?}");
            assert_eq!(check_method(&with(&[("mcp-method", &value)]), "echo").unwrap_err().code, -32020, "{blank:?}");
            let schema = json!({"properties": {"a": {"x-mcp-header": "A"}}});
            let header = [("mcp-param-a", value.as_str())];
            assert!(check_params(&with(&header), &schema, &json!({"a": "echo"})).is_err(), "{blank:?}");
        }
    }

    #[test]
    fn where_they_are_not_demanded_they_must_still_be_right() {
        let checked = |pairs: &[(&str, &str)], name| check_present(&with(pairs), "tools/call", name);
        let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "echo"));
        for pairs in [&[][..], &[method], &[name], &[method, name]] {
            assert_eq!(checked(pairs, Some("echo")), Ok(()));
        }
        assert_eq!(checked(&[("mcp-method", "ping")], Some("echo")).unwrap_err().code, -32020);
        assert_eq!(checked(&[("mcp-name", "add")], Some("echo")).unwrap_err().code, -32020);
        assert_eq!(checked(&[("mcp-name", "add")], None), Ok(()));
    }

    fn schema() -> Value {
        json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "flag": {"type": "boolean", "x-mcp-header": "Flag"},
            "inner": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
            "plain": {"type": "string"},
        }})
    }

    #[test]
    fn an_annotated_argument_is_mirrored_and_the_rest_ignored() {
        let ok = [
            (json!({"region": "Hello"}), vec![("mcp-param-region", "Hello")]),
            (json!({"region": "Hello"}), vec![("mcp-param-region", "=?base64?SGVsbG8=?=")]),
            (json!({"region": "SGVsbG8="}), vec![("mcp-param-region", "SGVsbG8=")]),
            (json!({"region": null}), vec![]),
            (json!({"plain": "x"}), vec![("mcp-param-plain", "y"), ("mcp-param-other", "z")]),
            (json!({"count": 42}), vec![("mcp-param-count", "42.0")]),
            (json!({"count": 9007199254740993_i64}), vec![("mcp-param-count", "9007199254740993")]),
            (json!({"flag": true}), vec![("mcp-param-flag", "true")]),
            (json!({"flag": false}), vec![("mcp-param-flag", "false")]),
            (json!({"inner": {"zone": "a"}}), vec![("mcp-param-zone", "a")]),
        ];
        for (arguments, headers) in ok {
            assert!(check_params(&with(&headers), &schema(), &arguments).is_ok(), "{arguments} {headers:?}");
        }
        let wrong = [
            (json!({"region": "Hello"}), vec![]),
            (json!({"region": "Hello"}), vec![("mcp-param-region", "hello")]),
            (json!({"region": "Hello"}), vec![("mcp-param-region", "=?base64?SGVsbG8?=")]),
            (json!({}), vec![("mcp-param-region", "Hello")]),
            (json!({"count": 42}), vec![("mcp-param-count", "43")]),
            (json!({"count": 42}), vec![("mcp-param-count", "many")]),
            (json!({"count": 9007199254740993_i64}), vec![("mcp-param-count", "9007199254740992")]),
            (json!({"flag": true}), vec![("mcp-param-flag", "false")]),
            (json!({"flag": false}), vec![("mcp-param-flag", "true")]),
            (json!({"region": ["a"]}), vec![("mcp-param-region", "a")]),
            (json!({"inner": {"zone": "a"}}), vec![]),
        ];
        for (arguments, headers) in wrong {
            let error = check_params(&with(&headers), &schema(), &arguments).unwrap_err();
            assert_eq!((error.status, error.code), (400, -32020), "{arguments} {headers:?}");
        }
        assert!(check_params(&with(&[]), &json!({"type": "object"}), &json!({})).is_ok());
    }
}
