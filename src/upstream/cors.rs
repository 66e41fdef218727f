//! What the server behind lets browser pages do (<https://fetch.spec.whatwg.org/#http-cors-protocol>), as its answers tell: what is
//! refused here must be readable to the same pages.

use super::headers::Pairs;
use std::collections::HashMap;

/// The most origins that are remembered. When there are more, all are forgotten: the next answer tells again.
const MOST: usize = 1_000;

const ALLOW_ORIGIN: &str = "access-control-allow-origin";

/// The longest origin that is remembered, in bytes: no host has a longer name.
const LONGEST_ORIGIN: usize = 300;

/// Our own headers that a page may read.
const EXPOSED: &str = "RateLimit, RateLimit-Policy, Retry-After";

/// What was told to each origin, in one isolate.
#[derive(Debug, Default)]
pub struct Cors {
    told: HashMap<String, Pairs>,
}

impl Cors {
    /// Remembers what an answer tells `origin`. One that tells nothing, as somebody's between would, is no news.
    pub fn hear(&mut self, origin: &str, answer: &Pairs) {
        if origin.len() > LONGEST_ORIGIN {
            return;
        }
        let tells = answer.iter().any(|(name, _)| name == ALLOW_ORIGIN);
        if !tells && self.told.contains_key(origin) {
            return;
        }
        if self.told.len() >= MOST && !self.told.contains_key(origin) {
            self.told.clear();
        }
        let told = answer.iter().filter(|(name, _)| name.starts_with("access-control-")).cloned().collect();
        self.told.insert(origin.to_owned(), told);
    }

    /// What `origin` was told; None when it hasn't asked yet.
    pub fn of(&self, origin: &str) -> Option<&Pairs> {
        self.told.get(origin)
    }
}

/// Lets pages read our own headers too, where they may read the answer at all.
pub fn expose(headers: &mut Pairs) {
    if !headers.iter().any(|(name, _)| name == ALLOW_ORIGIN) {
        return;
    }
    match headers.iter_mut().find(|(name, _)| name == "access-control-expose-headers") {
        Some((_, value)) if value.trim() == "*" => {}
        Some((_, value)) => *value = format!("{value}, {EXPOSED}"),
        None => headers.push(("access-control-expose-headers".to_owned(), EXPOSED.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Pairs {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn each_origin_has_what_it_was_told() {
        let mut cors = Cors::default();
        let allowed = pairs(&[("access-control-allow-origin", "https://a.example")]);
        let answer = [allowed.clone(), pairs(&[("content-type", "application/json")])].concat();
        cors.hear("https://a.example", &answer);
        cors.hear("https://b.example", &pairs(&[]));
        assert_eq!(cors.of("https://a.example"), Some(&allowed));
        assert_eq!(cors.of("https://b.example"), Some(&pairs(&[])));
        assert_eq!(cors.of("https://c.example"), None);
        cors.hear("https://a.example", &pairs(&[("content-type", "text/html")]));
        assert_eq!(cors.of("https://a.example"), Some(&allowed));
        cors.hear("https://a.example", &pairs(&[("access-control-allow-origin", "*")]));
        assert_eq!(cors.of("https://a.example"), Some(&pairs(&[("access-control-allow-origin", "*")])));
    }

    #[test]
    fn origins_that_are_made_up_take_no_room() {
        let mut cors = Cors::default();
        (0..=MOST).for_each(|n| cors.hear(&n.to_string(), &pairs(&[])));
        assert_eq!(cors.told.len(), 1);
        cors.hear(&"x".repeat(LONGEST_ORIGIN + 1), &pairs(&[]));
        assert_eq!(cors.told.len(), 1);
        cors.hear(&MOST.to_string(), &pairs(&[]));
        assert!(cors.of(&MOST.to_string()).is_some());
    }

    #[test]
    fn our_own_headers_are_exposed_where_anything_is() {
        let exposed = |list: &[(&str, &str)]| {
            let mut headers = pairs(list);
            expose(&mut headers);
            headers.into_iter().find(|(name, _)| name == "access-control-expose-headers").map(|(_, value)| value)
        };
        let allowed = ("access-control-allow-origin", "*");
        assert_eq!(exposed(&[]), None);
        assert_eq!(exposed(&[allowed]).as_deref(), Some("RateLimit, RateLimit-Policy, Retry-After"));
        let more = exposed(&[allowed, ("access-control-expose-headers", "Mcp-Session-Id")]);
        assert_eq!(more.as_deref(), Some("Mcp-Session-Id, RateLimit, RateLimit-Policy, Retry-After"));
        assert_eq!(exposed(&[allowed, ("access-control-expose-headers", "*")]).as_deref(), Some("*"));
    }
}
