//! The priority classes that every cluster has (PRI-01) are made at the start.

use serde_json::json;

use crate::admission::SYSTEM_CLASSES;
use crate::kind::Kind;
use crate::object::Key;
use crate::plan::{Plan, Write};
use crate::view::View;

/// The system's classes, as far as they are missing.
pub(super) fn initial_writes(view: &View) -> Plan {
    let missing =
        SYSTEM_CLASSES.iter().filter(|(name, ..)| view.get(&Key::new(Kind::PRIORITY_CLASS, "", name)).is_none());
    let writes = missing.map(|(name, value, description)| Write::Create {
        kind: Kind::PRIORITY_CLASS,
        namespace: String::new(),
        value: json!({"metadata": {"name": name}, "value": value, "description": description}),
    });
    Plan { writes: writes.collect(), ..Plan::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::harness::Cluster;

    // PRI-01
    #[test]
    fn the_systems_classes_are_made_once() {
        let cluster = Cluster::new(&[]);
        let classes: Vec<_> = cluster.all(Kind::PRIORITY_CLASS);
        let values: Vec<_> = classes.iter().map(|class| class.value()["value"].clone()).collect();
        assert_eq!(values, [json!(2_000_000_000), json!(2_000_001_000)]);
        assert_eq!(initial_writes(&cluster.view), Plan::default());
    }
}
