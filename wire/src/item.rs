//! One element of a set, with its own length, so that a reader skips one that it cannot understand and keeps the rest.

use alloc::vec::Vec;

use coracle_model::PodUid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// An element in its encoded form, named by the pod that it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The pod; readable even when the body is not, so that the refusal has a name.
    pub uid: PodUid,
    body: Vec<u8>,
}

impl Item {
    /// Encodes one element.
    pub fn new<T: Serialize>(uid: PodUid, element: &T) -> Self {
        // Writing into memory cannot fail for the types of `model`.
        Self { uid, body: postcard::to_allocvec(element).unwrap_or_default() }
    }

    /// Reads the element, or `None` if this build does not understand it. Newer fields at its end are ignored.
    #[must_use]
    pub fn read<T: DeserializeOwned>(&self) -> Option<T> {
        postcard::take_from_bytes(&self.body).ok().map(|(element, _newer)| element)
    }

    /// The encoded element.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// About how many bytes it takes on the wire.
    #[must_use]
    pub fn len(&self) -> usize {
        self.body.len() + 24
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }
}
