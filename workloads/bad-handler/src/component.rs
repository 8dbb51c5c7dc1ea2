//! The glue between `wasi:http/incoming-handler` and the ways of `lib.rs`.

use crate::{Way, way};
use wasip2::clocks::monotonic_clock;
use wasip2::http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam};

/// An hour, in nanoseconds.
const HOUR_NS: u64 = 3_600_000_000_000;

struct BadHandler;

wasip2::http::proxy::export!(BadHandler);

impl wasip2::exports::http::incoming_handler::Guest for BadHandler {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        match way(request.path_with_query().as_deref()) {
            Way::Well => respond(200, "still here\n", out),
            Way::Unknown => respond(404, "nothing here\n", out),
            Way::Never => loop {
                monotonic_clock::subscribe_duration(HOUR_NS).block();
            },
            Way::Spin => spin(),
            Way::Nothing => drop(out),
            Way::Twice => twice(out),
            Way::Trap => core::arch::wasm32::unreachable(),
            Way::Half => half(out),
        }
    }
}

fn response(status: u16) -> OutgoingResponse {
    let response = OutgoingResponse::new(Fields::new());
    // Every status that stands in this file is one.
    let _ = response.set_status_code(status);
    response
}

/// A client that went away is no concern of this guest.
fn respond(status: u16, text: &str, out: ResponseOutparam) {
    let response = response(status);
    let Ok(body) = response.body() else { return };
    ResponseOutparam::set(out, Ok(response));
    if let Ok(stream) = body.write() {
        let _ = stream.blocking_write_and_flush(text.as_bytes());
    }
    let _ = OutgoingBody::finish(body, None);
}

fn spin() {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}

#[expect(unsafe_code, reason = "the bindings do not let one give a handle away twice, which is what this is about")]
fn twice(out: ResponseOutparam) {
    let handle = out.take_handle();
    // SAFETY: the handle is this guest's own and is given away here.
    respond(200, "once\n", unsafe { ResponseOutparam::from_handle(handle) });
    // SAFETY: no memory depends on it; the host refuses a handle that is not there.
    respond(200, "twice\n", unsafe { ResponseOutparam::from_handle(handle) });
}

fn half(out: ResponseOutparam) {
    let response = response(200);
    let Ok(body) = response.body() else { return };
    ResponseOutparam::set(out, Ok(response));
    if let Ok(stream) = body.write() {
        let _ = stream.blocking_write_and_flush(b"the first half and");
    }
    core::arch::wasm32::unreachable();
}
