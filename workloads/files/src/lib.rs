//! `files`: verbs in sequence, each with a line that says what came of it.
//!
//! *In:* the words of argv. *Out:* lines on standard output. *Must never know:* WASI and the termination signal; the
//! two verbs that wait for it are done by `main.rs`. *Tested:* here, on the host's own files.

mod verb;

mod act;

pub use act::{Desk, lines_of};
pub use verb::{USAGE, Verb, parse};
