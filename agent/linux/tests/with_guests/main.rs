//! The agent's runtime and streams with real guests from `workloads/built`, compiled here as the controller does it.

mod workbench;

mod guests;

mod bad_guests;

mod limits;

mod streams;

mod session;
