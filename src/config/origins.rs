//! The browser origins that are let in (`MCP_ALLOWED_ORIGINS`; 2025-06-18 and later, transports: servers MUST
//! validate `Origin`, against DNS rebinding).

/// Which origins are let in beside the Worker's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// `*`
    Any,
    /// Those at one of these hosts, in lower case, whatever their scheme and port.
    Hosts(Vec<String>),
}

impl Origins {
    /// Reads a list of host names, separated by commas; `*` is all of them, and an empty text is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let hosts = names.map(|name| {
            let host = name.to_ascii_lowercase();
            let plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
            if plain || is_ipv6(&host) {
                Ok(host)
            } else {
                Err(format!("must be a list of host names, without scheme or port, or \"*\"; not {name:?}"))
            }
        });
        hosts.collect::<Result<_, _>>().map(Self::Hosts)
    }

    /// Whether `origin`, the value of the header, is let in at the Worker's `url`.
    pub fn allow(&self, origin: &str, url: &str) -> bool {
        let Some((scheme, authority)) = split(origin) else {
            return false;
        };
        if is_own(scheme, authority, url) {
            return true;
        }
        match self {
            Self::Any => true,
            Self::Hosts(hosts) => hosts.iter().any(|host| *host == host_of(authority).to_ascii_lowercase()),
        }
    }
}

/// Scheme and authority of an origin (RFC 6454 section 6.2). `null`, a list and anything with a path have none.
fn split(origin: &str) -> Option<(&str, &str)> {
    let (scheme, authority) = origin.split_once("://")?;
    let strange = |byte: u8| byte.is_ascii_whitespace() || b"/,?#@\\".contains(&byte);
    (!scheme.is_empty() && !authority.is_empty() && !authority.bytes().any(strange)).then_some((scheme, authority))
}

/// Whether an origin is where the Worker itself is served. Without TLS only a loopback name is believed: a page that
/// had its own name pointed at this machine would be of "the same origin" too.
fn is_own(scheme: &str, authority: &str, url: &str) -> bool {
    let Some((own_scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let own_authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let believed = own_scheme == "https" || ["localhost", "127.0.0.1", "[::1]"].contains(&host_of(own_authority));
    believed && scheme.eq_ignore_ascii_case(own_scheme) && authority.eq_ignore_ascii_case(own_authority)
}

/// An authority without its port.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

fn is_ipv6(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://sluice.example/mcp";

    fn allows(list: &str, origin: &str) -> bool {
        Origins::parse(list).unwrap().allow(origin, URL)
    }

    #[test]
    fn a_host_is_let_in_at_any_scheme_and_port_and_no_other_is() {
        for origin in ["http://localhost", "http://localhost:6274", "https://LOCALHOST:1", "http://app.example"] {
            assert!(allows("localhost, App.example", origin), "{origin}");
        }
        for origin in [
            "null",
            "",
            "localhost",
            "http://evil.example",
            "http://localhost.evil.example",
            "http://evil.example/localhost",
            "http://localhost@evil.example",
            "http://localhost, http://evil.example",
            "http://",
            "://localhost",
            "http://localhost?x",
            "http://localhost#x",
            "http://evil.example\\localhost",
            "http://local host",
        ] {
            assert!(!allows("localhost, app.example", origin), "{origin}");
        }
        assert!(allows("[::1]", "http://[::1]:80") && allows("[::1]", "http://[::1]"));
        assert!(!allows("", "http://localhost"));
    }

    #[test]
    fn a_star_lets_in_every_origin_but_none_that_is_no_origin() {
        assert!(allows("*", "http://evil.example"));
        for origin in ["null", "http://", "://evil.example", "evil.example"] {
            assert!(!allows("*", origin), "{origin}");
        }
    }

    #[test]
    fn what_stands_in_no_origin_makes_it_none() {
        for strange in [' ', '\t', '\n', '/', ',', '?', '#', '@', '\\'] {
            let origin = format!("https://app.example{strange}");
            assert!(!allows("*", &origin), "{origin:?}");
        }
    }

    #[test]
    fn its_own_origin_is_let_in_without_being_listed() {
        assert!(allows("", "https://sluice.example"));
        assert!(!allows("", "http://sluice.example"));
        assert!(!allows("", "https://sluice.example:8443"));
        let own = |origin: &str, url: &str| Origins::Hosts(vec![]).allow(origin, url);
        for url in ["http://localhost:8787/mcp", "http://127.0.0.1:8787/mcp?x", "http://[::1]:8787"] {
            let origin = url.split("/mcp").next().unwrap();
            assert!(own(origin, url), "{url}");
        }
        assert!(!own("http://evil.example", "http://evil.example/mcp"), "DNS rebinding");
        assert!(!own("http://x", "no url"));
    }

    #[test]
    fn what_isnt_a_host_name_is_a_fault() {
        for text in ["https://a.example", "a.example:80", "a b", "*.example", "[zz]", "a,*"] {
            assert!(Origins::parse(text).unwrap_err().contains("host names"), "{text}");
        }
        assert_eq!(Origins::parse(" a , ,b-c.d_e "), Ok(Origins::Hosts(vec!["a".into(), "b-c.d_e".into()])));
    }
}
