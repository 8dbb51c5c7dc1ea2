//! How a request ended for the guest that answers it, and what that means for the body of the answer.
//!
//! A body that its guest leaves without finishing it, as one that traps does, ends for the host as one that is whole. So a
//! client would take the half for all of it. As long as the guest's store is there the two can be told apart: an
//! unfinished body is still waiting for more.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame};
use wasmtime_wasi_http::Error;
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

/// Knows the body of the answer, once there is one.
#[derive(Default)]
pub(super) struct Fate(Arc<Mutex<Answer>>);

#[derive(Default)]
struct Answer {
    /// What the guest writes to, until it fails.
    guest: Option<HyperOutgoingBody>,
    /// What it had written by then.
    rest: VecDeque<Frame<Bytes>>,
    /// Why there will never be more of it, though it is not finished.
    broken: Option<String>,
    reader: Option<Waker>,
}

impl Fate {
    /// The same answer, whose body ends in an error if the guest fails before it has finished it.
    pub(super) fn bind(&self, answer: Response<HyperOutgoingBody>) -> Response<HyperOutgoingBody> {
        answer.map(|guest| {
            let body = Arc::clone(&self.0);
            body.lock().unwrap_or_else(PoisonError::into_inner).guest = Some(guest);
            Bound(body).boxed_unsync()
        })
    }

    /// The guest has failed for this reason. To be told before its store is dropped.
    pub(super) fn is_failure(&self, reason: String) {
        let mut answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut guest) = answer.guest.take() else { return };
        // Ends, since nobody writes any more.
        loop {
            match Pin::new(&mut guest).poll_frame(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(frame))) => answer.rest.push_back(frame),
                Poll::Ready(None) => break,
                Poll::Ready(Some(Err(_))) | Poll::Pending => {
                    answer.broken = Some(reason);
                    break;
                }
            }
        }
        if let Some(reader) = answer.reader.take() {
            reader.wake();
        }
    }
}

struct Bound(Arc<Mutex<Answer>>);

impl Body for Bound {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let mut answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guest) = &mut answer.guest {
            let frame = Pin::new(guest).poll_frame(context);
            if frame.is_pending() {
                answer.reader = Some(context.waker().clone());
            }
            return frame;
        }
        let rest = answer.rest.pop_front().map(Ok);
        Poll::Ready(rest.or_else(|| answer.broken.take().map(|reason| Err(Error::InternalError(Some(reason))))))
    }
}

/// Nobody reads any more: the guest's next write fails, and it need not wait for room.
impl Drop for Bound {
    fn drop(&mut self) {
        let mut answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *answer = Answer::default();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use wasmtime_wasi::p2::{OutputStream, StreamError};
    use wasmtime_wasi_http::p2::body::{HostOutgoingBody, StreamContext};

    use super::*;

    /// A body as a guest has it, its stream, and the answer as it is read.
    fn body(fate: &Fate) -> (HostOutgoingBody, Box<dyn OutputStream>, Response<HyperOutgoingBody>) {
        let (mut guest, body) = HostOutgoingBody::new(StreamContext::Response, None, 1, 1024);
        let stream = guest.take_output_stream().unwrap_or_else(|| panic!("taken once"));
        (guest, stream, fate.bind(Response::new(body)))
    }

    /// What is read to the end, and the error if that is one.
    async fn read(answer: Response<HyperOutgoingBody>) -> (Vec<u8>, Option<String>) {
        let (mut body, mut bytes) = (answer.into_body(), Vec::new());
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => bytes.extend(frame.into_data().unwrap_or_default()),
                Err(Error::InternalError(why)) => return (bytes, why),
                Err(other) => panic!("{other:?}"),
            }
        }
        (bytes, None)
    }

    async fn write(stream: &mut dyn OutputStream, text: &'static str) -> Result<(), StreamError> {
        stream.write_ready().await?;
        stream.write(Bytes::from_static(text.as_bytes()))
    }

    // LIF-10
    #[tokio::test]
    async fn half_an_answer_is_an_error_and_a_whole_one_stands() {
        for (is_finished, error) in [(true, None), (false, Some("a trap".to_owned()))] {
            let fate = Fate::default();
            let (guest, mut stream, answer) = body(&fate);
            assert!(write(&mut *stream, "so far").await.is_ok());
            if is_finished {
                drop(stream);
                assert!(guest.finish(None).is_ok());
                fate.is_failure("a trap".to_owned());
            } else {
                fate.is_failure("a trap".to_owned());
                drop((stream, guest));
            }
            assert_eq!(read(answer).await, (b"so far".to_vec(), error));
        }
    }

    // LIF-10
    #[tokio::test]
    async fn a_guest_whose_reader_has_left_does_not_wait_for_room() {
        let fate = Fate::default();
        let (_guest, mut stream, mut answer) = body(&fate);
        assert!(write(&mut *stream, "one").await.is_ok());
        let body = answer.body_mut();
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        assert!(frame.is_some_and(|frame| frame.is_ok()));
        drop(answer);
        assert!(matches!(stream.check_write(), Err(StreamError::Closed)));
    }
}
