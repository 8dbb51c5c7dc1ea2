//! Where a pod cannot go: one file a filter, one table (SCH-01). A new filter is a file, a row and, if it has a reason of
//! its own, a [`Refusal`].

mod inter_pod_affinity;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod pod_topology_spread;
mod taint_toleration;

use super::census::{ClassId, Domain};
use super::hints::Hints;
use super::nodes::NodeId;
pub(super) use super::overlay::Cluster;
use super::question::Question;
use super::rules::Asked;
use super::symbols::{Resource, Symbols, Taint};

/// One filter.
pub(super) struct Filter {
    /// Kubernetes' name of the plugin.
    pub(super) name: &'static str,
    /// Pushes every reason for which the node is refused; none when the pod can go there.
    pub(super) check: fn(Cluster<'_>, NodeId, &Question, &mut Vec<Refusal>),
    /// What could change its mind.
    pub(super) helped_by: Hints,
}

/// What a rule about other pods makes of the domains of one topology key.
pub(super) struct DomainRule<'a> {
    /// By node.
    pub(super) domains: &'a [Domain],
    /// By domain.
    pub(super) verdicts: Vec<Option<Refusal>>,
    /// Of domains beyond those.
    pub(super) otherwise: Option<Refusal>,
    /// Of nodes without the key.
    pub(super) without_key: Option<Refusal>,
}

impl DomainRule<'_> {
    /// Why a node is refused.
    pub(super) fn refusal(&self, node: NodeId) -> Option<Refusal> {
        match self.domains.get(node.index()) {
            Some(domain) if !domain.is_none() => self.verdicts.get(domain.index()).copied().unwrap_or(self.otherwise),
            _ => self.without_key,
        }
    }
}

/// One filter about other pods.
pub(super) struct PodFilter {
    /// Kubernetes' name of the plugin.
    pub(super) name: &'static str,
    /// What it makes of all nodes.
    pub(super) rules: for<'a> fn(Cluster<'a>, &Asked, ClassId, &mut Vec<DomainRule<'a>>),
    /// What it makes of one node, also of one as it would be.
    pub(super) check: fn(Cluster<'_>, NodeId, &Asked, ClassId) -> Option<Refusal>,
    /// What could change its mind.
    pub(super) helped_by: Hints,
}

/// Every filter about other pods, in Kubernetes' order; they come after the others.
pub(super) const POD_FILTERS: &[PodFilter] = &[pod_topology_spread::FILTER, inter_pod_affinity::FILTER];

/// Every filter about the node alone, in Kubernetes' order. The first that refuses a node ends the look at it.
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
    /// It asks for more than the node has at all.
    Exceeds(Resource),
    Skew,
    NoSpreadLabel,
    AffinityRules,
    AntiAffinityRules,
    ExistingAntiAffinity,
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
            Self::TooManyPods | Self::Insufficient(_) | Self::Exceeds(_) => node_resources_fit::FILTER.name,
            Self::Skew | Self::NoSpreadLabel => pod_topology_spread::FILTER.name,
            Self::AffinityRules | Self::AntiAffinityRules | Self::ExistingAntiAffinity => {
                inter_pod_affinity::FILTER.name
            }
        }
    }

    /// What could change the mind of the filter that says this.
    pub(super) const fn helped_by(self) -> Hints {
        match self {
            Self::Unschedulable => node_unschedulable::FILTER.helped_by,
            Self::OtherName => node_name::FILTER.helped_by,
            Self::Untolerated(_) => taint_toleration::FILTER.helped_by,
            Self::Affinity => node_affinity::FILTER.helped_by,
            Self::Ports => node_ports::FILTER.helped_by,
            Self::TooManyPods | Self::Insufficient(_) => node_resources_fit::FILTER.helped_by,
            Self::Exceeds(_) => Hints::NODE_ADDED.and(Hints::ALLOCATABLE),
            Self::Skew => pod_topology_spread::FILTER.helped_by,
            Self::NoSpreadLabel => Hints::NODE_ADDED.and(Hints::LABELS),
            Self::AffinityRules | Self::AntiAffinityRules | Self::ExistingAntiAffinity => {
                inter_pod_affinity::FILTER.helped_by
            }
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
            Self::Insufficient(resource) | Self::Exceeds(resource) => {
                format!("Insufficient {}", symbols.resource_name(resource))
            }
            Self::Skew => "node(s) didn't match pod topology spread constraints".to_owned(),
            Self::NoSpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)".to_owned()
            }
            Self::AffinityRules => "node(s) didn't match pod affinity rules".to_owned(),
            Self::AntiAffinityRules => "node(s) didn't match pod anti-affinity rules".to_owned(),
            Self::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules".to_owned(),
        }
    }

    /// Whether the node stays refused whichever pods are gone from it, so that preemption need not look at it
    /// (Kubernetes: `UnschedulableAndUnresolvable`).
    pub(super) const fn is_for_good(self) -> bool {
        match self {
            Self::Unschedulable
            | Self::OtherName
            | Self::Untolerated(_)
            | Self::Affinity
            | Self::Exceeds(_)
            | Self::NoSpreadLabel
            | Self::AffinityRules => true,
            Self::Ports
            | Self::TooManyPods
            | Self::Insufficient(_)
            | Self::Skew
            | Self::AntiAffinityRules
            | Self::ExistingAntiAffinity => false,
        }
    }
}
