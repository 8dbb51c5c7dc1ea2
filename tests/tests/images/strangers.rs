//! POD-09 against registries that lie, stall and lead astray, and one that is Docker's in form: by name, over TLS, behind a
//! proxy that stands for the world outside.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use coracle_tests::cluster::{BrokerKind, Cluster, More};
use coracle_tests::programs::{Process, fail, root, succeed};

use crate::certificates::Authority;
use crate::registry::{Registry, USER, guest};
use crate::{cannot_pull, has_succeeded, pod};

/// Every name that leads to the stranger.
const NAMES: &[&str] =
    &["registry.example.com", "storage.example.com", "auth.docker.io", "registry-1.docker.io", "plain.example.com"];

/// A cluster whose controller reaches the world by a proxy, and what is behind that.
struct World {
    cluster: Cluster,
    stranger: Process,
    authority: Authority,
}

fn world(agents: usize) -> World {
    let mut behind = None;
    let cluster = Cluster::start_with(BrokerKind::Embedded, agents, |dir| {
        let authority = Authority::found(dir, "world");
        let pair = authority.issue(NAMES);
        let mut command = Command::new("python3");
        command.arg(root().join("tests/python/registry.py")).args([&pair.certificate, &pair.key]);
        let mut stranger = Process::start("stranger", command.arg(guest("job-1.wasm")), dir);
        let ready = stranger.said("ready ");
        let proxy = ready.split(' ').next_back().expect("two ports");
        let environment = vec![
            ("HTTPS_PROXY", format!("http://127.0.0.1:{proxy}")),
            ("NO_PROXY", String::new()),
            ("SSL_CERT_FILE", authority.certificate.display().to_string()),
        ];
        behind = Some((stranger, authority));
        More { arguments: Vec::new(), environment }
    });
    let (stranger, authority) = behind.expect("it was started");
    World { cluster, stranger, authority }
}

/// Makes a secret for Docker's registry, and gives the lines with which a pod names it.
fn hub(cluster: &Cluster) -> &'static str {
    let (user, password) = (format!("--docker-username={}", USER.0), format!("--docker-password={}", USER.1));
    // Without a server kubectl means Docker's own, by a name that is not its registry's.
    let words = ["create", "secret", "docker-registry", "hub", &user, &password];
    let _made = succeed(&mut cluster.kubectl(&words));
    "  imagePullSecrets: [{name: hub}]\n"
}

#[test]
fn dockers_registry_is_spoken_to_with_its_tokens_and_by_way_of_a_proxy() {
    // POD-09
    let World { cluster, stranger, authority } = world(1);
    let secret = hub(&cluster);
    cluster.apply("locked", &pod("locked", "docker.io/team/private:1", "Always", ""));
    let _locked = cluster.wait_for_pod("locked", "is refused", |pod| cannot_pull(pod, &["incorrect username"]));
    // A name of one part is below library/ there.
    cluster.apply("open", &pod("open", "docker.io/job:1", "Always", ""));
    cluster.apply("token", &pod("token", "docker.io/team/private:1", "Always", secret));
    cluster.apply("brief", &pod("brief", "docker.io/team/brief:1", "Always", secret));
    for name in ["open", "token", "brief"] {
        let _pod = cluster.wait_for_pod(name, "has succeeded", has_succeeded);
    }
    let said = stranger.output();
    for line in [
        "connect registry-1.docker.io:443",
        "connect auth.docker.io:443",
        "GET registry-1.docker.io /v2/library/job/manifests/1 -",
        "GET auth.docker.io /token Basic",
        "GET registry-1.docker.io /v2/team/private/manifests/1 Bearer",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}:\n{said}");
    }
    assert!(!said.contains("connect 127.0.0.1"), "the loopback is reached without a proxy:\n{said}");
    assert!(!said.lines().any(|line| line.contains("registry-1.docker.io") && line.ends_with("Basic")), "{said}");

    // And one that nobody here wrote, under a name and a port.
    let registry = Registry::start_secure(&cluster.dir().join("registries/named"), true, &authority.issue(NAMES));
    registry.push(&guest("job-1.wasm"), "application/wasm", "job:1", None);
    let named = registry.address.replace("127.0.0.1", "registry.example.com");
    let server = format!("--docker-server={named}");
    let (user, password) = (format!("--docker-username={}", USER.0), format!("--docker-password={}", USER.1));
    let words = ["create", "secret", "docker-registry", "named", &server, &user, &password];
    let _made = succeed(&mut cluster.kubectl(&words));
    let secret = "  imagePullSecrets: [{name: hub}, {name: named}]\n";
    cluster.apply("named", &pod("named", &format!("{named}/job:1"), "Always", secret));
    let _named = cluster.wait_for_pod("named", "has succeeded", has_succeeded);
}

#[test]
fn a_blob_at_another_host_is_fetched_without_the_password() {
    // POD-09
    let World { cluster, stranger, .. } = world(1);
    let secret = hub(&cluster);
    cluster.apply("moved", &pod("moved", "docker.io/team/moved:1", "IfNotPresent", secret));
    let _moved = cluster.wait_for_pod("moved", "has succeeded", has_succeeded);
    let said = stranger.output();
    let fetched: Vec<&str> = said.lines().filter(|line| line.contains("storage.example.com /storage/")).collect();
    assert!(!fetched.is_empty() && fetched.iter().all(|line| line.ends_with(" -")), "{said}");
    assert!(!cluster.controller.output().contains("hush"), "an address behind a redirect holds secrets");
}

#[test]
fn registries_that_lie_stall_or_lead_astray_are_told_apart_and_harm_nobody() {
    // POD-09
    let World { cluster, stranger, .. } = world(1);
    let open = Registry::start(cluster.dir(), false);
    let in_the_clear = format!("{}/job:1", open.address.replace("127.0.0.1", "plain.example.com"));
    cluster.apply("in-the-clear", &pod("in-the-clear", &in_the_clear, "IfNotPresent", ""));
    let before = cluster.controller.memory_kb();
    let most = AtomicU32::new(0);
    let strange = [
        ("another", "came with the digest"),
        ("endless", "that were expected"),
        ("large", "more than the 1048576 bytes that were expected"),
        ("circle", "too many redirects"),
        ("clear", "a redirect to plain HTTP"),
        ("inside", "a redirect to plain HTTP"),
        ("rude", "502 bad gateway"),
        ("mute", "it does not answer"),
    ];
    // First the one that holds a place for longest; the honest one after all others.
    for (name, _) in strange.iter().rev() {
        cluster.apply(name, &pod(name, &format!("registry.example.com/{name}:1"), "IfNotPresent", ""));
    }
    cluster.apply("honest", &pod("honest", "docker.io/team/honest:1", "IfNotPresent", ""));
    for (name, words) in strange {
        let pod = cluster.wait_for_pod(name, "says why it has no image", |pod| {
            let now = u32::try_from(cluster.controller.memory_kb()).unwrap_or(u32::MAX);
            most.fetch_max(now, Ordering::Relaxed);
            cannot_pull(pod, &[words])
        });
        let message = crate::waiting(&pod).1;
        assert!(!message.contains("hush") && !message.contains('\u{1b}') && message.len() < 600, "{message}");
    }
    let _clear = cluster.wait_for_pod("in-the-clear", "is told how", |pod| {
        cannot_pull(pod, &["it does not speak TLS (--insecure-registry plain.example.com:"])
    });
    let _honest = cluster.wait_for_pod("honest", "has succeeded", has_succeeded);
    let grown_mb = u64::from(most.into_inner()).saturating_sub(before) / 1024;
    assert!(grown_mb < 200, "the controller took {grown_mb} MB for registries that send without end");
    assert!(stranger.output().contains("hung up on endless") && stranger.output().contains("hung up on large"));
    let mut unheard = cluster.coracle(&["image", "pull", "registry.example.com:1/job:1"]);
    let unheard = fail(&mut unheard);
    assert!(unheard.contains("is unreachable") && unheard.contains("HTTPS_PROXY"), "{unheard}");
    // Neither the loopback nor a place in the clear was visited.
    assert!(!stranger.output().contains("connect 127.0.0.1") && !stranger.output().contains(":80\n"));
}
