//! Which objects are meant: by labels (API-05) and by fields.
//!
//! *In:* a query string, or `metav1.LabelSelector` as JSON. *Out:* something that matches objects.
//! *Must never know:* where the objects come from.
//! *Tested:* tables beside the code.

mod field;
mod label;
mod parse;

pub use field::FieldSelector;
pub use label::{LabelSelector, Labels, SelectorError};
