//! Pod disruption budgets, as far as preemption obeys them: best effort (PRI-07).

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::census::{Census, ClassId, Matcher, MatcherId, Scope};
use super::super::symbols::Symbols;
use super::super::terms::Selector;
use crate::object::{Key, Object};

/// One budget.
#[derive(Clone, Debug)]
struct Budget {
    pods: MatcherId,
    /// `status.disruptionsAllowed`
    allowed: i64,
}

/// All budgets.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Budgets {
    all: BTreeMap<Key, Budget>,
    /// Counts changes, so that what was found under earlier ones is not believed.
    version: u64,
}

impl Budgets {
    /// A budget appeared or changed. To the scheduler of Kubernetes, one whose selector is empty protects nobody.
    pub(in super::super) fn set(&mut self, budget: &Object, census: &mut Census, symbols: &mut Symbols) {
        let value = budget.value();
        if is_empty(&value["spec"]["selector"]) {
            return self.unset(&budget.key, census);
        }
        let namespaces = vec![symbols.intern(budget.namespace())];
        let pods = Selector::compile(&value["spec"]["selector"], symbols);
        let pods = census.matcher(Matcher(vec![Scope { namespaces, namespace_selector: None, pods }]), symbols);
        let allowed = value["status"]["disruptionsAllowed"].as_i64().unwrap_or_default();
        self.version += 1;
        if let Some(before) = self.all.insert(budget.key.clone(), Budget { pods, allowed }) {
            census.release_matcher(before.pods);
        }
    }

    /// A budget is gone.
    pub(in super::super) fn unset(&mut self, key: &Key, census: &mut Census) {
        self.version += 1;
        if let Some(before) = self.all.remove(key) {
            census.release_matcher(before.pods);
        }
    }

    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// Which of these pods, in this order, would break a budget if all of them went.
    pub(super) fn violated(&self, census: &Census, classes: impl Iterator<Item = ClassId>) -> Vec<bool> {
        if self.all.is_empty() {
            return classes.map(|_| false).collect();
        }
        let mut left: Vec<(MatcherId, i64)> = self.all.values().map(|budget| (budget.pods, budget.allowed)).collect();
        classes
            .map(|class| {
                let mut breaks = false;
                for (pods, allowed) in &mut left {
                    // A pod without labels is in no budget, whatever the selector excludes.
                    if census.has_labels(class) && census.is_meant(class, *pods) {
                        *allowed -= 1;
                        breaks |= *allowed < 0;
                    }
                }
                breaks
            })
            .collect()
    }
}

fn is_empty(selector: &Value) -> bool {
    let labels = selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty);
    labels && selector["matchExpressions"].as_array().is_none_or(Vec::is_empty)
}
