//! Why a call is refused, and how that is said.

use crate::limiter::quota::Quota;

/// Why a call doesn't run. Waits are in milliseconds, and end when the same call would run, if no other comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason<'a> {
    /// Wait for a token.
    Rate {
        /// Until there are enough.
        retry_after_ms: u64,
    },
    /// The window's calls are used up.
    Quota {
        /// Until the next window.
        retry_after_ms: u64,
        /// What it allows.
        quota: Quota,
        /// The tool whose quota it is; None when it is the caller's.
        of: Option<&'a str>,
    },
    /// Too many calls are running.
    Busy {
        /// Until asking again makes sense.
        retry_after_ms: u64,
        /// How many are running.
        running: u64,
        /// The tool whose slots they are; None when they are the caller's.
        of: Option<&'a str>,
        /// The tool that tells how they are doing.
        status_tool: Option<&'a str>,
    },
    /// The operator has blocked the caller.
    Blocked {
        /// Until that is over.
        retry_after_ms: u64,
    },
    /// The server behind has asked for a pause.
    Upstream {
        /// Until that is over.
        retry_after_ms: u64,
    },
    /// It never runs: it asks for more than is ever there.
    Capacity(Excess<'a>),
    /// The limiter can't be asked, and the policy is closed.
    Unavailable,
}

/// What a call asks for that is never there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess<'a> {
    /// More tokens than the bucket holds.
    Tokens {
        /// Tokens that it would take.
        cost: u64,
        /// Tokens that the bucket holds.
        capacity: u64,
    },
    /// More calls than the window allows.
    Calls {
        /// Calls that it makes.
        calls: u64,
        /// What is allowed.
        quota: Quota,
        /// The tool whose quota it is; None when it is the caller's.
        of: Option<&'a str>,
    },
    /// More calls than can be spaced out before the last has waited too long.
    Spaced {
        /// Calls that it makes.
        calls: u64,
        /// The longest that one waits, in milliseconds.
        within_ms: u64,
        /// The tool that is spaced out.
        of: Option<&'a str>,
    },
    /// More calls than can be kept apart, where a batch is sent on at once.
    Together {
        /// Calls that it makes.
        calls: u64,
        /// Milliseconds between the starts of two.
        gap_ms: u64,
        /// The tool that is spaced out.
        of: Option<&'a str>,
    },
    /// More calls than may run at the same time.
    Slots {
        /// Calls that it makes.
        calls: u64,
        /// How many of them may.
        most: u64,
        /// The tool whose limit it is; None when it is the caller's.
        of: Option<&'a str>,
    },
}

impl Reason<'_> {
    /// Its name, out of one closed set.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate { .. } => "rate",
            Self::Quota { .. } => "quota",
            Self::Busy { .. } => "busy",
            Self::Capacity(_) => "capacity",
            Self::Blocked { .. } => "blocked",
            Self::Upstream { .. } => "upstream",
            Self::Unavailable => "unavailable",
        }
    }

    /// What happened, as the model reads it, to a call of `tool`.
    pub(super) fn text(self, tool: &str, in_batch: bool) -> String {
        match self {
            Self::Rate { .. } => format!("Rate limit reached for {tool}."),
            Self::Quota { quota, of, .. } => format!("Quota of {} used up.", per_window(quota, of)),
            Self::Busy { running, of, status_tool, .. } => {
                let are = if running == 1 { "is" } else { "are" };
                let running = calls(running, of);
                let ask = status_tool.map(|status| format!(" Ask {status} how they are doing.")).unwrap_or_default();
                format!("{running} {are} already running, and no more are allowed.{ask}")
            }
            Self::Blocked { .. } => "Calls from here are blocked by the operator.".to_owned(),
            Self::Upstream { .. } => "The server behind asked for a pause.".to_owned(),
            Self::Unavailable => format!("The rate limiter can't be asked, and {tool} doesn't run without it."),
            Self::Capacity(excess) => {
                let one = if in_batch { "This batch".to_owned() } else { format!("This call of {tool}") };
                format!("{one} {} It can never run.", excess.text())
            }
        }
    }
}

impl Excess<'_> {
    fn text(self) -> String {
        match self {
            Self::Tokens { cost, capacity } => format!("costs {cost} tokens and the bucket holds {capacity}."),
            Self::Calls { calls: made, quota, of } => {
                format!("makes {} and the quota is {}.", calls(made, of), per_window(quota, None))
            }
            Self::Spaced { calls: made, within_ms, of } => {
                format!("makes {} and the last would start after more than {within_ms} ms.", calls(made, of))
            }
            Self::Together { calls: made, gap_ms, of } => {
                format!("makes {}, which must start {gap_ms} ms apart.", calls(made, of))
            }
            Self::Slots { calls: made, most, of } => {
                format!("makes {} and at most {most} can run at the same time.", calls(made, of))
            }
        }
    }
}

/// `1000 calls a day`, `10 calls of render an hour`.
fn per_window(quota: Quota, of: Option<&str>) -> String {
    let window = quota.window.name();
    let article = if window == "hour" { "an" } else { "a" };
    format!("{} {article} {window}", calls(quota.limit, of))
}

fn calls(count: u64, of: Option<&str>) -> String {
    let calls = if count == 1 { "call" } else { "calls" };
    match of {
        None => format!("{count} {calls}"),
        Some(tool) => format!("{count} {calls} of {tool}"),
    }
}
