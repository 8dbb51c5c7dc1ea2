//! `ImageLocality`: the points of nodes that hold a pod's images, by Kubernetes' arithmetic.

use serde_json::{Value, json};

use super::super::Verdict;
use super::{World, node, pod};
use crate::kind::Kind;
use crate::object::Key;

const MIB: u64 = 1024 * 1024;

/// A node with these images, in MiB.
fn holding(name: &str, images: &[(&str, u64)]) -> Value {
    let mut value = node(name, "4", "4Gi");
    let images: Vec<_> = images.iter().map(|(image, mib)| json!({"names": [image], "sizeBytes": mib * MIB})).collect();
    value["status"]["images"] = json!(images);
    value
}

fn running(name: &str, images: &[&str]) -> Value {
    let containers: Vec<_> = images.iter().map(|image| json!({"name": "c", "image": image})).collect();
    pod(name, json!({"containers": containers}))
}

/// What the score gives each node.
fn points(world: &mut World, key: &Key) -> Vec<(String, i64)> {
    let explanation = world.explain(key);
    let of = |verdict: &Verdict| match verdict {
        Verdict::Feasible { points, .. } => {
            points.iter().filter(|points| points.score == "ImageLocality").map(|points| points.points).sum()
        }
        Verdict::Refused { reasons } => panic!("{reasons:?}"),
    };
    explanation.verdicts.iter().map(|(name, verdict)| (name.to_string(), of(verdict))).collect()
}

/// Images of the nodes `a`, `b`, ..., those of the pod, and the points of the nodes.
type Case<'a> = (&'a [&'a [(&'a str, u64)]], &'a [&'a str], &'a [i64]);

#[test]
fn points_follow_size_and_share_as_in_kubernetes() {
    // SCH-02
    let cases: &[Case<'_>] = &[
        // Nobody says anything: all alike.
        (&[&[], &[]], &["app:1"], &[0, 0]),
        // 100 x (140 x 1/2 - 23) / 977
        (&[&[("app:1", 140)], &[("other:1", 900)]], &["app:1"], &[4, 0]),
        // Half of the nodes hold it, so half of it counts.
        (&[&[("app:1", 2000)], &[]], &["app:1"], &[100, 0]),
        (&[&[("app:1", 1000)], &[]], &["app:1"], &[48, 0]),
        // All hold it: it counts in full, for all.
        (&[&[("app:1", 511)], &[("app:1", 511)]], &["app:1"], &[49, 49]),
        // Below the threshold.
        (&[&[("app:1", 40)], &[]], &["app:1"], &[0, 0]),
        // Each container raises the upper threshold: 100 x (250 + 500 - 23) / 1977.
        (&[&[("app:1", 500), ("side:1", 1000)], &[("app:2", 500)]], &["app:1", "side:1"], &[36, 0]),
        // The same image in two containers counts twice: 100 x (500 - 23) / 1977.
        (&[&[("app:1", 500)], &[]], &["app:1", "app:1"], &[24, 0]),
        // Names without a tag mean the latest.
        (&[&[("app:latest", 1000)], &[]], &["app"], &[48, 0]),
        (&[&[("app:1", 1000)], &[]], &["app"], &[0, 0]),
        // Nodes that state another size count with the greatest.
        (&[&[("app:1", 400)], &[("app:1", 511)]], &["app:1"], &[49, 49]),
    ];
    for (nodes, images, want) in cases {
        let mut world = World::new(1);
        let names: Vec<String> = ('a'..).map(String::from).take(nodes.len()).collect();
        for (name, images) in names.iter().zip(*nodes) {
            world.put(Kind::NODE, holding(name, images));
        }
        let key = world.put(Kind::POD, running("p", images));
        let want: Vec<_> = names.into_iter().zip(want.iter().copied()).collect();
        assert_eq!(points(&mut world, &key), want, "{nodes:?} {images:?}");
    }
}

#[test]
fn a_pod_goes_where_its_image_is_and_elsewhere_once_it_is_elsewhere() {
    // SCH-02
    let mut world = World::new(1);
    for name in ["a", "b", "c"] {
        world.put(Kind::NODE, node(name, "4", "4Gi"));
    }
    let first = world.put(Kind::POD, running("first", &["app:1"]));
    world.settle();
    assert!(world.node_of(&first).is_some(), "nothing is known of images, and the pod is placed");
    world.put(Kind::NODE, holding("b", &[("app:1", 3000)]));
    for name in ["second", "third"] {
        let key = world.put(Kind::POD, running(name, &["app:1"]));
        world.settle();
        assert_eq!(world.node_of(&key).as_deref(), Some("b"), "{name}");
    }
    world.put(Kind::NODE, node("b", "4", "4Gi"));
    world.put(Kind::NODE, holding("c", &[("app:1", 3000)]));
    let fourth = world.put(Kind::POD, running("fourth", &["app:1"]));
    world.settle();
    assert_eq!(world.node_of(&fourth).as_deref(), Some("c"));
}

#[test]
fn what_is_kept_between_decisions_is_what_would_be_found_anew() {
    // SCH-02: one more node with an image changes the points of all that hold it, and so does one more node at all.
    let images: Vec<String> = (0..6).map(|index| format!("i{index}:1")).collect();
    for count in [1, 2, 6] {
        let mut world = World::new(3);
        for index in 0..4 {
            world.put(Kind::NODE, node(&format!("n{index}"), "64", "64Gi"));
        }
        let wanted: Vec<&str> = images.iter().take(count).map(String::as_str).collect();
        for step in 0_u64..24 {
            let name = format!("n{}", step * 7 % 8);
            let held: Vec<(&str, u64)> = (0..6)
                .filter(|image| (step + image) % 3 != 0)
                .map(|image| (images[usize::try_from(image).unwrap()].as_str(), 300 * (1 + (step + image) % 5)))
                .collect();
            let key = Key::new(Kind::NODE, "", &name);
            if step % 5 == 4 && world.view.get(&key).is_some() {
                world.delete(&key);
            } else {
                let mut value = holding(&name, &held);
                value["status"]["allocatable"] = json!({"cpu": "64", "memory": "64Gi", "pods": "110"});
                world.put(Kind::NODE, value);
            }
            let pod = world.put(Kind::POD, running(&format!("p{step}"), &wanted));
            // A scheduler that has seen nothing before decides the same.
            let mut fresh = World::new(3);
            for object in world.view.list(Kind::NODE, None).chain(world.view.list(Kind::POD, None)) {
                fresh.put(object.key.kind, object.value());
            }
            world.settle();
            fresh.settle();
            assert_eq!(world.node_of(&pod), fresh.node_of(&pod), "{count} images, step {step}");
        }
    }
}

#[test]
fn images_that_make_no_sense_count_for_nothing() {
    let mut world = World::new(1);
    let odd = [
        json!("text"),
        json!([1, null, {}, {"names": "app:1", "sizeBytes": 1}, {"names": [null, 3], "sizeBytes": 1}]),
        json!([{"names": ["app:1"], "sizeBytes": -5}]),
        json!([{"names": ["app:1"], "sizeBytes": "900000000"}]),
        json!([{"names": ["app:1"]}]),
        json!({"names": ["app:1"]}),
    ];
    for (index, images) in odd.into_iter().enumerate() {
        let mut value = node(&format!("n{index}"), "4", "4Gi");
        value["status"]["images"] = images;
        world.put(Kind::NODE, value);
    }
    let key = world.put(Kind::POD, running("p", &["app:1"]));
    assert!(points(&mut world, &key).iter().all(|(_, points)| *points == 0));
    let mut huge = node("huge", "4", "4Gi");
    huge["status"]["images"] = json!([{"names": ["app:1", "app:1"], "sizeBytes": i64::MAX}]);
    world.put(Kind::NODE, huge);
    let most: Vec<_> = points(&mut world, &key).into_iter().filter(|(_, points)| *points == 100).collect();
    assert_eq!(most.len(), 4, "the nodes that state a name of it: {most:?}");
}
