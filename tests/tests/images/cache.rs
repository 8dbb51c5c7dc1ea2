//! The machine code that a controller keeps: how much of it, and which.

use std::fs;

use coracle_tests::cluster::{BrokerKind, Cluster};
use coracle_tests::programs::succeed;

use crate::registry::guest;
use crate::{has_succeeded, pod};

#[test]
fn machine_code_beyond_the_bound_goes_by_its_last_use_and_is_made_again_when_it_is_wanted() {
    // EDGE-02
    let mut cluster = Cluster::start(BrokerKind::Embedded, 2);
    let images = ["trap", "job-1", "misbehave"].map(|name| (name, format!("kept/{name}:1")));
    for (name, image) in &images {
        let file = guest(&format!("{name}.wasm")).display().to_string();
        let _pushed = succeed(&mut cluster.coracle(&["image", "push", &file, image]));
        run(&cluster, &format!("{name}-first"), image, 1);
    }
    // The oldest is used once more, on a node that has it not.
    run(&cluster, "trap-again", &images[0].1, 2);
    let made = |cluster: &Cluster| {
        let kept = images
            .iter()
            .filter(|(_, image)| succeed(&mut cluster.coracle(&["image", "inspect", image])).contains("-linux-gnu"));
        kept.map(|(name, _)| *name).collect::<Vec<_>>()
    };
    assert_eq!(made(&cluster), ["trap", "job-1", "misbehave"]);

    let files = fs::read_dir(cluster.dir().join("controller/images/artifacts")).expect("a directory");
    let sizes = files.filter_map(|file| {
        let file = file.expect("an entry");
        file.path().extension().is_some_and(|kind| kind == "cwasm").then(|| file.metadata().expect("facts").len())
    });
    let bound = sizes.sum::<u64>() - 1;
    cluster.more.arguments = vec!["--image-cache-bytes".to_owned(), bound.to_string()];
    cluster.controller.terminate();
    assert_eq!(cluster.controller.ended(), 0);
    cluster.start_controller_again();
    assert_eq!(made(&cluster), ["trap", "misbehave"], "one had to go, and another one was used less lately");

    // Its image is here, so it is made again; and something else goes for it.
    cluster.wait_for_nodes(2);
    run(&cluster, "job-again", &images[1].1, 2);
    let kept = made(&cluster);
    assert!(kept.contains(&"job-1") && kept.len() == 2, "{kept:?}");
}

/// Runs an image on a node to its end, whichever that is.
fn run(cluster: &Cluster, name: &str, image: &str, node: usize) {
    cluster.apply(name, &pod(name, image, "IfNotPresent", &format!("  nodeName: node-{node}\n")));
    let _ended =
        cluster.wait_for_pod(name, "has ended", |pod| has_succeeded(pod) || pod["status"]["phase"] == "Failed");
}
