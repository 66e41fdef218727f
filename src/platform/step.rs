//! What a Durable Object does next. `shell.rs` tells it.

use serde::de::DeserializeOwned;
use serde::Serialize;

/// What becomes of the stored row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It stays.
    Kept,
    /// This is written in its place, and the alarm is set to a microsecond since 1970.
    Written(String, Option<u64>),
    /// Everything is deleted, the alarm included: the object leaves nothing behind.
    Deleted,
}

/// One step of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it answers, as JSON.
    pub answer: String,
    /// What becomes of what it stored.
    pub stored: Stored,
    /// A row that was there and can't be read: for the log.
    pub unreadable: Option<String>,
}

impl Step {
    /// Answers, and does nothing else.
    pub fn answering(answer: &impl Serialize) -> Result<Self, String> {
        let answer = serde_json::to_string(answer).map_err(|error| error.to_string())?;
        Ok(Self { answer, stored: Stored::Kept, unreadable: None })
    }

    /// The same, and writes a row.
    pub fn writing(self, row: &impl Serialize, alarm: Option<u64>) -> Result<Self, String> {
        let row = serde_json::to_string(row).map_err(|error| error.to_string())?;
        Ok(Self { stored: Stored::Written(row, alarm), ..self })
    }

    /// The same, and deletes everything.
    pub fn deleting(self) -> Self {
        Self { stored: Stored::Deleted, ..self }
    }
}

/// A stored row. The error says why it can't be read.
pub fn read<T: DeserializeOwned>(row: Option<&str>) -> Result<Option<T>, String> {
    row.map(serde_json::from_str).transpose().map_err(|error| format!("the stored row can't be read: {error}"))
}
