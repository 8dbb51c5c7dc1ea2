//! `ImageLocality`: nodes that hold the pod's images already, by their sizes.

use super::{Normalise, Score};

pub(super) const SCORE: Score = Score {
    name: "ImageLocality",
    weight: 1,
    applies: |question| !question.images.is_empty(),
    points: |cluster, node, question| cluster.nodes.images().points(node, &question.images, cluster.nodes.len()),
    normalise: Normalise::AsTheyAre,
};
