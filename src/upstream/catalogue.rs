//! The tools of the server behind, as its `tools/list` tells them (specification, server/tools, Listing Tools).

use crate::limiter::policy::SECOND;
use crate::mcp::schema::Schema;
use crate::mcp::schema_work::{extent, work};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::Value;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// For how long a list is good when it says nothing else, and at the most, in microseconds.
const GOOD_FOR: u64 = 300 * SECOND;

/// The largest schema that is used, in bytes.
const LARGEST_SCHEMA: usize = 64 << 10;

/// The most parts of a schema that are looked at in one check, all values together: a tenth of a second's work.
const MOST_WORK: u64 = 1_000_000;

/// The most values in arguments that are checked: each of them can be wrong, and every fault is kept until all are found.
const MOST_VALUES: u64 = 10_000;

/// One page of a list, as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    /// Each is read by itself: one that is odd is no reason to know none.
    tools: Vec<Box<RawValue>>,
    /// Where the next page is, if there is one.
    #[serde(default)]
    pub next_cursor: Option<String>,
    #[serde(default)]
    ttl_ms: Value,
    #[serde(default)]
    cache_scope: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    #[serde(default)]
    input_schema: Option<Box<RawValue>>,
    #[serde(default)]
    annotations: Value,
}

/// A tool of the server behind.
pub struct Listed {
    schema: Option<Box<RawValue>>,
    compiled: OnceCell<Option<Schema>>,
    /// How much work a check of arguments is that are nested so deep.
    work: RefCell<HashMap<usize, u64>>,
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
        let lives = |page: &Page| match page.ttl_ms.as_f64() {
            Some(ms) if ms >= 0.0 => ((ms * 1_000.0) as u64).min(GOOD_FOR),
            _ => GOOD_FOR,
        };
        let lives = pages.iter().map(lives).min().unwrap_or(GOOD_FOR);
        let until = now.saturating_add(lives.saturating_sub(age));
        let scoped = |scope: &'static str| move |page: &Page| page.cache_scope.as_str() == Some(scope);
        let (is_private, is_public) = (pages.iter().any(scoped("private")), pages.iter().all(scoped("public")));
        let tools = pages.into_iter().flat_map(|page| page.tools);
        let entries = tools.filter_map(|tool| serde_json::from_str::<Entry>(tool.get()).ok());
        let mut catalogue = Self { tools: HashMap::new(), learnt: now, until, size: 0, is_private, is_public };
        for Entry { name, input_schema: schema, annotations } in entries {
            let hinted = |hint: &str| annotations.get(hint) == Some(&Value::Bool(true));
            let length = schema.as_ref().map_or(0, |schema| schema.get().len());
            catalogue.size = catalogue.size.saturating_add(name.len()).saturating_add(length);
            let is_repeatable = hinted("readOnlyHint") || hinted("idempotentHint");
            catalogue.tools.insert(
                name,
                Rc::new(Listed { schema, compiled: OnceCell::new(), work: RefCell::default(), is_repeatable }),
            );
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
    /// What these arguments have to fit; None when there is nothing that could be used, or too much.
    pub fn schema(&self, arguments: &Value) -> Option<&Schema> {
        let compile = || {
            let text = self.schema.as_ref()?.get();
            let source = serde_json::from_str(text).ok().filter(|_| text.len() <= LARGEST_SCHEMA)?;
            Schema::compile(source).ok()
        };
        let (depth, values) = extent(arguments);
        let schema = self.compiled.get_or_init(compile).as_ref()?;
        let work = *self.work.borrow_mut().entry(depth).or_insert_with(|| work(schema.source(), depth));
        (values <= MOST_VALUES && work.saturating_mul(values) <= MOST_WORK).then_some(schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        assert!(tool("echo").schema(&json!({})).unwrap().check("echo", &json!({})).is_err());
        assert!(tool("look").schema(&json!({})).unwrap().check("look", &json!({})).is_ok());
        assert!(tool("put").schema(&json!({})).is_none() && tool("odd").schema(&json!({})).is_none());
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
    fn what_is_odd_in_a_list_doesnt_spoil_the_rest() {
        let odd = page(json!({"ttlMs": 1.5, "cacheScope": 7, "tools": [
            {"title": "no name"}, 7, {"name": "echo", "annotations": {"readOnlyHint": null, "idempotentHint": true}},
        ]}));
        let catalogue = Catalogue::new(vec![odd], 0);
        assert!(catalogue.tool("echo").unwrap().is_repeatable);
        assert!(catalogue.is_good(1_499) && !catalogue.is_good(1_500));
        assert!(Catalogue::new(vec![page(json!({"tools": [], "ttlMs": "soon"}))], 0).is_good(299 * SECOND));
        assert!(Catalogue::new(vec![page(json!({"tools": [], "ttlMs": -5}))], 0).is_good(299 * SECOND));
    }

    #[test]
    fn a_schema_or_arguments_that_would_take_too_much_arent_used() {
        let usable = |schema: Value, arguments: &Value| {
            let list = page(json!({"tools": [{"name": "a", "inputSchema": schema}]}));
            Catalogue::new(vec![list], 0).tool("a").unwrap().schema(arguments).is_some()
        };
        let (plain, none) = (json!({"type": "object"}), json!({}));
        assert!(usable(plain.clone(), &none));
        let title = |length: usize| json!({"title": "x".repeat(length)});
        assert!(usable(title(65_536 - 12), &none) && !usable(title(65_536 - 11), &none));
        let tree = json!({"oneOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]});
        let nested = |levels: usize| (0..levels).fold(json!({}), |within, _| json!({ "a": within }));
        assert!(usable(tree.clone(), &nested(12)) && !usable(tree, &nested(20)));
        let many = |count: usize| json!({"a": vec![1; count]});
        assert!(usable(plain.clone(), &many(9_998)) && !usable(plain, &many(9_999)));
    }

    #[test]
    fn what_is_no_list_is_no_page() {
        for result in ["7", "{}", r#"{"tools":{}}"#, "{"] {
            assert!(Page::parse(result).is_none(), "{result}");
        }
    }
}
