//! What a deployment says, and the bounds that follow from it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::object::Object;

/// A deployment, read once a plan.
pub(super) struct Deployment {
    /// The object.
    pub(super) object: Arc<Object>,
    /// Its JSON.
    pub(super) value: Value,
    /// `spec.replicas`
    pub(super) replicas: i64,
    /// `spec.paused`
    pub(super) paused: bool,
    /// `spec.strategy`
    pub(super) strategy: Strategy,
    /// `spec.progressDeadlineSeconds`; `None` for no deadline.
    pub(super) progress_deadline_ms: Option<u64>,
    /// `spec.revisionHistoryLimit`; `None` for no limit.
    pub(super) history_limit: Option<usize>,
    /// `status.collisionCount`
    pub(super) collision_count: Option<u64>,
}

/// `spec.strategy`, with shares of `replicas` resolved to pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Old and new side by side.
    RollingUpdate {
        /// Pods above `replicas` that may exist.
        max_surge: i64,
        /// Pods below `replicas` that may be missing.
        max_unavailable: i64,
    },
    /// The old ones go first.
    Recreate,
}

/// What Kubernetes writes for "never".
const NEVER: u64 = i32::MAX as u64;

impl Deployment {
    /// Reads an object.
    pub(super) fn of(object: &Arc<Object>) -> Self {
        let value = object.value();
        let spec = &value["spec"];
        let replicas = spec["replicas"].as_i64().unwrap_or(1);
        let number = |field: &str, default: u64| Some(spec[field].as_u64().unwrap_or(default)).filter(|n| *n != NEVER);
        Self {
            object: Arc::clone(object),
            replicas,
            paused: spec["paused"].as_bool().unwrap_or_default(),
            strategy: Strategy::of(&spec["strategy"], replicas),
            progress_deadline_ms: number("progressDeadlineSeconds", 600).map(|seconds| seconds.saturating_mul(1000)),
            history_limit: number("revisionHistoryLimit", 10).and_then(|limit| usize::try_from(limit).ok()),
            collision_count: value["status"]["collisionCount"].as_u64(),
            value,
        }
    }

    /// Pods above `replicas` that may exist.
    pub(super) const fn max_surge(&self) -> i64 {
        match self.strategy {
            Strategy::RollingUpdate { max_surge, .. } => max_surge,
            Strategy::Recreate => 0,
        }
    }

    /// Pods below `replicas` that may be missing.
    pub(super) fn max_unavailable(&self) -> i64 {
        match self.strategy {
            Strategy::RollingUpdate { max_unavailable, .. } => max_unavailable.min(self.replicas),
            Strategy::Recreate => 0,
        }
    }
}

impl Strategy {
    fn of(strategy: &Value, replicas: i64) -> Self {
        if strategy["type"] == "Recreate" {
            return Self::Recreate;
        }
        let (default, bounds) = (json!("25%"), &strategy["rollingUpdate"]);
        let given = |field: &str| bounds.get(field).filter(|bound| !bound.is_null()).unwrap_or(&default);
        let max_surge = resolve(given("maxSurge"), replicas, true);
        let max_unavailable = resolve(given("maxUnavailable"), replicas, false);
        // With neither, nothing could ever move.
        let max_unavailable = if max_surge == 0 && max_unavailable == 0 { 1 } else { max_unavailable };
        Self::RollingUpdate { max_surge, max_unavailable }
    }
}

/// A number of pods, or a share of `total` (`25%`), rounded up or down.
pub(in crate::reconcile) fn resolve(bound: &Value, total: i64, round_up: bool) -> i64 {
    if let Some(count) = bound.as_i64() {
        return count.max(0);
    }
    let percent = bound.as_str().and_then(|text| text.strip_suffix('%')).and_then(|text| text.parse::<i64>().ok());
    let hundredths = percent.unwrap_or_default().max(0).saturating_mul(total);
    let rounding = if round_up { 99 } else { 0 };
    hundredths.saturating_add(rounding) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    // DEP-02
    #[test]
    fn surge_rounds_up_unavailable_down_and_not_both_are_nothing() {
        for (surge, unavailable, replicas, expected) in [
            (json!("25%"), json!("25%"), 3, (1, 0)),
            (json!("25%"), json!("25%"), 10, (3, 2)),
            (json!(null), json!(null), 4, (1, 1)),
            (json!(3), json!(2), 10, (3, 2)),
            (json!(0), json!("10%"), 5, (0, 1)),
            (json!("0%"), json!(0), 5, (0, 1)),
            (json!("150%"), json!("100%"), 2, (3, 2)),
        ] {
            let strategy = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
            let (max_surge, max_unavailable) = expected;
            let expected = Strategy::RollingUpdate { max_surge, max_unavailable };
            assert_eq!(Strategy::of(&strategy, replicas), expected, "{strategy} of {replicas}");
        }
    }
}
