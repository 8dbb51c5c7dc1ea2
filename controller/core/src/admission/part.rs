//! Parts of objects that stand in the scheduler's configuration too: checked as in an object.

use k8s_openapi::api::core::v1::{NodeAffinity, TopologySpreadConstraint};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::at::{At, Causes};
use super::{decode, scheduling, spread};
use crate::error::{FieldError, FieldReason};

/// Pushes what does not fit the type or is not known to it; whether there is nothing of the kind.
fn fits<T: DeserializeOwned>(value: &Value, at: &str, causes: &mut Causes) -> bool {
    let misfits = decode::misfits::<T>(value);
    let fits = misfits.is_empty();
    causes.extend(misfits.into_iter().map(|(path, message)| {
        let field = if path.is_empty() { at.to_owned() } else { format!("{at}.{path}") };
        FieldError { reason: FieldReason::TypeInvalid, field, message }
    }));
    fits
}

/// What is wrong with a `NodeAffinity`.
pub(crate) fn check_node_affinity(affinity: &Value, at: &str) -> Vec<FieldError> {
    let mut causes = Causes::new();
    if fits::<NodeAffinity>(affinity, at, &mut causes) {
        scheduling::node_affinity(affinity, &At::Root.field(at), &mut causes);
    }
    causes
}

/// What is wrong with topology spread constraints.
pub(crate) fn check_spread(constraints: &[Value], at: &str) -> Vec<FieldError> {
    let mut causes = Causes::new();
    let mut fit = true;
    for (index, constraint) in constraints.iter().enumerate() {
        fit &= fits::<TopologySpreadConstraint>(constraint, &format!("{at}[{index}]"), &mut causes);
    }
    if fit {
        spread::constraints(constraints, &At::Root.field(at), &mut causes);
    }
    causes
}
