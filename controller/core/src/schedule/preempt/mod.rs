//! Preemption: which pods of lower priority go from which node, so that a pod of higher priority fits (PRI-04 to PRI-07).
//!
//! *In:* a pod that no node fits, and the cluster. *Out:* the node and its victims, or why there is none.
//! *Must never know:* how victims are ended.
//! *Tested:* tables from the seed, and a property against plain objects.
//!
//! On each node every pod of lower priority is taken away; if the pod fits then, as many of them as possible are put
//! back, the most important first. Of all nodes the one with the least harm is chosen. What was found of a node stays
//! true until the node changes, so pods of one template share it.

mod budgets;
mod candidates;
mod victims;

mod attempt;

pub(super) use attempt::Preemption;
pub(super) use budgets::Budgets;
pub(super) use candidates::Preemptions;
pub(super) use victims::{Resident, Residents};
