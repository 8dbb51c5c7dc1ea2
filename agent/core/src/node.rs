//! What this node says of itself beside its facts: the images on its disk, and what it is short of.

use alloc::vec::Vec;
use core::cmp::Reverse;

use coracle_model::limits::{MAX_NODE_IMAGE_NAME_BYTES, MAX_NODE_IMAGE_NAMES, MAX_NODE_IMAGES};
use coracle_model::{NodeImage, SessionNumber};
use coracle_wire::up::NodeReport;

/// The latest of it. An agent whose shell never says anything says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeState {
    images: Vec<NodeImage>,
    memory_pressure: bool,
    disk_pressure: bool,
    is_known: bool,
}

impl NodeState {
    /// These images are on the disk; whether that is news.
    pub(crate) fn holds(&mut self, mut images: Vec<NodeImage>) -> bool {
        for image in &mut images {
            image.names.retain(|name| name.len() <= MAX_NODE_IMAGE_NAME_BYTES);
            image.names.sort_unstable();
            image.names.dedup();
            image.names.truncate(MAX_NODE_IMAGE_NAMES);
        }
        images.sort_by_key(|image| (Reverse(image.size_bytes), image.image));
        images.truncate(MAX_NODE_IMAGES);
        self.become_known() | (core::mem::replace(&mut self.images, images) != self.images)
    }

    /// The node is short of memory, or of room on its disk, or not; whether that is news.
    pub(crate) fn is_short(&mut self, memory: bool, disk: bool) -> bool {
        let before = (self.memory_pressure, self.disk_pressure);
        (self.memory_pressure, self.disk_pressure) = (memory, disk);
        self.become_known() | (before != (memory, disk))
    }

    fn become_known(&mut self) -> bool {
        !core::mem::replace(&mut self.is_known, true)
    }

    /// As it travels; nothing while nothing is known.
    pub(crate) fn report(&self, session: SessionNumber, sequence: u64, applied: u64) -> Option<NodeReport> {
        self.is_known.then(|| NodeReport {
            session,
            sequence,
            applied,
            memory_pressure: self.memory_pressure,
            disk_pressure: self.disk_pressure,
            images: self.images.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};
    use alloc::vec;

    use coracle_model::Digest;

    use super::*;

    fn image(fill: u8, size_bytes: u64, names: &[&str]) -> NodeImage {
        NodeImage { image: Digest([fill; 32]), size_bytes, names: names.iter().map(ToString::to_string).collect() }
    }

    fn told(state: &NodeState) -> Vec<NodeImage> {
        state.report(SessionNumber(1), 1, 1).map(|report| report.images).unwrap_or_default()
    }

    // SCH-02
    #[test]
    fn only_the_fifty_largest_images_are_spoken_of_the_largest_first() {
        let mut state = NodeState::default();
        assert!(state.holds((0..60).map(|number| image(number, u64::from(number % 30), &["a:1"])).collect()));
        let sizes: Vec<u64> = told(&state).iter().map(|image| image.size_bytes).collect();
        assert_eq!(sizes.len(), 50);
        assert!(sizes.is_sorted_by(|one, two| one >= two) && sizes[49] == 5);
    }

    #[test]
    fn an_image_has_five_names_of_a_bounded_length() {
        let mut state = NodeState::default();
        let long = "x".repeat(MAX_NODE_IMAGE_NAME_BYTES + 1);
        state.holds(vec![image(1, 1, &["g", "f", "e", "d", "c", "b", "a", "a", &long])]);
        let names: Vec<String> = told(&state).remove(0).names;
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn what_is_said_again_is_no_news() {
        let mut state = NodeState::default();
        assert_eq!(state.report(SessionNumber(1), 1, 1), None);
        let (one, two) = (image(1, 7, &["a:1", "b:1"]), image(2, 9, &[]));
        assert!(state.holds(vec![one.clone(), two.clone()]));
        assert!(!state.holds(vec![two.clone(), NodeImage { names: vec!["b:1".into(), "a:1".into()], ..one }]));
        assert!(state.holds(vec![two]));
        assert!(!state.is_short(false, false));
        assert!(state.is_short(false, true));
        assert!(!state.is_short(false, true));
    }
}
