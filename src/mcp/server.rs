//! What the server says of itself, and the form that each era gives to a result.

use super::revision::{supported, Revision};
use serde_json::{json, Map, Value};

/// For how long a client may keep a list or the discovery, in milliseconds: they change with a deploy only.
const TTL_MS: u64 = 300_000;

const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

const INSTRUCTIONS: &str =
    "Tool calls are metered for each caller. A refused call says in its text how many seconds to wait; \
    wait that long before the next call. rate_limit_status tells what is left and costs nothing.";

fn server_info() -> Value {
    json!({ "name": "sluice", "version": env!("CARGO_PKG_VERSION") })
}

/// The result of `initialize`.
pub fn initialize_result(revision: Revision) -> Value {
    json!({
        "protocolVersion": revision.name(),
        "capabilities": { "tools": {} },
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
    })
}

/// The result of `server/discover` (2026-07-28).
pub fn discover_result() -> Value {
    cacheable(json!({
        "supportedVersions": supported(),
        "capabilities": { "tools": {} },
        "instructions": INSTRUCTIONS,
    }))
}

/// The result of `tools/list` by `revision`.
pub fn tools_result(tools: Vec<Value>, revision: Revision) -> Value {
    let result = json!({ "tools": tools });
    if revision.is_modern() {
        cacheable(result)
    } else {
        result
    }
}

/// A modern result that anybody may keep: it is the same for all callers.
fn cacheable(mut result: Value) -> Value {
    if let Value::Object(members) = &mut result {
        members.insert("ttlMs".to_owned(), json!(TTL_MS));
        members.insert("cacheScope".to_owned(), json!("public"));
    }
    complete(result, Revision::V2026_07_28)
}

/// Adds what every result of `revision` carries: nothing in the legacy era, its type and the server's name in the
/// modern.
pub fn complete(mut result: Value, revision: Revision) -> Value {
    if revision.is_modern() {
        if let Value::Object(members) = &mut result {
            members.insert("resultType".to_owned(), json!("complete"));
            let meta = members.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(meta) = meta {
                meta.insert(SERVER_INFO_KEY.to_owned(), server_info());
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODERN: Revision = Revision::V2026_07_28;
    const LEGACY: Revision = Revision::V2025_03_26;

    #[test]
    fn the_handshake_names_its_revision_and_never_says_modern_things() {
        let result = initialize_result(LEGACY);
        assert_eq!(result["protocolVersion"], "2025-03-26");
        assert_eq!(result["capabilities"], json!({"tools": {}}));
        assert_eq!(result["serverInfo"]["name"], "sluice");
        assert!(result["instructions"].as_str().unwrap().contains("rate_limit_status"));
        assert_eq!(result.get("resultType"), None);
    }

    #[test]
    fn discovery_lists_every_revision_and_can_be_cached() {
        let result = discover_result();
        assert_eq!(result["supportedVersions"], json!(supported()));
        assert_eq!(result["capabilities"], json!({"tools": {}}));
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(300_000), &json!("public")));
        assert_eq!(result["resultType"], "complete");
        assert_eq!(result["_meta"][SERVER_INFO_KEY]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(result.get("serverInfo"), None);
    }

    #[test]
    fn a_list_is_cacheable_in_the_modern_era_alone() {
        let modern = tools_result(vec![json!({"name": "a"})], MODERN);
        assert_eq!((&modern["ttlMs"], &modern["resultType"]), (&json!(300_000), &json!("complete")));
        assert_eq!(tools_result(vec![json!({"name": "a"})], LEGACY), json!({"tools": [{"name": "a"}]}));
    }

    #[test]
    fn completing_keeps_what_meta_had() {
        let result = complete(json!({"_meta": {"sluice/refusal": 1}}), MODERN);
        assert_eq!(result["_meta"]["sluice/refusal"], 1);
        assert!(result["_meta"][SERVER_INFO_KEY].is_object());
        assert_eq!(complete(json!({}), LEGACY), json!({}), "a legacy ping is exactly empty");
    }
}
