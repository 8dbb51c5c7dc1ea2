//! The images that nodes say they hold (`status.images`), counted with every change.

use std::collections::BTreeMap;

use serde_json::Value;

use super::nodes::NodeId;
use super::scores::MAX_POINTS;
use super::symbols::{Symbol, Symbols};

const MIB: i64 = 1024 * 1024;
/// Images that come to less than this are as good as absent (Kubernetes: `minThreshold`).
const LEAST_BYTES: i64 = 23 * MIB;
/// More than this for each container makes no difference (Kubernetes: `maxContainerThreshold`).
const MOST_BYTES_PER_CONTAINER: i64 = 1000 * MIB;
/// Up to so many images of a pod, [`Images::standing`] is told as points.
const MAX_TOLD_AS_POINTS: usize = 4;

/// One image, by one of its names.
#[derive(Clone, Debug, Default)]
struct Image {
    nodes: u32,
    /// How many nodes state which size in bytes.
    sizes: BTreeMap<u64, u32>,
}

/// Every image that any node holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Images {
    all: BTreeMap<Symbol, Image>,
    /// By row: the images that a node holds and their sizes, in order.
    held: Vec<Box<[(Symbol, u64)]>>,
    version: u64,
}

impl Images {
    /// Whether no node says anything of images.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Changes whenever any count does.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// Takes over `status.images` of a node; whether it was different before.
    pub(super) fn set(&mut self, node: NodeId, found: &Value, symbols: &mut Symbols) -> bool {
        let mut images = BTreeMap::new();
        for image in found.as_array().into_iter().flatten() {
            let bytes = image["sizeBytes"].as_i64().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default();
            for name in image["names"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                let known: &mut u64 = images.entry(symbols.intern(&normalized(name))).or_default();
                *known = bytes.max(*known);
            }
        }
        self.put(node, images.into_iter().collect())
    }

    /// The node is gone.
    pub(super) fn unset(&mut self, node: NodeId) {
        self.put(node, Box::default());
    }

    fn put(&mut self, node: NodeId, after: Box<[(Symbol, u64)]>) -> bool {
        if self.held.len() <= node.index() {
            if after.is_empty() {
                return false;
            }
            self.held.resize_with(node.index() + 1, Box::default);
        }
        if self.held[node.index()] == after {
            return false;
        }
        for (image, bytes) in &after {
            let image = self.all.entry(*image).or_default();
            image.nodes += 1;
            *image.sizes.entry(*bytes).or_default() += 1;
        }
        let before = std::mem::replace(&mut self.held[node.index()], after);
        for (symbol, bytes) in &before {
            let Some(image) = self.all.get_mut(symbol) else { continue };
            image.nodes -= 1;
            if let Some(nodes) = image.sizes.get_mut(bytes) {
                *nodes -= 1;
                if *nodes == 0 {
                    image.sizes.remove(bytes);
                }
            }
            if image.nodes == 0 {
                self.all.remove(symbol);
            }
        }
        self.version += 1;
        true
    }

    /// What holding an image counts for: its size, scaled by the share of the nodes that hold it, so that not all pods
    /// run after one node. Where nodes state different sizes, the greatest counts.
    fn credit(&self, image: Symbol, nodes: usize) -> i64 {
        let Some(image) = self.all.get(&image) else { return 0 };
        let bytes = image.sizes.last_key_value().map_or(0, |(bytes, _)| *bytes);
        // As Kubernetes computes it; the operations are exact everywhere.
        let share = f64::from(image.nodes) / nodes as f64;
        (bytes as f64 * share) as i64
    }

    /// The points of a node for a pod whose containers have these images, of so many nodes.
    pub(super) fn points(&self, node: NodeId, images: &[Symbol], nodes: usize) -> i64 {
        let Some(held) = self.held.get(node.index()).filter(|held| !held.is_empty()) else {
            return points(0, images.len());
        };
        let holds = |image: &&Symbol| held.binary_search_by_key(*image, |(held, _)| *held).is_ok();
        let sum = images.iter().filter(holds).fold(0, |sum: i64, image| sum.saturating_add(self.credit(*image, nodes)));
        points(sum, images.len())
    }

    /// All that decides on the points of nodes but what each of them holds: while it is the same, no node's points have
    /// changed but for those whose own images have. For a few images it is the points of every choice of them, which
    /// stay while one more node hardly changes a share.
    pub(super) fn standing(&self, images: &[Symbol], nodes: usize) -> Vec<i64> {
        let credits: Vec<i64> = images.iter().map(|image| self.credit(*image, nodes)).collect();
        if images.len() > MAX_TOLD_AS_POINTS {
            return credits;
        }
        let choices = 0_usize..1 << credits.len();
        let sum = |choice: usize| {
            let chosen = credits.iter().enumerate().filter(|(index, _)| choice & 1 << index != 0);
            chosen.fold(0, |sum: i64, (_, credit)| sum.saturating_add(*credit))
        };
        choices.map(|choice| points(sum(choice), images.len())).collect()
    }
}

/// Kubernetes' arithmetic: between the two thresholds, in proportion, rounded down.
fn points(sum: i64, containers: usize) -> i64 {
    let most = MOST_BYTES_PER_CONTAINER * i64::try_from(containers.max(1)).unwrap_or(1);
    MAX_POINTS * (sum.clamp(LEAST_BYTES, most) - LEAST_BYTES) / (most - LEAST_BYTES)
}

/// An image's name with a tag.
pub(super) fn normalized(name: &str) -> String {
    let after_slash = name.rfind('/').map_or(0, |slash| slash + 1);
    if name[after_slash..].contains(':') { name.to_owned() } else { format!("{name}:latest") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_kubernetes_own() {
        // SCH-02
        for (mib, containers, want) in [
            (0, 1, 0),
            (23, 1, 0),
            (33, 1, 1),
            (511, 1, 49),
            (512, 1, 50),
            (999, 1, 99),
            (1000, 1, 100),
            (9000, 1, 100),
            (1000, 2, 49),
            (2000, 2, 100),
        ] {
            assert_eq!(points(mib * MIB, containers), want, "{mib} MiB for {containers}");
        }
        assert_eq!(points(i64::MAX, 1), 100);
    }

    #[test]
    fn a_name_without_a_tag_means_the_latest() {
        for (name, want) in [
            ("app", "app:latest"),
            ("app:1", "app:1"),
            ("host:5000/app", "host:5000/app:latest"),
            ("host:5000/app:2", "host:5000/app:2"),
            ("app@sha256:00", "app@sha256:00"),
            ("", ":latest"),
            ("/", "/:latest"),
        ] {
            assert_eq!(normalized(name), want);
        }
    }
}
