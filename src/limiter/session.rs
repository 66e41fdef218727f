//! The slots of one session with the server behind (`MCP_MAX_IN_FLIGHT_SESSION`), kept in an object of its own.
//!
//! They stand beside the caller's own limits and never alone: a client makes up its sessions, so the caller is asked first.

use super::policy::SECOND;
use super::question::{LeaseAsked, Question, SlotsAsked};
use base64::prelude::{Engine as _, BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// After how long asking again makes sense, in microseconds.
const POLL: u64 = 5 * SECOND;

/// The object of the session `id`, and the question whether `calls` more may run where `limit` may at the same time: on a lease of
/// the id `lease`, for `lease_us` microseconds.
pub fn slots_of(id: &str, limit: u64, calls: u64, lease_us: u64, lease: u64) -> (String, Question) {
    // Who knows the id of a session can use it, so it is in no name.
    let name = format!("session:{}", BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(id)));
    let slots = vec![SlotsAsked { tool: String::new(), calls, limit, poll: POLL }];
    let on = LeaseAsked { us: lease_us, calls: BTreeMap::from([(String::new(), calls)]) };
    (name, Question { slots, lease: Some(on), id: Some(lease), ..Question::unlimited() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::decision::decide;

    #[test]
    fn a_session_has_its_own_object_whose_name_doesnt_tell_its_id() {
        let (name, _) = slots_of("abc", 2, 1, 9, 7);
        assert_eq!(name, "session:ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
        assert_ne!(slots_of("abd", 2, 1, 9, 7).0, name);
    }

    #[test]
    fn so_many_calls_run_in_it_and_no_more() {
        let asked = |calls, lease| slots_of("abc", 2, calls, 60 * SECOND, lease).1;
        let first = decide(None, &asked(1, 1), 0).unwrap();
        let second = decide(first.write, &asked(1, 2), 1).unwrap();
        assert!(first.answer.admitted && second.answer.admitted);
        let third = decide(second.write.clone(), &asked(1, 3), 2).unwrap();
        assert_eq!((third.answer.admitted, third.answer.wait), (false, POLL));
        assert!(decide(second.write, &asked(1, 3), 60 * SECOND).unwrap().answer.admitted, "the first lease ran out");
        assert!(!decide(None, &asked(3, 4), 0).unwrap().answer.admitted);
    }
}
