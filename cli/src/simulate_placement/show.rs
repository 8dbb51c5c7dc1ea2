//! A forecast for people.

use std::fmt::Write as _;

use coracle_controller_core::controller::what_if::{Forecast, Landing};

use crate::table::Table;

/// A line a pod, then who has to go, then what was refused, then the sum.
pub(super) fn table(forecast: &Forecast) -> String {
    let mut table = Table::new(&["POD", "NODE", "WHY"]);
    for pod in &forecast.pods {
        let node = pod.node.clone().unwrap_or_else(|| "-".to_owned());
        table.row(vec![format!("{}/{}", pod.namespace, pod.name), node, why(pod)]);
    }
    let mut text = table.text();
    // Writing to a text never fails.
    for victim in &forecast.preempted {
        let _written = writeln!(
            text,
            "{}/{} (priority {}) on node {} would be preempted by {}",
            victim.namespace, victim.name, victim.priority, victim.node, victim.by
        );
    }
    for refused in &forecast.refused {
        let _written = writeln!(text, "{}: {}", refused.owner, refused.message);
    }
    let of_manifests: Vec<&Landing> = forecast.pods.iter().filter(|pod| pod.of_manifest).collect();
    let placed = of_manifests.iter().filter(|pod| pod.node.is_some()).count();
    let _written = writeln!(text, "{placed} of {} pods placed", of_manifests.len());
    text
}

fn why(pod: &Landing) -> String {
    let chosen = pod
        .placement
        .as_ref()
        .and_then(|placement| placement.verdicts.iter().find(|verdict| Some(&verdict.node) == pod.node.as_ref()));
    let replacement = if pod.of_manifest { "" } else { "in the place of one that is preempted: " };
    let Some(verdict) = chosen else { return format!("{replacement}{}", pod.message) };
    let points = verdict.points.iter().filter(|points| points.weighted != 0);
    let points: Vec<String> =
        points.map(|points| format!("{} {}x{}", points.plugin, points.points, points.weight)).collect();
    format!("{replacement}{} = {}", verdict.score.unwrap_or_default(), points.join(" + "))
}
