//! The rules of the house that a machine can check. Each failure says which rule, where, and why there is one.

mod behaviours;
mod edges;
mod sources;
