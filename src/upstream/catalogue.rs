//! The tools of the server behind, as its `tools/list` tells them (specification, server/tools, Listing Tools).

use crate::limiter::policy::SECOND;
use crate::mcp::schema::Schema;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

/// For how long a list is good when it says nothing else, and at the most, in microseconds.
const GOOD_FOR: u64 = 300 * SECOND;

/// One page of a list, as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    tools: Vec<Entry>,
    /// Where the next page is, if there is one.
    #[serde(default)]
    pub next_cursor: Option<String>,
    #[serde(default)]
    ttl_ms: Option<u64>,
    #[serde(default)]
    cache_scope: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    #[serde(default)]
    input_schema: Option<Box<RawValue>>,
    #[serde(default)]
    annotations: Option<Annotations>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Annotations {
    read_only_hint: bool,
    idempotent_hint: bool,
}

/// A tool of the server behind.
pub struct Listed {
    schema: Option<Box<RawValue>>,
    compiled: OnceCell<Option<Schema>>,
    /// Whether calling it twice does no more than calling it once, as the server says.
    pub is_repeatable: bool,
}

/// All tools that one client was told of.
pub struct Catalogue {
    tools: HashMap<String, Rc<Listed>>,
    /// When it was learnt, in microseconds since 1970.
    pub learnt: u64,
    until: u64,
    /// What is kept of it, in bytes.
    pub size: usize,
    /// Whether the server says that it is for this client alone.
    pub is_private: bool,
    /// Whether it says that it is for anybody.
    pub is_public: bool,
}

impl Page {
    /// The page in the result of `tools/list`; None when it is none.
    pub fn parse(result: &str) -> Option<Self> {
        serde_json::from_str(result).ok()
    }
}

impl Catalogue {
    /// The catalogue of all `pages`, learnt at `now`.
    pub fn new(pages: Vec<Page>, now: u64) -> Self {
        Self::aged(pages, 0, now)
    }

    /// The same, where somebody else had it for `age` microseconds.
    pub fn aged(pages: Vec<Page>, age: u64, now: u64) -> Self {
        let lives = |page: &Page| page.ttl_ms.map_or(GOOD_FOR, |ms| ms.saturating_mul(1_000).min(GOOD_FOR));
        let lives = pages.iter().map(lives).min().unwrap_or(GOOD_FOR);
        let until = now.saturating_add(lives.saturating_sub(age));
        let scoped = |scope: &'static str| move |page: &Page| page.cache_scope.as_deref() == Some(scope);
        let (is_private, is_public) = (pages.iter().any(scoped("private")), pages.iter().all(scoped("public")));
        let entries = pages.into_iter().flat_map(|page| page.tools);
        let mut catalogue = Self { tools: HashMap::new(), learnt: now, until, size: 0, is_private, is_public };
        for Entry { name, input_schema: schema, annotations } in entries {
            let hints = annotations.unwrap_or_default();
            let length = schema.as_ref().map_or(0, |schema| schema.get().len());
            catalogue.size = catalogue.size.saturating_add(name.len()).saturating_add(length);
            let is_repeatable = hints.read_only_hint || hints.idempotent_hint;
            catalogue.tools.insert(name, Rc::new(Listed { schema, compiled: OnceCell::new(), is_repeatable }));
        }
        catalogue
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<Rc<Listed>> {
        self.tools.get(name).cloned()
    }

    /// For how long it counts from `now` on, in microseconds.
    pub fn lives(&self, now: u64) -> u64 {
        self.until.saturating_sub(now)
    }

    /// Whether it still counts at `now`. (Whoever asked for it may use it whatever it says.)
    pub fn is_good(&self, now: u64) -> bool {
        (self.learnt..self.until).contains(&now)
    }
}

impl Listed {
    /// What arguments have to fit; None when there is nothing that could be used.
    pub fn schema(&self) -> Option<&Schema> {
        let compile = || {
            let source = serde_json::from_str(self.schema.as_ref()?.get()).ok()?;
            Schema::compile(source).ok()
        };
        self.compiled.get_or_init(compile).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    fn page(value: Value) -> Page {
        Page::parse(&value.to_string()).unwrap()
    }

    #[test]
    fn tools_are_found_by_name_with_their_schema_and_their_hints() {
        let first = page(json!({"nextCursor": "2", "tools": [
            {"name": "echo", "inputSchema": {"type": "object", "required": ["text"]}, "icons": []},
            {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        ]}));
        assert_eq!(first.next_cursor.as_deref(), Some("2"));
        let second = page(json!({"tools": [
            {"name": "put", "annotations": {"idempotentHint": true, "destructiveHint": true, "title": "Put"}},
            {"name": "odd", "inputSchema": {"type": "no such type"}, "annotations": null},
        ]}));
        let catalogue = Catalogue::new(vec![first, second], 7);
        let tool = |name| catalogue.tool(name).unwrap();
        assert!(tool("echo").schema().unwrap().check("echo", &json!({})).is_err());
        assert!(tool("look").schema().unwrap().check("look", &json!({})).is_ok());
        assert!(tool("put").schema().is_none() && tool("odd").schema().is_none());
        let repeatable = ["echo", "look", "put", "odd"].map(|name| tool(name).is_repeatable);
        assert_eq!(repeatable, [false, true, true, false]);
        assert!(catalogue.tool("nothing").is_none());
        assert_eq!((catalogue.learnt, catalogue.size > 60, catalogue.is_private), (7, true, false));
    }

    #[test]
    fn a_list_is_good_for_as_long_as_it_says_and_five_minutes_at_most() {
        let good = |pages: Vec<Value>, after: u64| {
            Catalogue::new(pages.into_iter().map(page).collect(), 1_000).is_good(1_000 + after)
        };
        let plain = || vec![json!({"tools": []})];
        assert!(good(plain(), 300 * SECOND - 1) && !good(plain(), 300 * SECOND));
        let short = || vec![json!({"tools": [], "ttlMs": 9_000}), json!({"tools": [], "ttlMs": 20})];
        assert!(good(short(), 19_999) && !good(short(), 20_000));
        let long = || vec![json!({"tools": [], "ttlMs": 86_400_000})];
        assert!(good(long(), 300 * SECOND - 1) && !good(long(), 300 * SECOND));
        assert!(!good(vec![json!({"tools": [], "ttlMs": 0})], 0));
        let old = Catalogue::aged(vec![page(json!({"tools": []}))], 100 * SECOND, 7);
        assert_eq!(
            (old.learnt, old.lives(7), old.lives(8), old.lives(300 * SECOND)),
            (7, 200 * SECOND, 200 * SECOND - 1, 0)
        );
        assert_eq!(Catalogue::aged(vec![page(json!({"tools": []}))], 301 * SECOND, 7).lives(7), 0);
        let catalogue = Catalogue::new(vec![page(json!({"tools": []}))], 1_000);
        assert!(!catalogue.is_good(999), "the clock went back");
    }

    #[test]
    fn one_private_page_makes_the_list_private() {
        let scoped = |scope: &str| page(json!({"tools": [], "cacheScope": scope}));
        assert!(Catalogue::new(vec![scoped("public"), scoped("private")], 0).is_private);
        assert!(!Catalogue::new(vec![scoped("public")], 0).is_private);
        let is_public = |pages| Catalogue::new(pages, 0).is_public;
        assert!(is_public(vec![scoped("public"), scoped("public")]));
        assert!(!is_public(vec![scoped("public"), page(json!({"tools": []}))]), "what isn't said isn't so");
    }

    #[test]
    fn what_is_no_list_is_no_page() {
        for result in ["7", "{}", r#"{"tools":{}}"#, r#"{"tools":[{"title":"no name"}]}"#, "{"] {
            assert!(Page::parse(result).is_none(), "{result}");
        }
    }
}
