//! Whether the calls of one POST may run: the way past everything that limits them.
//!
//! 1. What never fits is refused without a question, and so is what a remembered debt refuses.
//! 2. A shared bucket is asked first, so that keys that clients make up make no objects. Of a crowd, only so many ask it.
//! 3. The caller's own object.
//! 4. The slots of the session, where a server behind has any.
//! 5. Spacing, which holds a place for each call.
//!
//! After a refusal nobody else is asked, and what was taken on the way there goes back.

use super::allowance::{self, Demand, Finding, Limit};
use super::answer::{Answer, Kind};
use super::ask::{instead, question, question_of_many, Instead};
use super::bucket::Debt;
use super::give_back::Receipt;
use super::memory::{Heard, Memory};
use super::policy::Policy;
use super::question::Question;
use super::returns::Return;
use super::row::Row;
use super::spacing::Spacing;
use super::standing::{Standing, CALLER_BUCKET};
use crate::config::Fail;
use crate::platform::{ask::Failure, now_us, random_id};
use std::cell::RefCell;
use worker::Env;

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// What is asked for: one call, or a batch as a whole.
#[derive(Clone, Debug)]
pub struct Admission<'a> {
    /// The caller's object.
    pub name: &'a str,
    /// Whose limits that object keeps.
    pub whose: Whose,
    /// What is wanted of them.
    pub question: Question,
    /// How many calls there are, and what they cost together, in micro-tokens.
    pub calls: u64,
    /// See `calls`.
    pub cost: u64,
    /// A bucket that the caller shares with others.
    pub shared: Option<Shared>,
    /// The object of the session, and the slots that are wanted of it.
    pub session: Option<(String, Question)>,
    /// The distances to keep.
    pub spacings: Vec<Spacing<'a>>,
    /// The longest that a call is held back, in milliseconds.
    pub max_wait_ms: u64,
    /// What happens when an object can't answer.
    pub fail: Fail,
    /// How long each may take to, in milliseconds.
    pub deadline_ms: u32,
    /// Whether the operator may have given the caller numbers of its own: then only its object knows what never fits.
    pub may_be_overridden: bool,
}

/// A bucket that many callers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// What header fields call it.
    pub name: &'static str,
    /// Which of its shards the caller meets, where it has several.
    pub shard: Option<u64>,
    /// Whose it is.
    pub whose: Whose,
    /// Its numbers, or those of the shard.
    pub bucket: Policy,
}

impl Shared {
    /// The name of its object.
    pub fn object(&self) -> String {
        self.shard.map_or_else(|| self.name.to_owned(), |shard| format!("{}:{shard}", self.name))
    }
}

/// Whose limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The caller's.
    Caller,
    /// All callers' without a token.
    Anonymous,
    /// All callers' whose tokens aren't verified.
    Shared,
    /// All callers' of one tool.
    Spacing,
    /// That of one session.
    Session,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The calls run.
    Runs,
    /// They don't.
    Refused(Refused),
    /// Nobody can say, and so they don't run.
    Unavailable(Whose),
}

/// The limit that refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Whose it is.
    pub whose: Whose,
    /// What kind.
    pub kind: Kind,
    /// The tool that it is for; empty when it is for all.
    pub tool: String,
    /// What was wanted of it, and what it allows; None where an isolate decided by itself, or nothing is allowed.
    pub demand: Option<Demand>,
    /// Microseconds to wait; None when the calls ask for more than is ever there.
    pub wait: Option<u64>,
    /// How many calls are running, where that is what is limited.
    pub running: u64,
}

/// A ruling, with what is left, what there is to count, and what there is to do afterwards.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Whether they run.
    pub ruling: Ruling,
    /// How the caller stands, where the object told.
    pub standing: Option<Standing>,
    /// For each tool that is spaced out, when the turn of each of its calls comes, in microseconds since 1970.
    pub turns: Vec<(String, Vec<u64>)>,
    /// What has to go back if the calls don't run, and to which object.
    pub returns: Vec<(String, Return)>,
    /// How many questions were asked.
    pub questions: u64,
    /// Rows that they wrote.
    pub rows_written: u64,
    /// Whether this was refused without a question.
    pub remembered: bool,
    /// The policies that decided where an object couldn't.
    pub failed: Vec<Fail>,
}

/// Asks for admission. What is admitted has been charged.
pub async fn admit(env: &Env, admission: &Admission<'_>) -> Outcome {
    let mut outcome = Outcome {
        ruling: Ruling::Runs,
        standing: None,
        turns: Vec::new(),
        returns: Vec::new(),
        questions: 0,
        rows_written: 0,
        remembered: false,
        failed: Vec::new(),
    };
    // A policy that is impossible is a fault of the configuration, and never gets here.
    let limits = allowance::limits(&admission.question).unwrap_or_default();
    if let Some(refused) = never_fits(admission, &limits) {
        outcome.ruling = Ruling::Refused(refused);
    } else if !from_memory(admission, &limits, &mut outcome) {
        ask_all(env, admission, &limits, &mut outcome).await;
    }
    outcome
}

/// Forgets the last debt of a caller, since something went back.
pub fn forget(name: &str) {
    MEMORY.with_borrow_mut(|memory| memory.forget(name));
}

/// Asks one object after the other, until one refuses. Until then whatever was taken is on the list of what goes back.
async fn ask_all(env: &Env, admission: &Admission<'_>, limits: &[Limit<'_>], outcome: &mut Outcome) {
    let (mut shared_standing, mut heard) = (None, None);
    if let Some(shared) = admission.shared {
        let asked = Question { id: Some(random_id()), ..Question::new(shared.bucket, admission.cost) };
        let answer = ask_one(env, admission, (&shared.object(), &asked), shared.whose, outcome).await;
        let owed = answer.map(|answer| Debt { owed: answer.debt, at: answer.at });
        shared_standing = owed.map(|owed| Standing::of_bucket(shared.name, owed, shared.bucket));
    }
    if outcome.ruling == Ruling::Runs && !limits.is_empty() {
        let sent = now_us();
        let asked = (admission.name, &admission.question);
        if let Some(answer) = ask_one(env, admission, asked, admission.whose, outcome).await {
            outcome.standing = match answer.held {
                None => Standing::new(limits, &answer),
                Some(held) => {
                    let instead = held.apply(&admission.question);
                    Standing::new(&allowance::limits(&instead).unwrap_or_default(), &answer)
                }
            };
            // What is remembered is measured by what questions say, and that isn't what holds where the operator decided otherwise.
            heard = (answer.held.is_none() && !outcome.remembered).then_some((answer, sent));
        }
    }
    outcome.standing = match (outcome.standing.take(), shared_standing) {
        (Some(own), shared) => Some(own.nearer(shared)),
        (None, shared) => shared,
    };
    if let Some((name, asked)) = admission.session.as_ref().filter(|_| outcome.ruling == Ruling::Runs) {
        ask_one(env, admission, (name, asked), Whose::Session, outcome).await;
    }
    for spacing in &admission.spacings {
        if outcome.ruling != Ruling::Runs {
            break;
        }
        let asked = spacing.question(admission.max_wait_ms, random_id());
        if let Some(answer) = ask_one(env, admission, (&spacing.name(), &asked), Whose::Spacing, outcome).await {
            outcome.turns.push((spacing.tool.to_owned(), spacing.turns(&asked, &answer, now_us())));
        }
        if let Ruling::Refused(refused) = &mut outcome.ruling {
            spacing.tool.clone_into(&mut refused.tool);
        }
    }
    // An admission that goes back again leaves the debt lower than it told.
    if let Some((answer, sent)) = heard.filter(|(answer, _)| !answer.admitted || outcome.ruling == Ruling::Runs) {
        hear(admission, &answer, sent);
    }
}

/// Asks one object, and has the operator's policy decide when it can't answer.
async fn ask_one(
    env: &Env,
    admission: &Admission<'_>,
    (name, asked): (&str, &Question),
    whose: Whose,
    outcome: &mut Outcome,
) -> Option<Answer> {
    let deadline_ms = admission.deadline_ms;
    let answer = match whose {
        Whose::Anonymous | Whose::Shared => question_of_many(env, name, asked, deadline_ms).await,
        Whose::Caller | Whose::Spacing | Whose::Session => Some(question(env, name, asked, deadline_ms).await),
    };
    outcome.remembered = answer.is_none();
    let was_asked = !matches!(answer, None | Some(Err(Failure::Unasked)));
    outcome.questions = outcome.questions.saturating_add(u64::from(was_asked));
    match answer.unwrap_or_else(|| Ok(Answer::of_empty_bucket(asked, now_us()))) {
        Ok(answer) => {
            outcome.rows_written = outcome.rows_written.saturating_add(answer.rows);
            if let Some(receipt) = answer.receipt.clone().filter(|_| answer.admitted) {
                let receipt = Receipt { last_only: whose == Whose::Spacing, ..receipt };
                outcome.returns.push((name.to_owned(), Return::GiveBack(receipt)));
            }
            if !answer.admitted {
                outcome.ruling = Ruling::Refused(Refused::new(whose, &answer, asked));
            }
            Some(answer)
        }
        Err(failure) => {
            // An isolate that doesn't know whose turn it is can't keep calls apart.
            let bucket = asked.policy().ok().flatten().filter(|_| whose != Whose::Spacing);
            let about = (name, bucket, asked.cost);
            let now = now_us();
            let (instead, applied) =
                MEMORY.with_borrow_mut(|memory| instead(memory, about, admission.fail, &failure, now));
            outcome.failed.push(applied);
            outcome.ruling = match instead {
                // What is free is never refused.
                _ if asked.is_free() => Ruling::Runs,
                Instead::Runs => Ruling::Runs,
                Instead::Waits(wait) => Ruling::Refused(Refused::bucket(whose, Some(wait), None)),
                Instead::Unavailable => Ruling::Unavailable(whose),
            };
            None
        }
    }
}

/// The first limit that can never admit the calls.
fn never_fits(admission: &Admission<'_>, limits: &[Limit<'_>]) -> Option<Refused> {
    let nobody = Row::empty(0);
    let own = limits
        .iter()
        .filter(|_| !admission.may_be_overridden)
        .find(|limit| limit.finding(&nobody, 0) == Finding::NeverFits)
        .map(|limit| Refused {
            whose: admission.whose,
            kind: limit.demand.kind(),
            tool: limit.tool.to_owned(),
            demand: Some(limit.demand),
            wait: None,
            running: 0,
        });
    own.or_else(|| {
        let shared = admission.shared.filter(|shared| admission.cost > shared.bucket.capacity())?;
        Some(Refused::bucket(shared.whose, None, Some(Demand::Tokens(shared.bucket, admission.cost))))
    })
    .or_else(|| {
        let spacing = admission.spacings.iter().find(|spacing| spacing.never_fits(admission.max_wait_ms))?;
        Some(Refused { tool: spacing.tool.to_owned(), ..Refused::bucket(Whose::Spacing, None, None) })
    })
}

/// A refusal or a status, where the last debt that was heard of is enough: the caller's bucket must be the only limit that
/// could say otherwise.
fn from_memory(admission: &Admission<'_>, limits: &[Limit<'_>], outcome: &mut Outcome) -> bool {
    let (name, asked) = (admission.name, &admission.question);
    let Some(policy) = asked.policy().ok().flatten() else {
        return false;
    };
    let now = now_us();
    MEMORY.with_borrow(|memory| {
        if asked.is_free() {
            let only = limits.len() == 1 && admission.shared.is_none() && admission.spacings.is_empty();
            let debt = if only { memory.status(name, policy, now) } else { None };
            outcome.standing = debt.map(|debt| Standing::of_bucket(CALLER_BUCKET, debt, policy));
            return debt.is_some();
        }
        let of_a_tool = |limit: &Limit<'_>| !limit.tool.is_empty() && !matches!(limit.demand, Demand::Slots { .. });
        if limits.iter().any(of_a_tool) {
            return false;
        }
        let Some(refused) = memory.refuses(name, policy, asked.cost, admission.calls, now) else {
            return false;
        };
        outcome.standing = Some(Standing::of_bucket(CALLER_BUCKET, refused.debt, policy));
        outcome.remembered = true;
        outcome.ruling = Ruling::Refused(Refused::bucket(admission.whose, Some(refused.wait), None));
        true
    })
}

/// Remembers what the caller's object told of its bucket.
fn hear(admission: &Admission<'_>, answer: &Answer, sent: u64) {
    let Some(policy) = admission.question.policy().ok().flatten() else {
        return;
    };
    let own = admission.question.quotas.iter().find(|quota| quota.tool.is_empty());
    let used = answer.quotas.get("").copied().unwrap_or_default();
    let calls_left = own.map_or(u64::MAX, |quota| quota.limit.saturating_sub(used));
    let heard = Heard { owed: answer.debt, sent, received: now_us(), calls_left };
    MEMORY.with_borrow_mut(|memory| memory.hear(admission.name, heard, policy));
}

impl Refused {
    fn new(whose: Whose, answer: &Answer, asked: &Question) -> Self {
        let by = answer.by.clone();
        let (kind, tool) = by.map_or((Kind::Bucket, String::new()), |by| (by.kind, by.tool));
        let running = answer.slots.get(&tool).copied().unwrap_or_default();
        let instead = answer.held.map_or_else(|| asked.clone(), |held| held.apply(asked));
        let limits = allowance::limits(&instead).unwrap_or_default();
        let limit = limits.iter().find(|limit| limit.tool == tool && limit.demand.kind() == kind);
        let (demand, wait) = (limit.map(|limit| limit.demand), Some(answer.wait).filter(|wait| *wait > 0));
        Self { whose, kind, tool, demand, wait, running }
    }

    fn bucket(whose: Whose, wait: Option<u64>, demand: Option<Demand>) -> Self {
        Self { whose, kind: Kind::Bucket, tool: String::new(), demand, wait, running: 0 }
    }
}
