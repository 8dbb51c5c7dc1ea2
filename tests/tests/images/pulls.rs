//! POD-09 against a registry that nobody here wrote.

use coracle_tests::cluster::{BrokerKind, Cluster};
use coracle_tests::programs::succeed;
use coracle_tests::wait;

use crate::registry::{Registry, USER, guest};
use crate::{cannot_pull, has_succeeded, pod};

const CNCF: &str = "application/wasm";
const FORMER: &str = "application/vnd.wasm.content.layer.v1+wasm";
const ARCHIVE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

#[test]
fn images_of_a_registry_run_in_every_form_and_outlive_it() {
    // POD-09, EDGE-02
    let mut cluster = Cluster::start(BrokerKind::Embedded, 2);
    let mut registry = Registry::start(cluster.dir(), false);
    let job = guest("job-1.wasm");
    let digest = registry.push(&job, CNCF, "team/job:cncf", None);
    registry.push(&job, FORMER, "team/job:former", None);
    registry.push(&job, ARCHIVE, "team/job:archive", None);
    registry.push(&guest("hello-1.wasm"), CNCF, "team/job:index", Some("wasip2/wasm"));
    registry.push(&job, "application/octet-stream", "team/job:other", None);
    let image = |tag: &str| format!("{}/team/job{tag}", registry.address);
    let by_digest = format!("@{digest}");
    let tags = [("cncf", ":cncf"), ("digest", by_digest.as_str()), ("former", ":former"), ("archive", ":archive")];
    for (name, tag) in tags {
        cluster.apply(name, &pod(name, &image(tag), "IfNotPresent", "  nodeName: node-1\n"));
    }
    cluster.apply("index", &pod("index", &image(":index"), "IfNotPresent", ""));
    cluster.apply("other", &pod("other", &image(":other"), "IfNotPresent", ""));
    cluster.apply("missing", &pod("missing", &image(":missing"), "IfNotPresent", ""));
    let mut ids = Vec::new();
    for (name, _) in tags {
        let pod = cluster.wait_for_pod(name, "has succeeded", has_succeeded);
        ids.push(pod["status"]["containerStatuses"][0]["imageID"].clone());
    }
    // However it was packed, it is the same file.
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let _index = cluster.wait_for_pod("index", "runs", |pod| pod["status"]["phase"] == "Running");
    let _other = cluster
        .wait_for_pod("other", "holds no WebAssembly", |pod| cannot_pull(pod, &["no WebAssembly", "octet-stream"]));
    let missing = cluster.wait_for_pod("missing", "is not found", |pod| cannot_pull(pod, &["not found", "manifest"]));
    assert!(missing["status"]["phase"] == "Pending", "{missing}");
    let _missing = cluster.wait_for_pod("missing", "backs off", |pod| crate::waiting(pod).0 == "ImagePullBackOff");

    registry.process.kill();
    // Another node has it from the controller, also after that was started anew.
    cluster.kill_and_restart_controller();
    cluster.apply("again", &pod("again", &image(":cncf"), "IfNotPresent", "  nodeName: node-2\n"));
    cluster.apply("again-digest", &pod("again-digest", &image(&by_digest), "IfNotPresent", "  nodeName: node-2\n"));
    cluster.apply("always", &pod("always", &image(":cncf"), "Always", "  nodeName: node-2\n"));
    for name in ["again", "again-digest"] {
        let _pod = cluster.wait_for_pod(name, "has succeeded", has_succeeded);
    }
    let _always = cluster.wait_for_pod("always", "asks the registry", |pod| cannot_pull(pod, &["unreachable"]));
}

#[test]
fn a_locked_registry_opens_to_the_secret_of_the_pod() {
    // POD-09
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    let registry = Registry::start(cluster.dir(), true);
    registry.push(&guest("job-1.wasm"), CNCF, "private/job:1", None);
    let image = format!("{}/private/job:1", registry.address);
    cluster.apply("without", &pod("without", &image, "IfNotPresent", ""));
    let refused = cluster.wait_for_pod("without", "is refused", |pod| cannot_pull(pod, &["unauthorized"]));
    assert!(!refused.to_string().contains(USER.1));
    let create = |name: &str, password: &str| {
        let server = format!("--docker-server={}", registry.address);
        let user = format!("--docker-username={}", USER.0);
        let password = format!("--docker-password={password}");
        let words = ["create", "secret", "docker-registry", name, &server, &user, &password];
        let _made = succeed(&mut cluster.kubectl(&words));
    };
    create("wrong", "close sesame");
    create("right", USER.1);
    cluster.apply("wrong", &pod("wrong", &image, "Always", "  imagePullSecrets: [{name: wrong}, {name: missing}]\n"));
    let wrong = cluster.wait_for_pod("wrong", "is refused", |pod| cannot_pull(pod, &["unauthorized"]));
    assert!(!wrong.to_string().contains("close sesame"));
    let _gone = succeed(&mut cluster.kubectl(&["delete", "pod", "wrong", "without"]));
    let both = "  imagePullSecrets: [{name: wrong}, {name: right}]\n";
    cluster.apply("right", &pod("right", &image, "Always", both));
    let _right = cluster.wait_for_pod("right", "has succeeded", has_succeeded);
    for secret in [USER.1, "close sesame"] {
        assert!(!cluster.controller.output().contains(secret) && !cluster.agents[0].output().contains(secret));
    }
}

#[test]
fn a_tag_that_moved_is_followed_by_who_always_asks_and_by_nobody_else() {
    // POD-09
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    let registry = Registry::start(cluster.dir(), false);
    let image = format!("{}/moving:1", registry.address);
    let run = |name: &str, policy: &str| {
        cluster.apply(name, &pod(name, &image, policy, ""));
        let pod = cluster.wait_for_pod(name, "has an image", |pod| {
            pod["status"]["containerStatuses"][0]["imageID"].as_str().is_some_and(|id| id.contains("sha256"))
        });
        pod["status"]["containerStatuses"][0]["imageID"].to_string()
    };
    registry.push(&guest("job-1.wasm"), CNCF, "moving:1", None);
    let first = run("first", "Always");
    assert_eq!(run("second", "Always"), first);
    registry.push(&guest("trap.wasm"), "application/vnd.module.wasm.content.layer.v1+wasm", "moving:1", None);
    assert_eq!(run("third", "IfNotPresent"), first);
    assert_ne!(run("fourth", "Always"), first);
    // The image that lost its name goes once no pod that lives on has run it.
    let first_blob = first.trim_matches('"').trim_start_matches("sha256:").to_owned();
    let blob = cluster.dir().join("controller/images/blobs/sha256").join(first_blob);
    wait::until("the first image is gone", || if blob.exists() { Err(format!("{blob:?}")) } else { Ok(()) });
}
