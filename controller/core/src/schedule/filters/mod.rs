//! Where a pod cannot go: one file a filter, one table (SCH-01). A new filter is a file, a row and, if it has a reason of
//! its own, a [`Refusal`]; operators name it as `config/plugins.rs` lists it.

mod inter_pod_affinity;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod pod_topology_spread;
mod taint_toleration;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

use std::ops::RangeInclusive;

use super::census::{ClassId, Domain};
use super::hints::Hints;
use super::nodes::NodeId;
pub(super) use super::overlay::Cluster;
use super::question::Question;
use super::rules::Asked;
use super::symbols::{Resource, Symbol, Symbols, Taint};

/// One filter.
#[derive(Debug)]
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
    /// By domain; domains beyond those count nothing.
    pub(super) counts: &'a [i64],
    /// Domains with these counts fit.
    pub(super) fits: RangeInclusive<i64>,
    /// What the others are told.
    pub(super) refusal: Refusal,
    /// What nodes without the key are told.
    pub(super) without_key: Option<Refusal>,
}

impl DomainRule<'_> {
    /// Why a node is refused.
    pub(super) fn refusal(&self, node: NodeId) -> Option<Refusal> {
        match self.domains.get(node.index()) {
            Some(domain) if !domain.is_none() => {
                let count = self.counts.get(domain.index()).copied().unwrap_or_default();
                (!self.fits.contains(&count)).then_some(self.refusal)
            }
            _ => self.without_key,
        }
    }
}

/// One filter about other pods.
#[derive(Debug)]
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
    volume_binding::CLAIMS,
    node_unschedulable::FILTER,
    node_name::FILTER,
    taint_toleration::FILTER,
    node_affinity::FILTER,
    node_ports::FILTER,
    node_resources_fit::FILTER,
    volume_restrictions::FILTER,
    volume_binding::FILTER,
    volume_zone::FILTER,
];

/// Why a node was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    Unschedulable,
    OtherName,
    Untolerated(Taint),
    Affinity,
    /// What the profile adds to the pod's own.
    EnforcedAffinity,
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
    ClaimMissing(Symbol),
    ClaimGoing(Symbol),
    /// The claim, and the volume that it had.
    ClaimLost(Symbol, Symbol),
    UnboundClaims,
    ClaimOfAnotherPod,
    /// A volume that one node at a time may use is in use on another.
    AttachedElsewhere,
    VolumeAffinity,
    NoVolume,
    /// A claim's volume is gone, and the claim does not know yet.
    VolumeGone,
    /// A volume is in another zone or region.
    VolumeZone,
}

impl Refusal {
    /// Kubernetes' name of the plugin.
    pub(super) const fn filter(self) -> &'static str {
        match self {
            Self::Unschedulable => node_unschedulable::FILTER.name,
            Self::OtherName => node_name::FILTER.name,
            Self::Untolerated(_) => taint_toleration::FILTER.name,
            Self::Affinity | Self::EnforcedAffinity => node_affinity::FILTER.name,
            Self::Ports => node_ports::FILTER.name,
            Self::TooManyPods | Self::Insufficient(_) | Self::Exceeds(_) => node_resources_fit::FILTER.name,
            Self::Skew | Self::NoSpreadLabel => pod_topology_spread::FILTER.name,
            Self::AffinityRules | Self::AntiAffinityRules | Self::ExistingAntiAffinity => {
                inter_pod_affinity::FILTER.name
            }
            Self::ClaimOfAnotherPod | Self::AttachedElsewhere => volume_restrictions::FILTER.name,
            Self::ClaimMissing(_)
            | Self::ClaimGoing(_)
            | Self::ClaimLost(..)
            | Self::UnboundClaims
            | Self::VolumeAffinity
            | Self::NoVolume
            | Self::VolumeGone => volume_binding::FILTER.name,
            Self::VolumeZone => volume_zone::FILTER.name,
        }
    }

    /// What could change the mind of the filter that says this.
    pub(super) const fn helped_by(self) -> Hints {
        match self {
            Self::Unschedulable => node_unschedulable::FILTER.helped_by,
            Self::OtherName => node_name::FILTER.helped_by,
            Self::Untolerated(_) => taint_toleration::FILTER.helped_by,
            Self::Affinity | Self::EnforcedAffinity => node_affinity::FILTER.helped_by,
            Self::Ports => node_ports::FILTER.helped_by,
            Self::TooManyPods | Self::Insufficient(_) => node_resources_fit::FILTER.helped_by,
            Self::Exceeds(_) => Hints::NODE_ADDED.and(Hints::ALLOCATABLE),
            Self::Skew => pod_topology_spread::FILTER.helped_by,
            Self::NoSpreadLabel => Hints::NODE_ADDED.and(Hints::LABELS),
            Self::AffinityRules | Self::AntiAffinityRules | Self::ExistingAntiAffinity => {
                inter_pod_affinity::FILTER.helped_by
            }
            Self::ClaimOfAnotherPod | Self::AttachedElsewhere => volume_restrictions::FILTER.helped_by,
            Self::ClaimMissing(_) | Self::ClaimGoing(_) | Self::ClaimLost(..) | Self::UnboundClaims => {
                volume_binding::CLAIMS.helped_by
            }
            Self::VolumeAffinity | Self::NoVolume | Self::VolumeGone => volume_binding::FILTER.helped_by,
            Self::VolumeZone => volume_zone::FILTER.helped_by,
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
            Self::EnforcedAffinity => "node(s) didn't match scheduler-enforced node affinity".to_owned(),
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
            Self::ClaimMissing(claim) => format!("persistentvolumeclaim \"{}\" not found", name(claim, symbols)),
            Self::ClaimGoing(claim) => format!("persistentvolumeclaim \"{}\" is being deleted", name(claim, symbols)),
            Self::ClaimLost(claim, volume) => {
                let (claim, volume) = (name(claim, symbols), symbols.text(volume));
                format!("persistentvolumeclaim \"{claim}\" bound to non-existent persistentvolume \"{volume}\"")
            }
            Self::UnboundClaims => "pod has unbound immediate PersistentVolumeClaims".to_owned(),
            Self::ClaimOfAnotherPod => "node has pod using PersistentVolumeClaim with the same name and \
                                        ReadWriteOncePod access mode"
                .to_owned(),
            Self::AttachedElsewhere => "node(s) had no available disk".to_owned(),
            Self::VolumeAffinity => "node(s) didn't match PersistentVolume's node affinity".to_owned(),
            Self::NoVolume => "node(s) didn't find available persistent volumes to bind".to_owned(),
            Self::VolumeGone => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)".to_owned(),
            Self::VolumeZone => "node(s) had no available volume zone".to_owned(),
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
            | Self::EnforcedAffinity
            | Self::Exceeds(_)
            | Self::NoSpreadLabel
            | Self::AffinityRules
            | Self::ClaimMissing(_)
            | Self::ClaimGoing(_)
            | Self::ClaimLost(..)
            | Self::UnboundClaims
            | Self::AttachedElsewhere
            | Self::VolumeAffinity
            | Self::NoVolume
            | Self::VolumeGone
            | Self::VolumeZone => true,
            Self::Ports
            | Self::TooManyPods
            | Self::Insufficient(_)
            | Self::Skew
            | Self::AntiAffinityRules
            | Self::ExistingAntiAffinity
            | Self::ClaimOfAnotherPod => false,
        }
    }

    /// Whether it says something of the pod and nothing of the node: Kubernetes looks at no node then, and counts none.
    pub(super) const fn is_about_pod(self) -> bool {
        matches!(self, Self::ClaimMissing(_) | Self::ClaimGoing(_) | Self::ClaimLost(..) | Self::UnboundClaims)
    }
}

/// A claim's name without its namespace.
fn name(claim: Symbol, symbols: &Symbols) -> &str {
    let text = symbols.text(claim);
    text.split_once('/').map_or(text, |(_, name)| name)
}
