//! `NodePorts`: host ports are free.

use super::{Filter, Refusal};
use crate::schedule::hints::Hints;

pub(super) const FILTER: Filter = Filter {
    name: "NodePorts",
    check: |cluster, node, question, refusals| {
        if question.host_ports.iter().any(|port| cluster.takes_port(node, *port)) {
            refusals.push(Refusal::Ports);
        }
    },
    helped_by: Hints::NODE_ADDED.and(Hints::POD_GONE),
};
