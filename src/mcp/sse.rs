//! Server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>), looked at as they
//! pass: nothing is held back, and of an event that is very long only that it was there is kept.

use std::mem::take;

/// Their media type.
pub const MEDIA_TYPE: &str = "text/event-stream";

/// The longest event that is looked at, in bytes.
const LONGEST_EVENT: usize = 1 << 20;

/// A message as an event.
pub fn event(message: &str) -> String {
    format!("event: message\ndata: {message}\n\n")
}

/// Follows a stream.
#[derive(Debug, Default)]
pub struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    /// Whether the event so far has a type of its own.
    typed: bool,
    too_long: bool,
    /// Whether the event so far has any line.
    begun: bool,
    after_cr: bool,
    began: bool,
    /// Whether the last id that there was names anything, and whether that counts yet.
    has_id: bool,
    had_id: bool,
    overlooked: bool,
}

impl Events {
    /// Takes the next bytes, and calls `each` with the data of every message that is complete by then.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        for byte in bytes {
            match byte {
                b'\n' if take(&mut self.after_cr) => {}
                b'\n' => self.end_line(&mut each),
                b'\r' => {
                    self.end_line(&mut each);
                    self.after_cr = true;
                }
                byte => {
                    self.after_cr = false;
                    self.begun = true;
                    if self.line.len() < LONGEST_EVENT {
                        self.line.push(*byte);
                    } else {
                        self.too_long = true;
                    }
                }
            }
        }
    }

    /// Whether the stream is in the middle of an event.
    pub fn is_within_event(&self) -> bool {
        self.begun
    }

    /// Whether events had ids: then a client that loses the stream comes back for the rest. An id counts once its event is whole, and an
    /// empty one takes back what was said before.
    pub fn can_resume(&self) -> bool {
        self.had_id
    }

    /// Whether there was an event that was too long to be looked at.
    pub fn overlooked(&self) -> bool {
        self.overlooked || self.too_long
    }

    fn end_line(&mut self, each: &mut impl FnMut(&[u8])) {
        let mut line = take(&mut self.line);
        if !self.began {
            self.began = true;
            if let Some(rest) = line.strip_prefix(b"\xef\xbb\xbf") {
                line = rest.to_vec();
            }
        }
        if line.is_empty() {
            let data = take(&mut self.data);
            let (typed, too_long) = (take(&mut self.typed), take(&mut self.too_long));
            self.begun = false;
            self.had_id = self.has_id;
            self.overlooked |= too_long;
            if !typed && !too_long && !data.is_empty() {
                each(&data);
            }
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = match colon.and_then(|at| line.split_at_checked(at)) {
            Some((field, rest)) => {
                let value = rest.strip_prefix(b":").unwrap_or(rest);
                (field, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line.as_slice(), &[][..]),
        };
        match field {
            b"data" if self.data.len().saturating_add(value.len()) > LONGEST_EVENT => self.too_long = true,
            b"data" => {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.typed = !matches!(value, b"" | b"message"),
            // One with a zero byte is none.
            b"id" if !value.contains(&0) => self.has_id = !value.is_empty(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn messages(chunks: &[&[u8]]) -> (Vec<String>, Events) {
        let (mut events, mut seen) = (Events::default(), Vec::new());
        for chunk in chunks {
            events.push(chunk, |data| seen.push(String::from_utf8(data.to_vec()).unwrap()));
        }
        (seen, events)
    }

    fn of(text: &str) -> Vec<String> {
        messages(&[text.as_bytes()]).0
    }

    #[test]
    fn a_message_that_is_written_is_the_one_that_is_read() {
        assert_eq!(of(&event(r#"{"id":1}"#)), [r#"{"id":1}"#]);
    }

    #[test]
    fn messages_are_told_whatever_ends_their_lines() {
        for end in ["\n", "\r\n", "\r"] {
            let text = ["event: message", "data: a", "data:b", "", ": comment", "", "data:  c", "", ""].join(end);
            assert_eq!(of(&text), ["a\nb", " c"], "{end:?}");
        }
    }

    #[test]
    fn other_events_and_unknown_fields_are_no_messages() {
        assert_eq!(of("event: ping\ndata: a\n\nretry: 5\n\ndata\n\nid: 7\ndata: b\n\n"), ["b"]);
        assert_eq!(of("\u{feff}data: a\n\n"), ["a"]);
        assert_eq!(of("data: never ended\n"), Vec::<String>::new());
    }

    #[test]
    fn whether_an_event_is_half_there_and_whether_a_client_can_come_back_is_known() {
        let (_, events) = messages(&[b"data: a\n\n"]);
        assert!(!events.is_within_event() && !events.can_resume());
        for half in ["d", "data: a", "data: a\n"] {
            assert!(messages(&[half.as_bytes()]).1.is_within_event(), "{half:?}");
        }
        assert!(messages(&[b"id: 1\ndata: a\n\n"]).1.can_resume());
    }

    #[test]
    fn an_id_counts_once_its_event_is_whole_and_an_empty_one_takes_it_back() {
        let resumes = |text: &str| messages(&[text.as_bytes()]).1.can_resume();
        assert!(!resumes("id: 7\ndata: {") && !resumes("id:\ndata: a\n\n") && !resumes("id: 1\0\ndata: a\n\n"));
        assert!(resumes("id: 7\ndata: a\n\ndata: b") && resumes("id: 7\ndata: a\n\nid: 8\ndata: b"));
        assert!(resumes("id: 7\n\n") && !resumes("id: 7\n\nid\n\n") && resumes("id: 7\n\nid\n"));
    }

    #[test]
    fn an_event_that_is_too_long_is_passed_over_and_takes_no_room() {
        let long = "x".repeat(LONGEST_EVENT);
        let (seen, events) = messages(&[b"data: ", long.as_bytes(), b"y\n\ndata: a\n\n"]);
        assert_eq!(seen, ["a"]);
        assert!(events.overlooked() && !messages(&[b"data: a\n\n"]).1.overlooked());
        assert!(events.line.capacity() < 64 && events.data.capacity() < 64);
        let halves = format!("data: {long}\ndata: {long}\n\ndata: b\n\n");
        assert_eq!(of(&halves), ["b"]);
    }

    proptest! {
        #[test]
        fn how_a_stream_is_cut_makes_no_difference(text in "(data: [a-c]{0,3}|event: x|id: 1|:|\r\n|\n|\r){0,12}", at in 0..60_usize) {
            let at = at.min(text.len());
            let (whole, _) = messages(&[text.as_bytes()]);
            let (cut, _) = messages(&[&text.as_bytes()[..at], &text.as_bytes()[at..]]);
            prop_assert_eq!(whole, cut);
        }
    }
}
