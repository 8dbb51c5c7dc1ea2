//! What containers print: a bounded ring of lines for the current run of each, and the ring of the run before (POD-11).
//! Nothing of it is ever written to flash.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use coracle_model::PodUid;
use coracle_model::limits::Limits;
use tokio::sync::Notify;

/// A longer line is kept in parts of this many bytes.
const MAX_LINE_BYTES: usize = 16 * 1024;
/// What a line takes beside its own bytes, about.
const LINE_OVERHEAD_BYTES: usize = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while a lock is held leaves at worst a line too few.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One line, without its newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When its first byte arrived, by the node's wall clock.
    pub at: SystemTime,
    /// Its bytes; guests may print anything.
    pub text: Arc<[u8]>,
    /// Whether it ends here; otherwise the next one goes on with it.
    pub whole: bool,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<Line>,
    /// The number of the front line, counted from the start of the run.
    first: u64,
    bytes: usize,
    ended: bool,
}

/// The output of one run.
#[derive(Debug)]
pub struct Output {
    ring: Mutex<Ring>,
    changed: Notify,
    limit_bytes: usize,
}

/// What follows in an [`Output`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A line, and the number to ask for after it.
    Line(Line, u64),
    /// Nothing yet.
    Later,
    /// The run is over and all of it was read.
    End,
}

impl Output {
    /// An empty one that keeps about `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self { ring: Mutex::default(), changed: Notify::new(), limit_bytes })
    }

    /// Appends a line; the oldest go when there is no room.
    pub fn append(&self, at: SystemTime, text: &[u8]) {
        self.append_part(at, text, true);
    }

    fn append_part(&self, at: SystemTime, text: &[u8], whole: bool) {
        let mut ring = lock(&self.ring);
        ring.bytes += text.len() + LINE_OVERHEAD_BYTES;
        ring.lines.push_back(Line { at, text: text.into(), whole });
        while ring.bytes > self.limit_bytes && ring.lines.len() > 1 {
            if let Some(oldest) = ring.lines.pop_front() {
                ring.bytes -= oldest.text.len() + LINE_OVERHEAD_BYTES;
                ring.first += 1;
            }
        }
        drop(ring);
        self.changed.notify_waiters();
    }

    /// The run is over: followers come to their end.
    pub fn end(&self) {
        lock(&self.ring).ended = true;
        self.changed.notify_waiters();
    }

    /// The number of the first line to show when only the last `tail` are wanted, and the number after the last line.
    #[must_use]
    pub fn start(&self, tail: Option<u64>) -> (u64, u64) {
        let ring = lock(&self.ring);
        let count = ring.lines.len() as u64;
        let end = ring.first + count;
        (end - tail.map_or(count, |tail| tail.min(count)), end)
    }

    /// The line of this number, or the next one that is still there.
    #[must_use]
    pub fn next(&self, number: u64) -> Next {
        let ring = lock(&self.ring);
        let number = number.max(ring.first);
        let index = usize::try_from(number - ring.first).unwrap_or(usize::MAX);
        match ring.lines.get(index) {
            Some(line) => Next::Line(line.clone(), number + 1),
            None if ring.ended => Next::End,
            None => Next::Later,
        }
    }

    /// Waits until [`Output::next`] has something other than [`Next::Later`] to say of this number.
    pub async fn wait(&self, number: u64) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed, so what is looked at next is either old or announced.
            changed.as_mut().enable();
            if self.next(number) != Next::Later {
                return;
            }
            changed.await;
        }
    }

    /// Something that cuts what a guest writes into lines.
    #[must_use]
    pub fn writer(self: &Arc<Self>) -> Writer {
        Writer { output: Arc::clone(self), partial: Vec::new(), started_at: SystemTime::UNIX_EPOCH }
    }
}

/// One of a run's two streams. Both may write at once; lines stay whole.
#[derive(Debug)]
pub struct Writer {
    output: Arc<Output>,
    partial: Vec<u8>,
    started_at: SystemTime,
}

impl Writer {
    /// Takes bytes as they come.
    pub fn write(&mut self, mut bytes: &[u8]) {
        let now = SystemTime::now();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.push(now, &bytes[..end]);
            self.flush(true);
            bytes = &bytes[end + 1..];
        }
        if !bytes.is_empty() {
            self.push(now, bytes);
        }
    }

    fn push(&mut self, now: SystemTime, mut bytes: &[u8]) {
        if self.partial.is_empty() {
            self.started_at = now;
        }
        while self.partial.len() + bytes.len() > MAX_LINE_BYTES {
            let (head, tail) = bytes.split_at(MAX_LINE_BYTES - self.partial.len());
            self.partial.extend_from_slice(head);
            self.flush(false);
            self.started_at = now;
            bytes = tail;
        }
        self.partial.extend_from_slice(bytes);
    }

    fn flush(&mut self, whole: bool) {
        self.output.append_part(self.started_at, &self.partial, whole);
        self.partial.clear();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.partial.is_empty() {
            self.flush(true);
        }
    }
}

#[derive(Debug, Default)]
struct Runs {
    current: Option<Arc<Output>>,
    previous: Option<Arc<Output>>,
}

/// The output of every container of a node.
#[derive(Debug)]
pub struct Logs {
    containers: Mutex<HashMap<PodUid, HashMap<String, Runs>>>,
    limit_bytes: usize,
}

impl Logs {
    /// With the bound of this kind of board.
    #[must_use]
    pub fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self { containers: Mutex::default(), limit_bytes: limits.log_bytes })
    }

    /// A run begins; what was the current one becomes the one before.
    #[must_use]
    pub fn begin(&self, pod: PodUid, container: &str) -> Arc<Output> {
        let output = Output::new(self.limit_bytes);
        let mut containers = lock(&self.containers);
        let runs = containers.entry(pod).or_default().entry(container.to_owned()).or_default();
        if let Some(ended) = runs.current.replace(Arc::clone(&output)) {
            ended.end();
            runs.previous = Some(ended);
        }
        output
    }

    /// The output of a container's run: the latest, or the one before.
    #[must_use]
    pub fn find(&self, pod: PodUid, container: &str, previous: bool) -> Option<Arc<Output>> {
        let containers = lock(&self.containers);
        let runs = containers.get(&pod)?.get(container)?;
        if previous { runs.previous.clone() } else { runs.current.clone() }
    }

    /// The pod is gone, and its output with it.
    pub fn forget(&self, pod: PodUid) {
        let runs = lock(&self.containers).remove(&pod);
        for output in runs.into_iter().flatten().filter_map(|(_, runs)| runs.current) {
            output.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(output: &Output, start: u64) -> Vec<String> {
        let mut number = start;
        let mut texts = Vec::new();
        while let Next::Line(line, after) = output.next(number) {
            texts.push(String::from_utf8_lossy(&line.text).into_owned());
            number = after;
        }
        texts
    }

    // POD-11
    #[test]
    fn lines_are_whole_however_they_were_written() {
        let output = Output::new(4096);
        let mut out = output.writer();
        let mut err = output.writer();
        out.write(b"one\ntw");
        err.write(b"error\n");
        out.write(b"o\n\nrest");
        drop(out);
        assert_eq!(texts(&output, 0), ["one", "error", "two", "", "rest"]);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let output = Output::new(1 << 20);
        output.writer().write(&vec![b'x'; 2 * MAX_LINE_BYTES + 5]);
        let lengths: Vec<usize> = texts(&output, 0).iter().map(String::len).collect();
        assert_eq!(lengths, [MAX_LINE_BYTES, MAX_LINE_BYTES, 5]);
    }

    // POD-11
    #[test]
    fn the_oldest_lines_go_first_and_a_slow_reader_skips_them() {
        let output = Output::new(10 * (4 + LINE_OVERHEAD_BYTES));
        for number in 0..1000 {
            output.append(SystemTime::UNIX_EPOCH, format!("{number:04}").as_bytes());
        }
        let kept = texts(&output, 3);
        assert_eq!(kept.len(), 10);
        assert_eq!(kept.first().map(String::as_str), Some("0990"));
    }

    // POD-11
    #[test]
    fn the_tail_is_counted_from_the_last_line() {
        let output = Output::new(4096);
        for number in 0..5 {
            output.append(SystemTime::UNIX_EPOCH, number.to_string().as_bytes());
        }
        for (tail, start) in [(None, 0), (Some(2), 3), (Some(9), 0), (Some(0), 5)] {
            assert_eq!(output.start(tail), (start, 5), "{tail:?}");
        }
    }

    // POD-11
    #[test]
    fn the_run_before_stays_readable() {
        let logs = Logs::new(&Limits::LINUX);
        let pod = PodUid(1);
        logs.begin(pod, "main").append(SystemTime::UNIX_EPOCH, b"first");
        assert!(logs.find(pod, "main", true).is_none());
        logs.begin(pod, "main").append(SystemTime::UNIX_EPOCH, b"second");
        let text = |previous| logs.find(pod, "main", previous).map(|output| texts(&output, 0));
        assert_eq!(text(true), Some(vec!["first".to_owned()]));
        assert_eq!(text(false), Some(vec!["second".to_owned()]));
        logs.forget(pod);
        assert!(logs.find(pod, "main", false).is_none());
    }

    #[tokio::test]
    async fn a_follower_wakes_for_every_line_and_for_the_end() {
        let output = Output::new(4096);
        let follower = tokio::spawn({
            let output = Arc::clone(&output);
            async move {
                let (mut number, mut count) = (0, 0);
                loop {
                    output.wait(number).await;
                    match output.next(number) {
                        Next::Line(_, after) => (number, count) = (after, count + 1),
                        Next::Later => {}
                        Next::End => return count,
                    }
                }
            }
        });
        for _ in 0..3 {
            output.append(SystemTime::UNIX_EPOCH, b"line");
            tokio::task::yield_now().await;
        }
        output.end();
        assert_eq!(follower.await.ok(), Some(3));
    }
}
