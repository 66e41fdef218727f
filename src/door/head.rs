//! The head of a request, as the entry hands it over in one piece: each piece by itself would be a step across the border.

/// In the place of a field's value that isn't there. No value has it in it (RFC 9110 section 5.5).
const MISSING: &str = "\0";

/// Where a request is sent to, and what nearly every one is asked for.
pub struct Head {
    /// GET, POST, ...
    pub method: String,
    /// Where to, as it was sent.
    pub url: String,
    /// The path of it.
    pub path: String,
    /// Names and values, by turns.
    fields: Vec<String>,
}

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
    /// From what `src/entry.mjs` writes: method and URL, and the name and the value of each field, a line each.
    pub fn new(text: &str) -> Self {
        let mut lines = text.split('\n').map(str::to_owned);
        let (method, url) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        // It is absolute, and a ? or # in its path is written otherwise (URL Standard, section 4.5).
        let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').and_then(|start| rest.get(start..)));
        let path = path.and_then(|path| path.split(['?', '#']).next()).unwrap_or("/").to_owned();
        Self { method, url, path, fields: lines.collect() }
    }

    /// What is told of a field.
    pub fn field(&self, name: &str) -> Field<'_> {
        for field in self.fields.chunks_exact(2) {
            match field {
                [other, value] if other.eq_ignore_ascii_case(name) && value == MISSING => return Field::Missing,
                [other, value] if other.eq_ignore_ascii_case(name) => return Field::Is(value),
                _ => (),
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
        let head = Head::new("POST\nhttps://a.example/mcp\norigin\n\0\naccept\na, b\nmcp-name\n");
        assert_eq!((head.method.as_str(), head.url.as_str()), ("POST", "https://a.example/mcp"));
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
            assert_eq!(Head::new(&format!("GET\n{url}")).path, path, "{url}");
        }
    }
}
