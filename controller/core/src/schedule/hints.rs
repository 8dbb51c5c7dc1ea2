//! Which changes of the cluster could help a pod that found no node.

/// A set of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hints(u16);

impl Hints {
    pub(super) const NONE: Self = Self(0);
    /// A node was added.
    pub(super) const NODE_ADDED: Self = Self(1);
    /// A node's labels changed, or it is gone and with it what it was in the topology.
    pub(super) const LABELS: Self = Self(1 << 1);
    /// A node's taints changed.
    pub(super) const TAINTS: Self = Self(1 << 2);
    /// A node's `spec.unschedulable` changed.
    pub(super) const UNSCHEDULABLE: Self = Self(1 << 3);
    /// A node's `status.allocatable` changed.
    pub(super) const ALLOCATABLE: Self = Self(1 << 4);
    /// A bound pod has gone or come to its end.
    pub(super) const POD_GONE: Self = Self(1 << 5);
    /// A pod was bound, or the labels of a bound one changed.
    pub(super) const POD_ADDED: Self = Self(1 << 6);
    /// A persistent volume is free, or can be reached from other nodes than before. A claim that changes wakes the pods
    /// that name it.
    pub(super) const VOLUME: Self = Self(1 << 7);
    /// A storage class leaves the choice of volumes to the scheduler, or no longer.
    pub(super) const CLASS: Self = Self(1 << 8);
    /// Whatever a new node brings.
    pub(super) const ANY_NODE: Self = Self(0b1_1111);

    /// Both.
    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Both, if it is so.
    pub(super) const fn when(self, is_so: bool, other: Self) -> Self {
        if is_so { self.and(other) } else { self }
    }

    /// Whether any change is in both sets.
    pub(super) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}
