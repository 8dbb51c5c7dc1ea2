//! POD-09 over TLS, against a registry that nobody here wrote.

use coracle_tests::cluster::{BrokerKind, Cluster, More};
use coracle_tests::programs::{built, fail, succeed};
use std::process::Command;

use crate::certificates::{Authority, self_signed};
use crate::registry::{Registry, USER, guest};
use crate::{cannot_pull, has_succeeded, pod};

const CNCF: &str = "application/wasm";
/// As the registry's own address and name.
const HERE: [&str; 2] = ["127.0.0.1", "localhost"];

#[test]
fn a_private_authority_is_trusted_once_it_is_named_and_a_secret_opens_its_registry() {
    // POD-09
    let mut authority = None;
    let mut own = None;
    let cluster = Cluster::start_with(BrokerKind::Embedded, 1, |dir| {
        let found = Authority::found(dir, "harbour");
        let alone = self_signed(&dir.join("certificates"), &HERE);
        let files = [&found.certificate, &alone.certificate];
        let arguments =
            files.iter().flat_map(|file| ["--registry-ca".to_owned(), file.display().to_string()]).collect();
        (authority, own) = (Some(found), Some(alone));
        More { arguments, ..More::default() }
    });
    let (authority, own) = (authority.expect("it was founded"), own.expect("it was made"));
    let locked = Registry::start_secure(&cluster.dir().join("registries/locked"), true, &authority.issue(&HERE));
    let alone = Registry::start_secure(&cluster.dir().join("registries/open"), false, &own);
    let digest = locked.push(&guest("job-1.wasm"), CNCF, "private/job:1", None);
    alone.push(&guest("job-1.wasm"), CNCF, "job:1", None);

    cluster.apply("without", &pod("without", &format!("{}/private/job:1", locked.address), "Always", ""));
    let _refused = cluster.wait_for_pod("without", "is refused", |pod| cannot_pull(pod, &["unauthorized"]));
    let server = format!("--docker-server={}", locked.by_name());
    let (user, password) = (format!("--docker-username={}", USER.0), format!("--docker-password={}", USER.1));
    let words = ["create", "secret", "docker-registry", "harbour", &server, &user, &password];
    let _made = succeed(&mut cluster.kubectl(&words));
    let secret = "  imagePullSecrets: [{name: harbour}]\n";
    let by_digest = format!("{}/private/job@{digest}", locked.by_name());
    cluster.apply("tag", &pod("tag", &format!("{}/private/job:1", locked.by_name()), "Always", secret));
    cluster.apply("digest", &pod("digest", &by_digest, "IfNotPresent", secret));
    cluster.apply("alone", &pod("alone", &format!("{}/job:1", alone.address), "IfNotPresent", ""));
    for name in ["tag", "digest", "alone"] {
        let _pod = cluster.wait_for_pod(name, "has succeeded", has_succeeded);
    }
    assert!(!cluster.controller.output().contains(USER.1));
}

#[test]
fn a_registry_that_is_not_who_it_says_is_named_with_what_is_wrong() {
    // POD-09
    let mut authority = None;
    // The system's own certificates are another file here, and a directory that is empty.
    let cluster = Cluster::start_with(BrokerKind::Embedded, 1, |dir| {
        let found = Authority::found(dir, "system");
        let environment = vec![
            ("SSL_CERT_FILE", found.certificate.display().to_string()),
            ("SSL_CERT_DIR", dir.join("none").display().to_string()),
        ];
        authority = Some(found);
        More { environment, ..More::default() }
    });
    let authority = authority.expect("it was founded");
    let stranger = Authority::found(cluster.dir(), "stranger");
    let registries: Vec<_> = [
        ("good", authority.issue(&HERE), None),
        ("expired", authority.issue_expired(&HERE), Some("is not trusted: its certificate expired on 2020-12-31")),
        ("other", authority.issue(&["harbour.example.com"]), Some("is for harbour.example.com, and not for 127.0.0.1")),
        ("unknown", stranger.issue(&HERE), Some("signed by nobody whom this controller trusts (--registry-ca")),
        ("alone", self_signed(&cluster.dir().join("certificates"), &HERE), Some("its certificate")),
    ]
    .into_iter()
    .map(|(name, pair, wrong)| {
        let registry = Registry::start_secure(&cluster.dir().join("registries").join(name), false, &pair);
        registry.push(&guest("job-1.wasm"), CNCF, "job:1", None);
        cluster.apply(name, &pod(name, &format!("{}/job:1", registry.address), "IfNotPresent", ""));
        (name, wrong, registry)
    })
    .collect();
    for (name, wrong, _registry) in &registries {
        let _pod = match wrong {
            None => cluster.wait_for_pod(name, "has succeeded", has_succeeded),
            Some(words) => {
                cluster.wait_for_pod(name, "is not trusted", |pod| cannot_pull(pod, &["not trusted", words]))
            }
        };
    }
    let shown = succeed(&mut cluster.kubectl(&["describe", "pod", "expired"]));
    assert!(shown.contains("its certificate expired on 2020-12-31"), "{shown}");
}

#[test]
fn a_file_without_certificates_stops_the_start() {
    // POD-09
    let dir = tempfile::TempDir::new().expect("a directory");
    let file = dir.path().join("empty.pem");
    std::fs::write(&file, "nothing\n").expect("writable");
    let mut command = Command::new(built("coracle"));
    command.arg("controller").arg("--data-dir").arg(dir.path().join("controller"));
    let said = fail(command.args(["--api-listen", "127.0.0.1:0", "--registry-ca"]).arg(&file));
    assert!(said.contains("empty.pem") && said.contains("BEGIN CERTIFICATE"), "{said}");
    assert!(!dir.path().join("controller").exists());
}
