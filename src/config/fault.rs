//! A fault of the configuration.

use std::fmt;

/// A variable that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its name, with the path into a table.
    pub variable: String,
    /// What is wrong with it.
    pub what: String,
}

impl Fault {
    pub(super) fn new(variable: &str, what: impl Into<String>) -> Self {
        Self { variable: variable.to_owned(), what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.variable, self.what)
    }
}
