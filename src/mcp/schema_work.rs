//! How much work a check is: a schema can be short and still take for ever, where its parts refer to each other.
//!
//! Counted are the parts that are looked at when every reference is followed anew, as the validator does, and the values and names that
//! are compared. A part that applies to what is
//! within a value is counted for each level of nesting; circles that don't go deeper are found by the validator itself.

use percent_encoding::percent_decode_str;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// What can't be counted is more than anybody wants.
const BEYOND: u64 = u64::MAX;

/// What it takes to see that no two values of an array are the same, for each of them: up to so many all pairs are compared.
const UNIQUE: u64 = 20;

/// The longest chain of parts within parts that is followed, and the most steps: beyond that it is too much in any case.
const LONGEST_CHAIN: usize = 300;
const MOST_STEPS: usize = 100_000;

/// At the most so many parts of `schema` are looked at for each value of a document that is nested `depth` levels deep.
pub fn work(schema: &Value, depth: usize) -> u64 {
    let mut anchors = HashMap::new();
    let mut has_inner_ids = false;
    find_anchors(schema, true, &mut anchors, &mut has_inner_ids);
    if has_inner_ids {
        // References mean something else within a schema that has a name of its own.
        return BEYOND;
    }
    Work { root: schema, anchors, known: HashMap::new(), open: HashSet::new(), steps: 0 }.of(schema, depth)
}

/// How many levels of arrays and objects a value has, and how many values there are in it.
pub fn extent(value: &Value) -> (usize, u64) {
    let within: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(values) => Box::new(values.iter()),
        Value::Object(members) => Box::new(members.values()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return (0, 1),
    };
    let (depth, count) = within
        .map(extent)
        .fold((0, 1_u64), |(depth, count), (deeper, more)| (deeper.max(depth), count.saturating_add(more)));
    (depth.saturating_add(1), count)
}

fn find_anchors<'s>(
    schema: &'s Value,
    is_root: bool,
    anchors: &mut HashMap<&'s str, &'s Value>,
    has_inner_ids: &mut bool,
) {
    match schema {
        Value::Array(parts) => parts.iter().for_each(|part| find_anchors(part, false, anchors, has_inner_ids)),
        Value::Object(members) => {
            for (name, part) in members {
                match (name.as_str(), part.as_str()) {
                    ("$anchor" | "$dynamicAnchor", Some(anchor)) => {
                        anchors.insert(anchor, schema);
                    }
                    ("$id", Some(_)) if !is_root => *has_inner_ids = true,
                    _ => find_anchors(part, false, anchors, has_inner_ids),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

struct Work<'s> {
    root: &'s Value,
    anchors: HashMap<&'s str, &'s Value>,
    known: HashMap<(*const Value, usize), u64>,
    open: HashSet<(*const Value, usize)>,
    steps: usize,
}

impl<'s> Work<'s> {
    fn of(&mut self, schema: &'s Value, depth: usize) -> u64 {
        let Value::Object(members) = schema else {
            // Yes or no; or the names in `dependencies`.
            return extent(schema).1;
        };
        let part = (std::ptr::from_ref(schema), depth);
        if let Some(known) = self.known.get(&part) {
            return *known;
        }
        self.steps = self.steps.saturating_add(1);
        if self.steps > MOST_STEPS || self.open.len() >= LONGEST_CHAIN {
            return BEYOND;
        }
        if !self.open.insert(part) {
            return 0;
        }
        let all =
            members.iter().fold(1_u64, |sum, (keyword, value)| sum.saturating_add(self.by(keyword, value, depth)));
        self.open.remove(&part);
        self.known.insert(part, all);
        all
    }

    fn by(&mut self, keyword: &str, value: &'s Value, depth: usize) -> u64 {
        match keyword {
            "$ref" | "$dynamicRef" | "$recursiveRef" => {
                match value.as_str().and_then(|reference| self.target(reference)) {
                    Some(target) => self.of(target, depth),
                    None => BEYOND,
                }
            }
            "allOf" | "anyOf" | "oneOf" | "dependentSchemas" | "dependencies" => self.each(value, depth),
            "enum" | "const" | "required" | "dependentRequired" => extent(value).1,
            "uniqueItems" => UNIQUE,
            "not" | "if" | "then" | "else" => self.of(value, depth),
            "properties" | "patternProperties" | "prefixItems" => match depth.checked_sub(1) {
                Some(depth) => self.each(value, depth),
                None => 0,
            },
            "items"
            | "additionalItems"
            | "contains"
            | "additionalProperties"
            | "propertyNames"
            | "unevaluatedItems"
            | "unevaluatedProperties" => match (depth.checked_sub(1), value) {
                (Some(depth), Value::Array(_)) => self.each(value, depth),
                (Some(depth), value) => self.of(value, depth),
                (None, _) => 0,
            },
            _ => 0,
        }
    }

    /// All parts in an array or an object of parts.
    fn each(&mut self, parts: &'s Value, depth: usize) -> u64 {
        match parts {
            Value::Array(parts) => parts.iter().fold(0, |sum: u64, part| sum.saturating_add(self.of(part, depth))),
            Value::Object(parts) => parts.values().fold(0, |sum: u64, part| sum.saturating_add(self.of(part, depth))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }

    /// What a reference refers to, in the same document.
    fn target(&self, reference: &str) -> Option<&'s Value> {
        let fragment = percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
        match fragment.as_ref() {
            "" => Some(self.root),
            pointer if pointer.starts_with('/') => self.root.pointer(pointer),
            anchor => self.anchors.get(anchor).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plain_schema_is_as_much_work_as_it_has_parts() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"items": {"minimum": 1}}}});
        assert_eq!([0, 1, 2, 3].map(|depth| work(&schema, depth)), [1, 3, 4, 4]);
        assert_eq!(work(&json!(true), 5), 1);
        let all =
            json!({"allOf": [{}, {"not": {}}], "if": {}, "then": {}, "dependentSchemas": {"a": {}}, "contains": {}});
        assert_eq!((work(&all, 0), work(&all, 1)), (7, 8));
    }

    #[test]
    fn references_are_followed_anew_each_time() {
        let twice = |n: usize| json!({"allOf": [{"$ref": format!("#/$defs/{n}")}, {"$ref": format!("#/$defs/{n}")}]});
        let mut links: serde_json::Map<_, _> = (0..40).map(|n| (n.to_string(), twice(n + 1))).collect();
        links.insert("40".to_owned(), json!({}));
        let schema = json!({"$ref": "#/$defs/0", "$defs": links});
        assert!(work(&schema, 0) > 1 << 40);
        let tree = json!({"oneOf": [{"properties": {"left": {"$ref": "#"}}}, {"properties": {"left": {"$ref": "#"}}}]});
        assert!(work(&tree, 30) > 1 << 30 && work(&tree, 3) < 100);
        let anchored = json!({"$defs": {"a": {"$anchor": "x", "type": "string"}}, "$ref": "#x"});
        assert_eq!(work(&anchored, 0), 2);
        let escaped = json!({"$defs": {"a b": {}}, "$ref": "#/$defs/a%20b"});
        assert_eq!(work(&escaped, 0), 2);
    }

    #[test]
    fn circles_end_and_what_cant_be_counted_is_too_much() {
        assert_eq!(work(&json!({"$ref": "#"}), 9), 1);
        for odd in [
            json!({"$ref": "https://example.com/x"}),
            json!({"$ref": "#/nowhere"}),
            json!({"$ref": "#nowhere"}),
            json!({"$ref": 7}),
            json!({"properties": {"a": {"$id": "inner"}}}),
        ] {
            assert_eq!(work(&odd, 9), BEYOND, "{odd}");
        }
        let link = |n: usize| (n.to_string(), json!({ "$ref": format!("#/$defs/{}", n + 1) }));
        let chain = |length: usize| {
            let mut links: serde_json::Map<_, _> = (0..length).map(link).collect();
            links.insert(length.to_string(), json!({}));
            json!({"$defs": links, "$ref": "#/$defs/0"})
        };
        assert_eq!((work(&chain(298), 0), work(&chain(299), 0)), (300, BEYOND));
        assert_eq!(work(&json!({"properties": {"$id": {"type": "string"}}}), 1), 2, "a property of that name");
    }

    #[test]
    fn the_extent_of_a_value_is_its_depth_and_its_size() {
        for (value, expected) in [
            (json!(7), (0, 1)),
            (json!({}), (1, 1)),
            (json!([1, 2]), (1, 3)),
            (json!({"a": [{"b": 1}], "c": 2}), (3, 5)),
        ] {
            assert_eq!(extent(&value), expected, "{value}");
        }
    }

    #[test]
    fn what_a_value_is_compared_with_is_work_too() {
        assert_eq!(work(&json!({"enum": [1, "a", {"b": [2]}]}), 0), 7);
        assert_eq!(work(&json!({"const": [1, 2]}), 0), 4);
        assert_eq!(work(&json!({"required": ["a", "b"]}), 1), 4);
        assert_eq!(work(&json!({"dependentRequired": {"a": ["b", "c"], "d": []}}), 1), 6);
        assert_eq!(work(&json!({"dependencies": {"a": ["b", "c"], "d": {}}}), 1), 5);
        assert_eq!(work(&json!({"uniqueItems": true}), 1), 21);
    }
}
