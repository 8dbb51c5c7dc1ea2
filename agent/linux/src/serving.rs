//! The body of a request on its way from the controller to a guest.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use coracle_agent_core::Input;
use coracle_wire::stream::StreamCredit;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Pieces as they come. What the guest has taken is granted to the controller anew.
#[derive(Debug)]
pub(crate) struct RequestBody {
    pub(crate) stream: u64,
    pub(crate) pieces: mpsc::Receiver<Bytes>,
    pub(crate) grants: mpsc::Sender<Input>,
    /// Taken by the guest and not granted yet.
    pub(crate) owed: u32,
}

/// Smaller grants wait for more; the controller starts with many times this.
const GRANT_BYTES: u32 = 16 * 1024;

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(piece) = ready!(self.pieces.poll_recv(context)) else { return Poll::Ready(None) };
        self.owed = self.owed.saturating_add(u32::try_from(piece.len()).unwrap_or(u32::MAX));
        if self.owed >= GRANT_BYTES {
            let credit = StreamCredit { id: self.stream, bytes: self.owed };
            self.owed = 0;
            if let Err(TrySendError::Full(grant)) = self.grants.try_send(Input::StreamCredit(credit)) {
                // The driver is busy. The grant waits beside the guest, since the controller may wait for nothing else.
                let grants = self.grants.clone();
                tokio::spawn(async move { grants.send(grant).await });
            }
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}
