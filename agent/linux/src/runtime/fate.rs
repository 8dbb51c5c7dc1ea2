//! How a request ended for the guest that answers it, and what that means for the body of the answer.
//!
//! A body that its guest leaves without finishing it, as one that traps does, ends for the host as one that is whole.
//! So a client would take the half for all of it, unless the answer knows its guest's fate.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, SizeHint};
use wasmtime_wasi_http::Error;
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

/// Empty as long as nothing went wrong.
#[derive(Clone, Default)]
pub(super) struct Fate(Arc<OnceLock<String>>);

impl Fate {
    /// The guest has failed for this reason.
    pub(super) fn is_failure(&self, reason: String) {
        // A request ends once.
        let _ = self.0.set(reason);
    }

    /// The same answer, whose body ends in an error if its guest has failed before it was read to its end.
    pub(super) fn bind(&self, answer: Response<HyperOutgoingBody>) -> Response<HyperOutgoingBody> {
        answer.map(|inner| Bound { inner, fate: self.clone(), told: false }.boxed_unsync())
    }
}

struct Bound {
    inner: HyperOutgoingBody,
    fate: Fate,
    told: bool,
}

impl Body for Bound {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.inner).poll_frame(context));
        match (frame, self.fate.0.get()) {
            (None, Some(reason)) if !self.told => {
                let reason = reason.clone();
                self.told = true;
                Poll::Ready(Some(Err(Error::InternalError(Some(reason)))))
            }
            (frame, _) => Poll::Ready(frame),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
