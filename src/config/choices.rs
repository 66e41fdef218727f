//! Choices of the operator that have a name.

use super::variables;
use super::Fault;

/// How a refusal is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalForm {
    /// As a tool result, so that the model sees it.
    Result,
    /// As an HTTP error.
    Http,
}

/// What happens to a call when the limiter can't answer; the stricter, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fail {
    /// It runs.
    Open,
    /// The isolate's own bucket decides.
    Insured,
    /// It is refused.
    Closed,
}

impl Fail {
    /// Its name in variables and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Insured => "insured",
            Self::Closed => "closed",
        }
    }

    /// The policy that a variable names.
    pub(super) fn read(variable: &str, given: &str) -> Result<Self, Fault> {
        let all = [Self::Open, Self::Insured, Self::Closed];
        let position = variables::choice(variable, given, &all.map(Self::name))?;
        Ok(all.get(position).copied().unwrap_or(Self::Closed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_are_ordered_by_strictness_and_named() {
        assert!(Fail::Open < Fail::Insured && Fail::Insured < Fail::Closed);
        for fail in [Fail::Open, Fail::Insured, Fail::Closed] {
            assert_eq!(Fail::read("MCP_FAIL", fail.name()), Ok(fail));
        }
    }
}
