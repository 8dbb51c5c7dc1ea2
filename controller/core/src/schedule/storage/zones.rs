//! Zones and regions that a volume names in its labels, as it was done before volumes had a node affinity.

use serde_json::json;

use crate::schedule::symbols::Symbols;
use crate::schedule::terms::Term;
use crate::selector::Labels;

/// The labels that count, as nodes have them, and their names of before.
pub(super) const LABELS: [(&str, &str); 2] = [
    ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
];
/// Between the zones of a volume that lies in several.
const BETWEEN: &str = "__";

/// The nodes that a volume with these labels can serve: those in its zone and region, and those that say nothing of
/// either. `None` for a volume that names neither.
pub(super) fn terms(labels: &Labels, symbols: &mut Symbols) -> Option<[Term; 2]> {
    let named =
        LABELS.iter().filter_map(|(key, before)| Some((key, labels.get(*key).or_else(|| labels.get(*before))?)));
    let inside: Vec<_> = named
        .map(|(key, value)| json!({"key": key, "operator": "In", "values": value.split(BETWEEN).collect::<Vec<_>>()}))
        .collect();
    if inside.is_empty() {
        return None;
    }
    let silent = LABELS.map(|(key, _)| json!({"key": key, "operator": "DoesNotExist"}));
    let mut term = |expressions| Term::compile(&json!({ "matchExpressions": expressions }), symbols);
    Some([term(json!(inside)), term(json!(silent))])
}
