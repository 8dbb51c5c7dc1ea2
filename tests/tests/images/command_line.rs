//! `coracle image`: what is shown, and what is refused.

use std::process::Command;

use coracle_tests::cluster::{BrokerKind, Cluster};
use coracle_tests::programs::{fail, run, succeed};

use crate::registry::{Registry, guest, layout_of};
use crate::{has_succeeded, pod, wasm};

#[test]
fn images_are_pushed_from_layouts_shown_and_removed() {
    // EDGE-02
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    let image = |words: &[&str]| succeed(cluster.coracle(&["image"]).args(words));
    let layout = cluster.dir().join("layout");
    layout_of(&layout, &guest("job-1.wasm"), "application/wasm", None);
    let archive = cluster.dir().join("layout.tar");
    let _packed = succeed(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&layout).arg("."));
    let pushed = image(&["push", &layout.display().to_string(), "team/job:1"]);
    assert!(pushed.contains("module, ") && pushed.contains("wasi:cli/"), "{pushed}");
    assert!(pushed.contains("of 1 connected nodes"), "{pushed}");
    let again = image(&["push", &archive.display().to_string(), "team/job:2"]);
    let digest = |text: &str| text.split_whitespace().find(|word| word.starts_with("sha256:")).map(ToOwned::to_owned);
    assert_eq!(digest(&pushed), digest(&again));

    cluster.apply("job", &pod("job", "team/job:1", "IfNotPresent", ""));
    let _job = cluster.wait_for_pod("job", "has succeeded", has_succeeded);
    let shown = image(&["inspect", "team/job:2"]);
    for text in ["team/job:1", "team/job:2", "Form:    module", "wasi:cli/run@", "last used 2", "-linux-gnu"] {
        assert!(shown.contains(text), "{text} in {shown}");
    }
    let sensor = image(&["push", &guest("sensor-1.wasm").display().to_string(), "team/sensor:1"]);
    assert!(sensor.contains("component, ") && sensor.contains("1 of 1 connected nodes offer"), "{sensor}");
    let listed = image(&["list"]);
    assert!(["team/job:1", "team/job:2", "team/sensor:1", "samples/hello:1"].iter().all(|name| listed.contains(name)));

    cluster.apply("sensor", &pod("sensor", "team/sensor:1", "IfNotPresent", ""));
    let refused = fail(&mut cluster.coracle(&["image", "rm", "team/sensor:1"]));
    assert!(refused.contains("default/sensor") && refused.contains("--force"), "{refused}");
    let forced = image(&["rm", "--force", "team/sensor:1"]);
    assert!(forced.contains("removed"), "{forced}");
    assert!(image(&["rm", "team/job:1"]).contains("its image stays"));
    assert!(image(&["rm", "team/job:2"]).contains("and its image"));
    for words in [["inspect", "team/job:1"], ["rm", "team/job:1"], ["rm", "samples/hello:1"]] {
        let refused = fail(cluster.coracle(&["image"]).args(words));
        assert!(refused.contains("no image") || refused.contains("built into"), "{refused}");
    }
}

#[test]
fn an_image_is_pulled_at_once_by_whoever_asks_for_it() {
    // POD-09
    let cluster = Cluster::start(BrokerKind::Embedded, 0);
    let registry = Registry::start(cluster.dir(), false);
    registry.push(&guest("job-1.wasm"), "application/wasm", "job:1", None);
    let name = format!("{}/job:1", registry.address);
    let pulled = run(&mut cluster.coracle(&["image", "pull", &name]));
    let (out, progress) = (String::from_utf8_lossy(&pulled.stdout), String::from_utf8_lossy(&pulled.stderr));
    assert!(pulled.status.success() && out.contains("sha256:"), "{out}{progress}");
    // There is no terminal here: one line, and no bar.
    assert_eq!(progress.lines().count(), 1, "{progress}");
    assert!(succeed(&mut cluster.coracle(&["image", "list"])).contains(&name));
    assert!(succeed(&mut cluster.coracle(&["image", "inspect", &name])).contains("manifest sha256:"));
    for (name, text) in [
        (format!("{}/job:2", registry.address), "not found"),
        ("job:1".to_owned(), "no registry"),
        ("127.0.0.1:1/job:1".to_owned(), "unreachable"),
    ] {
        let refused = fail(&mut cluster.coracle(&["image", "pull", &name]));
        assert!(refused.contains(text), "{text} in {refused}");
    }
}

#[test]
fn what_no_node_offers_is_said_at_the_push_and_in_the_pod() {
    // EDGE-02
    let cluster = Cluster::start(BrokerKind::Embedded, 1);
    let file = cluster.dir().join("gpio.wasm");
    std::fs::write(&file, wasm::component_that_imports("acme:gpio/pins@1.0.0")).expect("writable");
    let pushed = succeed(&mut cluster.coracle(&["image", "push", &file.display().to_string(), "team/gpio:1"]));
    assert!(pushed.contains("  acme:gpio/pins@1.0.0\n") && pushed.contains("0 of 1 connected nodes offer"), "{pushed}");
    cluster.apply("gpio", &pod("gpio", "team/gpio:1", "IfNotPresent", ""));
    let _gpio = cluster.wait_for_pod("gpio", "is refused", |pod| {
        crate::cannot_pull(pod, &["it imports acme:gpio/pins@1.0.0, which no node of this cluster offers"])
    });
    std::fs::write(&file, b"\0asm\x0d\0\x01\0\x07\x01").expect("writable");
    let refused = fail(&mut cluster.coracle(&["image", "push", &file.display().to_string(), "team/gpio:2"]));
    assert!(refused.contains("not valid WebAssembly"), "{refused}");
}

#[test]
fn a_bar_moves_on_a_terminal_and_what_is_too_large_is_said_before_it_is_sent() {
    // EDGE-02
    let cluster = Cluster::start(BrokerKind::Embedded, 0);
    let registry = Registry::start(cluster.dir(), false);
    registry.push(&guest("job-1.wasm"), "application/wasm", "job:1", None);
    let guest = guest("job-1.wasm").display().to_string();
    let name = format!("{}/job:1", registry.address);
    for words in [["push", &guest, "team/job:1"].as_slice(), &["pull", &name]] {
        let line = format!("{:?} image {}", cluster.coracle(&[]).get_program(), words.join(" "));
        let mut terminal = Command::new("script");
        terminal.args(["-qec", &line, "/dev/null"]).env("KUBECONFIG", cluster.kubeconfig()).env("TERM", "xterm");
        let shown = succeed(&mut terminal);
        assert!(shown.contains("=>") || shown.contains("[==="), "{shown:?}");
        assert!(shown.contains("KiB/"), "{shown:?}");
        assert!(!shown.contains("/0 B") && shown.contains("sha256:"), "{shown:?}");
    }
    let large = cluster.write("large.wasm", "");
    std::fs::File::options().write(true).open(&large).and_then(|file| file.set_len(33 << 20)).expect("a file");
    let refused = fail(cluster.coracle(&["image", "push"]).arg(&large).arg("team/large:1"));
    assert!(refused.contains("it has 33.00 MiB, and an image may have 32.00 MiB"), "{refused}");
}
