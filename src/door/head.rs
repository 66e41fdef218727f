//! The head of a request, as the entry hands it over in one piece: each piece by itself would be a step across the border.

/// In the place of a field's value that isn't there. No value has it in it (RFC 9110 section 5.5).
const MISSING: &str = "\0";

/// Method, URL, and what nearly every request is asked for: what `src/entry.mjs` writes, method and URL, and then the name and the value
/// of each field, a line each.
pub struct Head(pub String);

/// What a head tells of a field.
#[derive(Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// Its value; those that came more than once are joined by commas.
    Is(&'a str),
    /// That there is none.
    Missing,
    /// Nothing.
    Unknown,
}

impl Head {
    /// GET, POST, ...
    pub fn method(&self) -> &str {
        self.0.split('\n').next().unwrap_or_default()
    }

    /// Where to, as it was sent.
    pub fn url(&self) -> &str {
        self.0.split('\n').nth(1).unwrap_or_default()
    }

    /// The path of it.
    pub fn path(&self) -> &str {
        // The URL is absolute, and a ? or # in its path is written otherwise (URL Standard, section 4.5).
        let path =
            self.url().split_once("://").and_then(|(_, rest)| rest.find('/').and_then(|start| rest.get(start..)));
        path.and_then(|path| path.split(['?', '#']).next()).unwrap_or("/")
    }

    /// What is told of a field.
    pub fn field(&self, name: &str) -> Field<'_> {
        let mut lines = self.0.split('\n').skip(2);
        while let (Some(other), Some(value)) = (lines.next(), lines.next()) {
            if other.eq_ignore_ascii_case(name) {
                return if value == MISSING { Field::Missing } else { Field::Is(value) };
            }
        }
        Field::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_a_value_or_none_or_isnt_told_of() {
        let head = Head("POST\nhttps://a.example/mcp\norigin\n\0\naccept\na, b\nmcp-name\n".to_owned());
        assert_eq!((head.method(), head.url()), ("POST", "https://a.example/mcp"));
        assert_eq!(head.field("origin"), Field::Missing);
        assert_eq!(head.field("Accept"), Field::Is("a, b"));
        assert_eq!(head.field("mcp-name"), Field::Is(""), "an empty one is there");
        assert_eq!(head.field("cookie"), Field::Unknown);
    }

    #[test]
    fn the_path_is_what_stands_between_the_host_and_the_query() {
        for (url, path) in [
            ("https://a.example/mcp", "/mcp"),
            ("https://a.example/mcp?x=/y#z", "/mcp"),
            ("https://a.example/admin/callers/a%2Fb", "/admin/callers/a%2Fb"),
            ("https://a.example/", "/"),
            ("https://a.example", "/"),
            ("", "/"),
        ] {
            assert_eq!(Head(format!("GET\n{url}")).path(), path, "{url}");
        }
    }
}
