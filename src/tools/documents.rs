//! The documents that are built in (`build.rs`): whoever replaces them has a server for their own.

/// A Markdown page.
#[derive(Debug)]
pub struct Document {
    /// Its path in the repository.
    pub path: &'static str,
    /// Its text.
    pub text: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/documents.rs"));

impl Document {
    /// A decision's number, the first four characters of its file's name.
    pub fn id(&self) -> &'static str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.get(..4).unwrap_or_default()
    }

    /// The first heading.
    pub fn title(&self) -> &'static str {
        self.text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_has_a_number_of_its_own_and_a_title() {
        let mut ids: Vec<_> = DECISIONS.iter().map(Document::id).collect();
        assert!(ids.iter().all(|id| id.len() == 4 && id.bytes().all(|byte| byte.is_ascii_digit())), "{ids:?}");
        ids.dedup();
        assert_eq!(ids.len(), DECISIONS.len());
        assert!(DECISIONS.iter().chain(DOCS).all(|page| page.title() != page.path));
    }
}
