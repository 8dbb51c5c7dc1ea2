//! The glue between `wasi:http/incoming-handler` and the choice in `lib.rs`.
//!
//! Imports no more than `wasi:http/types`, `wasi:io` and `wasi:cli/environment`, so that any host of the proxy world
//! that also gives an environment can run it.

use crate::{Answer, Place, answer};
use wasip2::cli::environment::get_environment;
use wasip2::http::types::{Fields, IncomingRequest, Method, OutgoingBody, OutgoingResponse, ResponseOutparam};

struct Hello;

wasip2::http::proxy::export!(Hello);

impl wasip2::exports::http::incoming_handler::Guest for Hello {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let method = request.method();
        let place = Place::from_environment(&get_environment());
        let is_read = matches!(method, Method::Get | Method::Head);
        let found = answer(is_read, request.path_with_query().as_deref(), &place);
        // A client that went away is no reason to trap: the instance may have other requests to answer.
        let _ = respond(&found, matches!(method, Method::Head), out);
    }
}

/// Writes the answer. Every step fails only when the client is gone or the host refuses the message.
fn respond(found: &Answer, head_only: bool, out: ResponseOutparam) -> Result<(), ()> {
    let text = found.body.as_bytes();
    let headers = Fields::new();
    headers.append("content-type", b"text/plain; charset=utf-8").map_err(drop)?;
    if !head_only {
        // A host holds the body to a stated length, so an answer with no body must not state one.
        headers.append("content-length", text.len().to_string().as_bytes()).map_err(drop)?;
    }
    let response = OutgoingResponse::new(headers);
    response.set_status_code(found.status)?;
    let body = response.body()?;
    ResponseOutparam::set(out, Ok(response));
    if !head_only {
        let stream = body.write()?;
        // The stream takes at most 4096 bytes at once; only a very long path makes more.
        for part in text.chunks(4096) {
            stream.blocking_write_and_flush(part).map_err(drop)?;
        }
    }
    OutgoingBody::finish(body, None).map_err(drop)
}
