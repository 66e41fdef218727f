//! 7. the door: what header fields tell of the limits, and the status of a refusal.

use super::meter::Metered;
use super::reply::Reply;
use crate::config::RefusalForm;
use crate::refusal::Refusal;

/// What a POST with calls in it is told in header fields (draft-ietf-httpapi-ratelimit-headers-10).
#[derive(Clone, Debug)]
pub struct Told {
    policies: Vec<String>,
    standing: Option<String>,
    /// The status and the wait of a refusal that is told as HTTP.
    refused: Option<(u16, Option<u64>)>,
}

impl Told {
    /// What `metered` comes to where refusals have this form.
    pub fn new(metered: &Metered<'_>, form: RefusalForm) -> Self {
        let standing = metered.standing.as_ref().map(|standing| standing.header());
        let told = Self { policies: metered.policies.clone(), standing, refused: None };
        match &metered.verdict {
            Ok(_) => told,
            Err(refusal) => told.with_refusal(refusal, form),
        }
    }

    /// The same where what is left isn't known.
    pub fn without_standing(&self) -> Self {
        Self { standing: None, ..self.clone() }
    }

    /// The same when it comes to this refusal after all.
    pub fn with_refusal(self, refusal: &Refusal<'_>, form: RefusalForm) -> Self {
        let refused = (form == RefusalForm::Http).then(|| (refusal.http_status(), refusal.retry_after_seconds()));
        Self { refused, ..self }
    }

    /// The fields.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let policies = Some(self.policies.join(", ")).filter(|policies| !policies.is_empty());
        let wait = self.refused.and_then(|(_, wait)| wait).map(|seconds| seconds.to_string());
        let fields = [("ratelimit-policy", policies), ("ratelimit", self.standing.clone()), ("retry-after", wait)];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// A reply with them.
    pub fn tell_limits(&self, reply: Reply) -> Reply {
        self.fields().into_iter().fold(reply, |reply, (name, value)| reply.with(name, value))
    }

    /// The status of a batch.
    pub fn batch_status(&self) -> u16 {
        self.refused.map_or(200, |(status, _)| status)
    }
}
