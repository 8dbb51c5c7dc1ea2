//! How a budget stands: counted from the pods that there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::kind::{Kind, Subresource};
use crate::object::{Object, Uid};
use crate::view::View;

use super::super::deployment::resolve;
use super::super::pods;
use super::selector;

/// How a budget stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// `currentHealthy`: pods that are ready and stay.
    pub healthy: i64,
    /// `desiredHealthy`: as many must be.
    pub desired: i64,
    /// `expectedPods`: as many there should be in all.
    pub expected: i64,
    /// Pods that the budget means.
    pub(super) pods: usize,
    /// Those of them that nothing controls, where that matters.
    pub(super) unmanaged: usize,
}

impl Standing {
    /// Counts.
    ///
    /// # Errors
    /// When it is not known how many pods there should be, in Kubernetes' words.
    pub fn of(view: &View, budget: &Object) -> Result<Self, String> {
        let value = budget.value();
        let meant = selector(&value);
        let pods: Vec<&Arc<Object>> =
            view.list(Kind::POD, Some(budget.namespace())).filter(|pod| meant.matches(&pod.labels)).collect();
        let healthy = pods.iter().filter(|pod| !pod.is_deleting() && pods::is_ready(pod)).count();
        let spec = &value["spec"];
        let (expected, desired, unmanaged) = match (&spec["maxUnavailable"], &spec["minAvailable"]) {
            (Value::Null, Value::Null) => (0, 0, 0),
            (Value::Null, Value::Number(least)) => (count(pods.len()), least.as_i64().unwrap_or_default(), 0),
            (Value::Null, share) => {
                let (scale, unmanaged) = scale(view, &pods)?;
                (scale, resolve(share, scale, true), unmanaged)
            }
            (most, _) => {
                let (scale, unmanaged) = scale(view, &pods)?;
                (scale, scale.saturating_sub(resolve(most, scale, true)).max(0), unmanaged)
            }
        };
        Ok(Self { healthy: count(healthy), desired, expected, pods: pods.len(), unmanaged })
    }

    /// `disruptionsAllowed`. A budget that means no pods yet allows none, so that its first pods are safe.
    #[must_use]
    pub fn allowed(&self) -> i64 {
        if self.expected <= 0 { 0 } else { self.healthy.saturating_sub(self.desired).max(0) }
    }
}

/// The budgets that mean a pod.
pub fn budgets_of<'a>(view: &'a View, pod: &'a Object) -> impl Iterator<Item = &'a Arc<Object>> {
    let budgets = view.list(Kind::POD_DISRUPTION_BUDGET, Some(pod.namespace()));
    budgets.filter(|budget| selector(&budget.value()).matches(&pod.labels))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// How many pods the controllers of these pods want together, and how many of the pods nothing controls.
fn scale(view: &View, pods: &[&Arc<Object>]) -> Result<(i64, usize), String> {
    let mut sizes: BTreeMap<Uid, i64> = BTreeMap::new();
    let mut unmanaged = 0;
    for pod in pods {
        let Some(owner) = pod.controller() else {
            unmanaged += 1;
            continue;
        };
        let found = view.by_uid(owner.uid).ok_or_else(|| format!("found no controllers for pod \"{}\"", pod.name()))?;
        // A deployment's sets are sized by it, and only together.
        let above = found.controller().and_then(|above| view.by_uid(above.uid));
        let controller = above.filter(|above| above.key.kind == Kind::DEPLOYMENT).unwrap_or(found);
        if sizes.contains_key(&controller.uid) {
            continue;
        }
        let kind = controller.key.kind;
        if !kind.info().subresources.contains(&Subresource::Scale) {
            return Err(format!("{} does not implement the scale subresource", kind.qualified_plural()));
        }
        sizes.insert(controller.uid, controller.value()["spec"]["replicas"].as_i64().unwrap_or(1));
    }
    Ok((sizes.values().sum(), unmanaged))
}
