//! Everything that is tested from outside: real programs, real brokers, real clients, and the rules of the house.
//!
//! *In:* the built programs, and the tools that `cargo xtask test` has put beside them. *Out:* passed or failed.
//! *Must never know:* the inside of any crate; that is tested beside the code.
//! *Tested:* by being run.
//!
//! `tests/house.rs` holds the rules that a machine can check. The other files each start their own processes on free
//! ports, in a directory of their own, and end them by pid.
#![forbid(unsafe_code)]

pub mod programs;
pub mod tools;
pub mod wait;

pub mod cluster;

pub mod namespaces;
pub mod slow_link;
