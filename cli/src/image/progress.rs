//! How far bytes have come: a bar on a terminal, one line elsewhere.

use std::convert::Infallible;
use std::io::IsTerminal as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// The bytes between two looks at the bar.
const PIECE_BYTES: usize = 32 * 1024;

/// A bar, or a line. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Begins; `total` is 0 while nobody knows it.
    pub(super) fn begin(what: &str, total: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            let size = if total > 0 { format!(" ({})", HumanBytes(total)) } else { String::new() };
            eprintln!("{what}{size}");
            return Self { bar: None };
        }
        let bar = ProgressBar::new(total);
        bar.set_style(style(total > 0));
        bar.set_message(what.to_owned());
        bar.tick();
        Self { bar: Some(bar) }
    }

    pub(super) fn set(&self, bytes: u64, total: u64) {
        if let Some(bar) = &self.bar {
            if total > 0 && bar.length() == Some(0) {
                bar.set_style(style(true));
            }
            bar.set_length(total);
            bar.set_position(bytes);
        }
    }

    /// Leaves the line to whatever is said next.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Before anybody knows how much there is to do, a bar would be full.
fn style(is_known: bool) -> ProgressStyle {
    let template = if is_known { "{msg} [{bar:32}] {bytes}/{total_bytes}" } else { "{msg}" };
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

/// The body of a request that moves a bar as it goes.
#[derive(Debug)]
pub(super) struct Upload {
    left: Bytes,
    total: u64,
    progress: Progress,
}

impl Upload {
    pub(super) fn new(bytes: Bytes, progress: Progress) -> Self {
        Self { total: bytes.len() as u64, left: bytes, progress }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.left.len().min(PIECE_BYTES);
        let piece = self.left.split_to(length);
        self.progress.set(self.total - self.left.len() as u64, self.total);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
