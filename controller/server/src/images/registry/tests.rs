//! Against a small registry that keeps what it was asked, with one user and one password.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;

use super::*;

const WASM: &[u8] = b"\0asm\x0d\0\x01\0 and so on";

/// How a registry wants to be spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Open,
    Basic,
    Bearer,
    /// Like the one before, and its tokens are given out over plain HTTP on another host.
    Elsewhere,
}

struct House {
    door: Door,
    paths: BTreeMap<String, Vec<u8>>,
    asked: Mutex<Vec<String>>,
}

impl House {
    /// An image `app:1`, and the address of the registry that has it.
    async fn open(door: Door, change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) -> (Arc<Self>, String) {
        let layer = digest_of(WASM);
        let descriptor = json!({"mediaType": "application/wasm", "digest": layer.to_string(), "size": WASM.len()});
        let manifest = json!({"schemaVersion": 2, "layers": [descriptor]}).to_string().into_bytes();
        let mut paths = BTreeMap::from([
            (format!("/v2/app/manifests/{}", digest_of(&manifest)), manifest.clone()),
            ("/v2/app/manifests/1".to_owned(), manifest),
            (format!("/v2/app/blobs/{layer}"), WASM.to_vec()),
        ]);
        change(&mut paths);
        let house = Arc::new(Self { door, paths, asked: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback has a port");
        let address = listener.local_addr().expect("it has an address").to_string();
        let router = Router::new().fallback(answer).with_state((Arc::clone(&house), address.clone()));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (house, address)
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock())
    }
}

fn status(code: u16, body: impl Into<Body>) -> Response {
    Response::builder().status(code).body(body.into()).expect("a response")
}

async fn answer(State((house, address)): State<(Arc<House>, String)>, request: Request) -> Response {
    let (path, method) = (request.uri().path().to_owned(), request.method().to_string());
    let shown = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    house.asked.lock().push(format!("{method} {path}"));
    let basic = format!("Basic {}", STANDARD.encode("u:p"));
    if path == "/token" {
        let query = request.uri().query().unwrap_or_default();
        assert!(query.contains("scope=repository%3Aapp%3Apull"), "{query}");
        return if shown == basic { status(200, r#"{"token": "t"}"#) } else { status(401, "{}") };
    }
    let (wants, challenge) = match house.door {
        Door::Open => (String::new(), String::new()),
        Door::Basic => (basic, "Basic realm=\"r\"".to_owned()),
        Door::Bearer => ("Bearer t".to_owned(), format!("Bearer realm=\"http://{address}/token\",service=\"s\"")),
        Door::Elsewhere => ("Bearer t".to_owned(), "Bearer realm=\"http://elsewhere.example.com/token\"".to_owned()),
    };
    if shown != wants {
        let words = json!({"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]});
        let mut response = status(401, words.to_string());
        response.headers_mut().insert("www-authenticate", challenge.parse().expect("a header"));
        return response;
    }
    let words = json!({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]});
    let Some(bytes) = house.paths.get(&path).cloned() else { return status(404, words.to_string()) };
    if let Some(location) = bytes.strip_prefix(b"-> ") {
        let mut response = status(307, Body::empty());
        let location = String::from_utf8_lossy(location).replace("ADDRESS", &address);
        response.headers_mut().insert("location", location.parse().expect("a header"));
        return response;
    }
    let digest = digest_of(&bytes);
    let mut response = status(200, if method == "HEAD" { Body::empty() } else { bytes.into() });
    response.headers_mut().insert("docker-content-digest", digest.to_string().parse().expect("a header"));
    response
}

async fn pull(name: &str, credentials: &[Credential], has: bool) -> Result<Found, PullError> {
    let name: ImageName = name.parse().unwrap_or_else(|error| panic!("{error}"));
    let (progress, _) = watch::channel((0, 0));
    Registries::new(BTreeSet::new(), Authorities::default()).pull(&name, credentials, |_| has, &progress).await
}

// POD-09
#[tokio::test]
async fn an_image_is_pulled_by_tag_and_by_digest_and_only_once() {
    let (house, address) = House::open(Door::Open, |_| {}).await;
    let found = pull(&format!("{address}/app:1"), &[], false).await.expect("it is there");
    assert_eq!(found.wasm.as_deref(), Some(WASM));
    assert_eq!(house.asked().len(), 3);
    let by_digest = pull(&format!("{address}/app@{}", found.manifest), &[], false).await.expect("it is there");
    assert_eq!((by_digest.manifest, by_digest.wasm.as_deref()), (found.manifest, Some(WASM)));
    house.asked();
    let known = pull(&format!("{address}/app:1"), &[], true).await.expect("it is there");
    assert_eq!((known.manifest, known.wasm), (found.manifest, None));
    assert_eq!(house.asked(), ["HEAD /v2/app/manifests/1"]);
}

// POD-09
#[tokio::test]
async fn credentials_are_tried_one_after_another_and_then_none() {
    for door in [Door::Basic, Door::Bearer] {
        let (_house, address) = House::open(door, |_| {}).await;
        let (wrong, right) = (Credential::basic("u", "hush"), Credential::basic("u", "p"));
        let found = pull(&format!("{address}/app:1"), &[wrong.clone(), right.clone()], false).await;
        assert_eq!(found.expect("it is there").wasm.as_deref(), Some(WASM), "{door:?}");
        let refused = pull(&format!("{address}/app:1"), &[wrong], false).await.expect_err("wrong").to_string();
        assert!(refused.starts_with("unauthorized") && !refused.contains("hush"), "{door:?}: {refused}");
        let missing = pull(&format!("{address}/app:2"), &[right], false).await.expect_err("missing").to_string();
        assert_eq!(missing, "not found: manifest unknown");
    }
}

// POD-09
#[tokio::test]
async fn a_password_is_not_sent_where_it_could_be_read() {
    let (_house, address) = House::open(Door::Elsewhere, |_| {}).await;
    let refused = pull(&format!("{address}/app:1"), &[Credential::basic("u", "p")], false).await;
    let refused = refused.expect_err("it is not asked").to_string();
    assert!(refused.contains("plain HTTP"), "{refused}");
}

#[tokio::test]
async fn a_blob_may_be_elsewhere_but_not_without_end_nor_in_the_clear() {
    let blob = format!("/v2/app/blobs/{}", digest_of(WASM));
    for (target, taken) in [
        ("-> http://ADDRESS/storage".to_owned(), true),
        (format!("-> http://ADDRESS{blob}"), false),
        ("-> http://elsewhere.example.com/storage?signature=hush".to_owned(), false),
    ] {
        let (_house, address) = House::open(Door::Open, |paths| {
            paths.insert("/storage".to_owned(), WASM.to_vec());
            paths.insert(blob.clone(), target.clone().into_bytes());
        })
        .await;
        let pulled = pull(&format!("{address}/app:1"), &[], false).await;
        assert_eq!(pulled.is_ok(), taken, "{target}: {pulled:?}");
        assert!(!format!("{pulled:?}").contains("hush"));
    }
}

// POD-09
#[tokio::test]
async fn what_is_not_what_it_should_be_is_refused() {
    let blob = format!("/v2/app/blobs/{}", digest_of(WASM));
    for (bytes, word) in [
        (b"\0asm\x0d\0\x01\0 and so oN".to_vec(), "digest"),
        (vec![0; WASM.len() + 1], "expected"),
        (Vec::new(), "digest"),
    ] {
        let (_house, address) = House::open(Door::Open, |paths| _ = paths.insert(blob.clone(), bytes)).await;
        let error = pull(&format!("{address}/app:1"), &[], false).await.expect_err("it is refused").to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
    let (_house, address) = House::open(Door::Open, |paths| {
        paths.insert(format!("/v2/app/manifests/{}", Digest([1; 32])), b"{}".to_vec());
        paths.insert("/v2/app/manifests/large".to_owned(), vec![b' '; MAX_MANIFEST_BYTES as usize + 1]);
    })
    .await;
    let other = pull(&format!("{address}/app@{}", Digest([1; 32])), &[], false).await.expect_err("other").to_string();
    assert!(other.contains("digest"), "{other}");
    let large = pull(&format!("{address}/app:large"), &[], false).await.expect_err("large").to_string();
    assert!(large.contains("expected"), "{large}");
}

// POD-09
#[tokio::test]
async fn a_registry_that_is_not_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback has a port");
    let address = listener.local_addr().expect("it has an address");
    drop(listener);
    let error = pull(&format!("{address}/app:1"), &[], false).await.expect_err("nobody").to_string();
    assert!(error.contains(&format!("the registry {address} is unreachable")), "{error}");
}
