//! A list that passes by page by page, until all of it has.

use super::catalogue::Page;

/// The most pages of one list.
pub const MOST_PAGES: usize = 100;

/// The pages so far, from the first on, and where the next one is.
#[derive(Debug, Default)]
pub struct Pages(Option<(String, Vec<Page>)>);

impl Pages {
    /// Adds the page that was asked for with `cursor`, and tells all pages when it is the last one.
    pub fn add(&mut self, cursor: Option<&str>, page: Page) -> Option<Vec<Page>> {
        let mut pages = match (cursor, self.0.take()) {
            (None, _) => Vec::new(),
            (Some(cursor), Some((next, pages))) if next == cursor && pages.len() < MOST_PAGES => pages,
            // The pages before it passed by somewhere else.
            (Some(_), _) => return None,
        };
        let next = page.next_cursor.clone();
        pages.push(page);
        match next {
            Some(next) => {
                self.0 = Some((next, pages));
                None
            }
            None => Some(pages),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(next: Option<&str>) -> Page {
        Page::parse(&serde_json::json!({"tools": [], "nextCursor": next}).to_string()).unwrap()
    }

    #[test]
    fn all_pages_in_a_row_make_a_list() {
        let mut pages = Pages::default();
        assert!(pages.add(None, page(Some("2"))).is_none() && pages.add(Some("2"), page(Some("3"))).is_none());
        assert_eq!(pages.add(Some("3"), page(None)).unwrap().len(), 3);
        assert_eq!(pages.add(None, page(None)).unwrap().len(), 1);
    }

    #[test]
    fn a_page_by_itself_is_no_list_and_neither_is_one_without_an_end() {
        let mut pages = Pages::default();
        assert!(pages.add(Some("2"), page(None)).is_none());
        assert!(pages.add(None, page(Some("2"))).is_none() && pages.add(Some("3"), page(None)).is_none());
        assert!(pages.add(Some("2"), page(None)).is_none(), "it was given up");
        assert!(pages.add(None, page(Some("n"))).is_none());
        for _ in 1..MOST_PAGES {
            assert!(pages.add(Some("n"), page(Some("n"))).is_none());
        }
        assert!(pages.add(Some("n"), page(None)).is_none(), "it has too many");
    }
}
