//! One reader of one run's lines: where it is, and what it gets next. Pure.
//!
//! A reader holds a position and no lines. One that is slower than the container finds, when it comes back, that the
//! oldest lines have gone; it goes on with the oldest that is still there, and nothing in the text says so, as with a
//! kubelet whose files have rotated meanwhile.

use std::time::SystemTime;

use coracle_wire::stream::LogsRequest;

use crate::logs::{Line, Next, Output};

/// See the module.
#[derive(Debug)]
pub(super) struct Reading {
    /// The line to read next.
    number: u64,
    /// The line to stop before; `None` to follow.
    until: Option<u64>,
    since: Option<SystemTime>,
    timestamps: bool,
    /// Bytes that may still be sent.
    left: u64,
    /// Whether the next piece begins a line.
    at_start: bool,
    /// A rendered line that was longer than what might be sent.
    rest: Vec<u8>,
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// These bytes, never none.
    Bytes(Vec<u8>),
    /// Nothing yet: ask again when there are lines from this number on.
    Later(u64),
    /// Nothing more.
    End,
}

impl Reading {
    /// Begins where `request` says; `since` is its `sinceTime` on this node's clock.
    pub(super) fn new(request: &LogsRequest, since: Option<SystemTime>, output: &Output) -> Self {
        let (first, end) = output.start(request.tail_lines);
        Self {
            number: first,
            // Without `follow`, what a flooding container prints meanwhile is for the next request.
            until: (!request.follow).then_some(end),
            since,
            timestamps: request.timestamps,
            left: request.limit_bytes.unwrap_or(u64::MAX),
            at_start: true,
            rest: Vec::new(),
        }
    }

    /// The next piece, of `most` bytes at most: whole lines, unless one alone is longer.
    pub(super) fn next(&mut self, output: &Output, most: usize) -> Piece {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(most);
        if self.left == 0 {
            return Piece::End;
        }
        let mut piece = Vec::new();
        let mut over = Piece::End;
        if !self.rest.is_empty() {
            piece = self.rest.drain(..most.min(self.rest.len())).collect();
        }
        while self.rest.is_empty() && piece.len() < most {
            if self.until.is_some_and(|until| self.number >= until) {
                break;
            }
            match output.next(self.number) {
                Next::Line(line, after) => {
                    if self.until.is_some_and(|until| after > until) {
                        self.number = after;
                        break;
                    }
                    let text = self.render(&line);
                    if !piece.is_empty() && piece.len() + text.len() > most {
                        break;
                    }
                    self.number = after;
                    self.at_start = line.whole || text.is_empty() && self.at_start;
                    let fits = text.len().min(most - piece.len());
                    piece.extend_from_slice(&text[..fits]);
                    self.rest = text[fits..].to_vec();
                }
                Next::Later => {
                    over = Piece::Later(self.number);
                    break;
                }
                Next::End => break,
            }
        }
        if piece.is_empty() {
            return over;
        }
        self.left -= piece.len() as u64;
        Piece::Bytes(piece)
    }

    /// A line as it is sent; nothing of one that is too old. A long line that was kept in parts is one line again.
    fn render(&self, line: &Line) -> Vec<u8> {
        if self.since.is_some_and(|since| line.at < since) {
            return Vec::new();
        }
        let mut text = Vec::with_capacity(line.text.len() + 32);
        if self.timestamps && self.at_start {
            let at = jiff::Timestamp::try_from(line.at).unwrap_or_default();
            text.extend_from_slice(format!("{at:.9} ").as_bytes());
        }
        text.extend_from_slice(&line.text);
        if line.whole {
            text.push(b'\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use coracle_model::PodUid;

    use super::*;

    fn request() -> LogsRequest {
        LogsRequest {
            uid: PodUid(1),
            container: "c".to_owned(),
            follow: false,
            previous: false,
            timestamps: false,
            tail_lines: None,
            since_ms: None,
            limit_bytes: None,
        }
    }

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second)
    }

    fn printed(lines: &[&str]) -> Arc<Output> {
        let output = Output::new(1 << 16);
        for (second, line) in (0..).zip(lines) {
            output.append(at(second), line.as_bytes());
        }
        output
    }

    /// All pieces until there is nothing, and what that was.
    fn pieces(reading: &mut Reading, output: &Output, most: usize) -> (Vec<String>, Piece) {
        let mut found = Vec::new();
        loop {
            match reading.next(output, most) {
                Piece::Bytes(bytes) => found.push(String::from_utf8_lossy(&bytes).into_owned()),
                other => return (found, other),
            }
        }
    }

    // POD-11
    #[test]
    fn a_request_says_which_lines_are_read() {
        let output = printed(&["one", "two", "three"]);
        for (request, since, expected) in [
            (request(), None, "one\ntwo\nthree\n"),
            (LogsRequest { tail_lines: Some(2), ..request() }, None, "two\nthree\n"),
            (LogsRequest { tail_lines: Some(0), ..request() }, None, ""),
            (request(), Some(at(1)), "two\nthree\n"),
            (LogsRequest { tail_lines: Some(1), ..request() }, Some(at(1)), "three\n"),
            (LogsRequest { limit_bytes: Some(6), ..request() }, None, "one\ntw"),
            (
                LogsRequest { timestamps: true, tail_lines: Some(1), ..request() },
                None,
                "1970-01-01T00:00:02.000000000Z three\n",
            ),
        ] {
            let mut reading = Reading::new(&request, since, &output);
            assert_eq!(pieces(&mut reading, &output, 1 << 15).0.concat(), expected, "{request:?}");
            let mut reading = Reading::new(&request, since, &output);
            assert_eq!(pieces(&mut reading, &output, 1).0.concat(), expected, "{request:?}, byte by byte");
        }
    }

    // POD-11: a clock that was set back leaves lines out of order; each is judged by itself.
    #[test]
    fn lines_are_chosen_by_their_own_time() {
        let output = Output::new(1 << 16);
        for (second, line) in [(5, "late"), (1, "early"), (6, "later")] {
            output.append(at(second), line.as_bytes());
        }
        let mut reading = Reading::new(&request(), Some(at(4)), &output);
        assert_eq!(pieces(&mut reading, &output, 1 << 15).0.concat(), "late\nlater\n");
    }

    // POD-11
    #[test]
    fn pieces_end_with_lines_where_they_can() {
        let output = printed(&["12345", "12345", "123456789"]);
        let mut reading = Reading::new(&request(), None, &output);
        assert_eq!(pieces(&mut reading, &output, 8).0, ["12345\n", "12345\n", "12345678", "9\n"]);
    }

    // POD-11
    #[test]
    fn a_follower_waits_and_another_reader_ends_with_what_was_there() {
        let output = printed(&["one"]);
        let mut reader = Reading::new(&request(), None, &output);
        let mut follower = Reading::new(&LogsRequest { follow: true, ..request() }, None, &output);
        assert_eq!(pieces(&mut follower, &output, 99), (vec!["one\n".to_owned()], Piece::Later(1)));
        output.append(at(2), b"two");
        assert_eq!(pieces(&mut reader, &output, 99), (vec!["one\n".to_owned()], Piece::End));
        assert_eq!(pieces(&mut follower, &output, 99).0, ["two\n"]);
        output.end();
        assert_eq!(follower.next(&output, 99), Piece::End);
    }

    // POD-11
    #[test]
    fn a_slow_reader_goes_on_with_the_oldest_line_that_is_left() {
        let output = Output::new(1024);
        output.append(at(0), b"first");
        let mut reading = Reading::new(&LogsRequest { follow: true, ..request() }, None, &output);
        assert_eq!(reading.next(&output, 99), Piece::Bytes(b"first\n".to_vec()));
        for number in 0..1000 {
            output.append(at(1), format!("{number:03}").as_bytes());
        }
        let (found, _) = pieces(&mut reading, &output, 1 << 15);
        let text = found.concat();
        assert!(text.starts_with("98") || text.starts_with("99"), "{text}");
        assert!(text.ends_with("999\n"), "{text}");
        // What went before the end was reached is no part of a request that does not follow.
        let mut reader = Reading::new(&request(), None, &output);
        for _ in 0..1000 {
            output.append(at(1), b"new");
        }
        assert_eq!(pieces(&mut reader, &output, 99), (Vec::new(), Piece::End));
    }

    // POD-11
    #[test]
    fn a_long_line_is_one_line_again_with_one_time() {
        let output = Output::new(1 << 20);
        let mut writer = output.writer();
        writer.write(&[b'x'; 40_000]);
        writer.write(b"\nnext\n");
        let mut reading = Reading::new(&LogsRequest { timestamps: true, ..request() }, None, &output);
        let text = pieces(&mut reading, &output, 1 << 15).0.concat();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.iter().map(|line| line.len()).collect::<Vec<_>>(), [40_031, 35]);
        assert!(lines[1].ends_with("Z next"), "{text}");
    }
}
