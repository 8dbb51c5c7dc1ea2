//! Where a pod cannot go: one file a filter, one table (SCH-01). A new filter is a file, a row and, if it has a reason of
//! its own, a [`Refusal`].

mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod taint_toleration;

use super::hints::Hints;
use super::nodes::{NodeId, Nodes};
use super::question::Question;
use super::symbols::{Resource, Symbols, Taint};

/// What filters may look at.
#[derive(Clone, Copy)]
pub(super) struct Cluster<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) symbols: &'a Symbols,
}

/// One filter.
pub(super) struct Filter {
    /// Kubernetes' name of the plugin.
    pub(super) name: &'static str,
    /// Pushes every reason for which the node is refused; none when the pod can go there.
    pub(super) check: fn(Cluster<'_>, NodeId, &Question, &mut Vec<Refusal>),
    /// What could change its mind.
    pub(super) helped_by: Hints,
}

/// Every filter, in Kubernetes' order. The first that refuses a node ends the look at it.
pub(super) const FILTERS: &[Filter] = &[
    node_unschedulable::FILTER,
    node_name::FILTER,
    taint_toleration::FILTER,
    node_affinity::FILTER,
    node_ports::FILTER,
    node_resources_fit::FILTER,
];

/// Why a node was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    Unschedulable,
    OtherName,
    Untolerated(Taint),
    Affinity,
    Ports,
    TooManyPods,
    Insufficient(Resource),
}

impl Refusal {
    /// Kubernetes' name of the plugin.
    pub(super) const fn filter(self) -> &'static str {
        match self {
            Self::Unschedulable => node_unschedulable::FILTER.name,
            Self::OtherName => node_name::FILTER.name,
            Self::Untolerated(_) => taint_toleration::FILTER.name,
            Self::Affinity => node_affinity::FILTER.name,
            Self::Ports => node_ports::FILTER.name,
            Self::TooManyPods | Self::Insufficient(_) => node_resources_fit::FILTER.name,
        }
    }

    /// Kubernetes' words.
    pub(super) fn reason(self, symbols: &Symbols) -> String {
        match self {
            Self::Unschedulable => "node(s) were unschedulable".to_owned(),
            Self::OtherName => "node(s) didn't match the requested node name".to_owned(),
            Self::Untolerated(taint) => {
                let (key, value) = (symbols.text(taint.key), symbols.text(taint.value));
                format!("node(s) had untolerated taint {{{key}: {value}}}")
            }
            Self::Affinity => "node(s) didn't match Pod's node affinity/selector".to_owned(),
            Self::Ports => "node(s) didn't have free ports for the requested pod ports".to_owned(),
            Self::TooManyPods => "Too many pods".to_owned(),
            Self::Insufficient(resource) => format!("Insufficient {}", symbols.resource_name(resource)),
        }
    }
}
