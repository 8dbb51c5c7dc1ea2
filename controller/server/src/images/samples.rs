//! The images that are built into the controller, so that the first `kubectl apply` needs no push and no registry.

use std::sync::LazyLock;

use coracle_model::Digest;

use super::digest_of;

/// A built-in image.
pub(super) struct Sample {
    /// `samples/hello:1`
    pub(super) name: &'static str,
    /// The WebAssembly.
    pub(super) bytes: &'static [u8],
    /// Its digest.
    pub(super) digest: Digest,
}

macro_rules! sample {
    ($name:literal, $file:literal) => {{
        let bytes: &'static [u8] = include_bytes!(concat!("../../../../workloads/built/", $file));
        Sample { name: $name, bytes, digest: digest_of(bytes) }
    }};
}

/// Every sample, by name.
pub(super) static SAMPLES: LazyLock<[Sample; 4]> = LazyLock::new(|| {
    [
        sample!("samples/hello:1", "hello-1.wasm"),
        sample!("samples/hello:2", "hello-2.wasm"),
        sample!("samples/job:1", "job-1.wasm"),
        sample!("samples/sensor:1", "sensor-1.wasm"),
    ]
});
