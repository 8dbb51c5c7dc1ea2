//! Pulls against a disk that was tampered with (EDGE-02).

use std::fs;
use std::path::Path;

use coracle_engine::Statement;
use ed25519_dalek::SigningKey;

use super::*;

const NAME: &str = "samples/hello:1";

fn key() -> SigningKey {
    SigningKey::from_bytes(&[5; 32])
}

fn public() -> [u8; 32] {
    key().verifying_key().to_bytes()
}

fn digest(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// Three blocks, the last of them short.
fn code(seed: u8) -> Vec<u8> {
    (0..2 * BLOCK_BYTES + 100).map(|index| (index % 251) as u8 ^ seed).collect()
}

fn signed(code: &[u8], change: impl FnOnce(&mut Statement)) -> ArtifactManifest {
    let mut said = Statement {
        image: digest(b"image"),
        artifact: digest(code),
        size: code.len() as u64,
        target: coracle_engine::host_target().to_owned(),
        engine: coracle_engine::fingerprint(),
    };
    change(&mut said);
    let signature = said.sign(&key()).to_vec();
    let Statement { image, artifact, size, target, engine } = said;
    let blocks = code.chunks(BLOCK_BYTES).map(digest).collect();
    ArtifactManifest { image, artifact, size, target, engine, blocks, signature }
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"))
}

fn open(path: &Path) -> Artifacts {
    Artifacts::open(path).unwrap_or_else(|error| panic!("{error}"))
}

fn write(cache: &Artifacts, manifest: &ArtifactManifest, code: &[u8], blocks: &[u32]) {
    for index in blocks {
        let at = *index as usize * BLOCK_BYTES;
        let end = code.len().min(at + BLOCK_BYTES);
        cache.write_block(manifest.artifact, *index, &code[at..end]).unwrap_or_else(|error| panic!("{error}"));
    }
}

fn pull(cache: &mut Artifacts, name: &str, manifest: &ArtifactManifest, code: &[u8]) -> Result<(), ArtifactError> {
    let begun = cache.begin(name, manifest.clone(), Some(&public()))?;
    if begun.complete {
        return Ok(());
    }
    write(cache, manifest, code, &[0, 1, 2]);
    cache.finish(name, manifest.artifact, Some(&public()))
}

// EDGE-02
#[test]
fn an_artifact_is_found_by_its_name_after_a_pull_and_after_a_restart() {
    let directory = directory();
    let (code, mut cache) = (code(0), open(directory.path()));
    let manifest = signed(&code, |_| {});
    assert_eq!(cache.find(NAME, Some(&public())), None);
    pull(&mut cache, NAME, &manifest, &code).unwrap_or_else(|error| panic!("{error}"));
    for mut cache in [cache, open(directory.path())] {
        assert_eq!(cache.find(NAME, Some(&public())), Some(manifest.image));
        assert_eq!(cache.find("samples/hello:2", Some(&public())), None);
        assert_eq!(cache.find(NAME, None), None);
        let stored = cache.of_image(manifest.image).unwrap_or_else(|| panic!("it is stored"));
        assert!(stored.prove(&public()).is_ok());
    }
}

// EDGE-02
#[test]
fn another_clusters_artifact_is_refused_before_its_first_block() {
    let directory = directory();
    let (code, mut cache) = (code(0), open(directory.path()));
    let manifest = signed(&code, |_| {});
    let stranger = SigningKey::from_bytes(&[6; 32]).verifying_key().to_bytes();
    let refused = cache.begin(NAME, manifest.clone(), Some(&stranger));
    assert!(matches!(refused, Err(ArtifactError::Signature(SignatureError::Mismatch))));
    let unsigned = ArtifactManifest { signature: Vec::new(), ..manifest.clone() };
    let refused = cache.begin(NAME, unsigned, Some(&public()));
    assert!(matches!(refused, Err(ArtifactError::Signature(SignatureError::Length { found: 0 }))));
    assert!(matches!(cache.begin(NAME, manifest, None), Err(ArtifactError::NotPinned)));
}

// EDGE-02
#[test]
fn what_was_made_for_another_engine_or_target_is_refused_with_the_reason() {
    let directory = directory();
    let (code, mut cache) = (code(0), open(directory.path()));
    let mut reason = |manifest| cache.begin(NAME, manifest, Some(&public())).err().map(|error| error.to_string());
    let engine = reason(signed(&code, |said| said.engine = "47.0.0-1".into()));
    assert!(engine.is_some_and(|text| text.contains("47.0.0-1")));
    let target = reason(signed(&code, |said| said.target = "riscv64".into()));
    assert!(target.is_some_and(|text| text.contains("riscv64")));
    let size = reason(signed(&code, |said| said.size = u64::MAX));
    assert!(size.is_some_and(|text| text.contains("at most")));
    let blocks = reason(ArtifactManifest { blocks: Vec::new(), ..signed(&code, |_| {}) });
    assert_eq!(blocks.as_deref(), Some("its manifest is wrong: 0 blocks instead of 3"));
}

// EDGE-02
#[test]
fn a_tampered_block_is_refused() {
    let directory = directory();
    let (code, mut cache) = (code(0), open(directory.path()));
    let manifest = signed(&code, |_| {});
    assert!(cache.begin(NAME, manifest.clone(), Some(&public())).is_ok());
    let mut tampered = code[..BLOCK_BYTES].to_vec();
    tampered[7] ^= 1;
    assert!(matches!(cache.write_block(manifest.artifact, 0, &tampered), Err(ArtifactError::Manifest(_))));
    assert!(matches!(cache.write_block(manifest.artifact, 9, &code[..10]), Err(ArtifactError::Manifest(_))));
    assert!(matches!(cache.write_block(digest(b"other"), 0, &code[..10]), Err(ArtifactError::Unknown)));
}

// EDGE-02: images that differ only in what is not code.
#[test]
fn two_images_of_the_same_machine_code_share_it_and_both_are_found() {
    let directory = directory();
    let (code, mut cache) = (code(0), open(directory.path()));
    let first = signed(&code, |_| {});
    assert!(cache.begin(NAME, first.clone(), Some(&public())).is_ok());
    write(&cache, &first, &code, &[0, 1, 2]);
    assert!(cache.finish(NAME, first.artifact, Some(&public())).is_ok());
    let second = signed(&code, |said| said.image = digest(b"another"));
    assert_eq!((second.artifact, second.image == first.image), (first.artifact, false));
    let begun = cache.begin("other:1", second.clone(), Some(&public()));
    assert!(begun.is_ok_and(|begun| begun.complete));
    for image in [first.image, second.image] {
        let stored = cache.of_image(image).unwrap_or_else(|| panic!("{image} is here"));
        assert!(stored.prove(&public()).is_ok());
    }
    cache.sweep(|image| image == second.image);
    assert!(cache.of_image(second.image).is_some(), "it runs");
}

#[test]
fn an_interrupted_pull_goes_on_with_the_blocks_that_are_good() {
    let directory = directory();
    let code = code(0);
    let manifest = signed(&code, |_| {});
    let mut cache = open(directory.path());
    assert!(cache.begin(NAME, manifest.clone(), Some(&public())).is_ok_and(|begun| begun.have.is_empty()));
    write(&cache, &manifest, &code, &[0, 2]);
    drop(cache);
    let part = directory.path().join("partial").join(manifest.artifact.hex().as_str());
    let mut bytes = fs::read(&part).unwrap_or_default();
    bytes[3] ^= 1;
    fs::write(&part, bytes).unwrap_or_else(|error| panic!("{error}"));
    let mut cache = open(directory.path());
    let begun = cache.begin(NAME, manifest.clone(), Some(&public()));
    assert_eq!(begun.ok(), Some(Begun { complete: false, have: vec![2] }));
    write(&cache, &manifest, &code, &[0, 1]);
    assert!(cache.finish(NAME, manifest.artifact, Some(&public())).is_ok());
}

// EDGE-02
#[test]
fn a_pull_with_a_hole_is_not_kept() {
    let directory = directory();
    let (code, mut cache) = (code(0), open(directory.path()));
    let manifest = signed(&code, |_| {});
    assert!(cache.begin(NAME, manifest.clone(), Some(&public())).is_ok());
    write(&cache, &manifest, &code, &[0, 2]);
    let finished = cache.finish(NAME, manifest.artifact, Some(&public()));
    assert!(matches!(finished, Err(ArtifactError::Proof(ProofError::Digest { .. }))));
    assert_eq!(cache.find(NAME, Some(&public())), None);
}

// EDGE-02
#[test]
fn a_file_that_was_cut_or_changed_on_the_disk_is_never_proven() {
    let directory = directory();
    let (code, mut cache) = (code(0), open(directory.path()));
    let manifest = signed(&code, |_| {});
    pull(&mut cache, NAME, &manifest, &code).unwrap_or_else(|error| panic!("{error}"));
    let path = directory.path().join("artifacts").join(format!("{}.cwasm", manifest.artifact.hex()));
    let stored = cache.of_image(manifest.image).unwrap_or_else(|| panic!("it is stored"));
    let mut changed = code.clone();
    changed[9] ^= 1;
    fs::write(&path, changed).unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(stored.prove(&public()), Err(ProofError::Digest { .. })));
    fs::write(&path, &code[..100]).unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(stored.prove(&public()), Err(ProofError::Size { found: 100, .. })));
    assert_eq!(cache.find(NAME, Some(&public())), None);
    cache.discard(manifest.artifact);
    assert!(cache.of_image(manifest.image).is_none());
}

#[test]
fn a_name_means_what_it_meant_last_and_nobody_keeps_the_rest() {
    let directory = directory();
    let mut cache = open(directory.path());
    let (old, new) = (code(1), code(2));
    let old_manifest = signed(&old, |said| said.image = digest(b"old"));
    let new_manifest = signed(&new, |said| said.image = digest(b"new"));
    for (manifest, code) in [(&old_manifest, &old), (&new_manifest, &new)] {
        pull(&mut cache, NAME, manifest, code).unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(cache.find(NAME, Some(&public())), Some(new_manifest.image));
    pull(&mut cache, NAME, &old_manifest, &old).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(cache.find(NAME, Some(&public())), Some(old_manifest.image));
    cache.sweep(|image| image == new_manifest.image);
    assert!(cache.of_image(new_manifest.image).is_some(), "it runs");
    cache.sweep(|_| false);
    assert!(cache.of_image(new_manifest.image).is_none());
    let cache = open(directory.path());
    assert_eq!(cache.find(NAME, Some(&public())), Some(old_manifest.image));
}

#[test]
fn beyond_the_bound_those_go_that_were_used_least_lately_but_none_that_is_needed() {
    let directory = directory();
    let codes: Vec<Vec<u8>> = (0..5).map(code).collect();
    let manifests: Vec<ArtifactManifest> =
        codes.iter().map(|code| signed(code, |said| said.image = digest(&code[..9]))).collect();
    let room = 2 * codes[0].len() as u64;
    let mut cache = Artifacts::open_with_room(directory.path(), room).unwrap_or_else(|error| panic!("{error}"));
    cache.want(["wanted:1".to_owned()]);
    for (name, at) in [("wanted:1", 0), ("a:1", 1), ("b:1", 2), ("c:1", 3)] {
        pull(&mut cache, name, &manifests[at], &codes[at]).unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(cache.of_image(manifests[1].image).is_some(), "it is used once more");
    drop(cache);
    let files = || fs::read_dir(directory.path().join("artifacts")).map_or(0, Iterator::count);
    assert_eq!(files(), 4 * 2 + 1, "the order is kept");
    let mut cache = Artifacts::open_with_room(directory.path(), room).unwrap_or_else(|error| panic!("{error}"));
    cache.want(["wanted:1".to_owned()]);
    pull(&mut cache, "d:1", &manifests[4], &codes[4]).unwrap_or_else(|error| panic!("{error}"));
    cache.sweep(|image| image == manifests[2].image);
    let mut left = |at: usize| cache.of_image(manifests[at].image).is_some();
    // The first is wanted, the third runs; they alone fill the room.
    assert_eq!([0, 1, 2, 3, 4].map(&mut left), [true, false, true, false, false]);
}

#[test]
fn what_is_within_the_bound_stays_and_looking_for_it_writes_nothing() {
    let directory = directory();
    let (code, mut cache) = (code(0), open(directory.path()));
    let manifest = signed(&code, |_| {});
    pull(&mut cache, NAME, &manifest, &code).unwrap_or_else(|error| panic!("{error}"));
    cache.sweep(|_| false);
    drop(cache);
    let uses = directory.path().join("artifacts/uses");
    fs::remove_file(&uses).unwrap_or_else(|error| panic!("{error}"));
    let mut cache = open(directory.path());
    assert_eq!(cache.find(NAME, Some(&public())), Some(manifest.image));
    assert_eq!(cache.find(NAME, Some(&public())), Some(manifest.image));
    cache.sweep(|_| false);
    assert_eq!(cache.find(NAME, Some(&public())), Some(manifest.image));
    drop(cache);
    assert!(!uses.exists());
}

// SCH-02
#[test]
fn images_are_those_that_have_a_name_and_every_change_of_them_shows() {
    let directory = directory();
    let mut cache = open(directory.path());
    let (one, two) = (code(1), code(2));
    let first = signed(&one, |said| said.image = digest(b"first"));
    let second = signed(&two, |said| said.image = digest(b"second"));
    let listed = |cache: &Artifacts| {
        let images = cache.images().into_iter().map(|image| (image.image, image.size_bytes, image.names));
        images.collect::<std::collections::BTreeSet<_>>()
    };
    let image = |manifest: &ArtifactManifest, names: &[&str]| {
        (manifest.image, manifest.size, names.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let mut versions = vec![cache.version()];
    for (name, manifest, code) in [("a:1", &first, &one), ("b:1", &second, &two)] {
        pull(&mut cache, name, manifest, code).unwrap_or_else(|error| panic!("{error}"));
        versions.push(cache.version());
    }
    assert_eq!(listed(&cache), [image(&first, &["a:1"]), image(&second, &["b:1"])].into());
    // The name moves, and the image that it meant has none any more.
    pull(&mut cache, "a:1", &second, &two).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(listed(&cache), [image(&second, &["b:1", "a:1"])].into());
    versions.push(cache.version());
    assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{versions:?}");
    // What is there already, and a sweep that finds nothing, is no change.
    pull(&mut cache, "a:1", &second, &two).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(versions.last(), Some(&cache.version()));
    assert_eq!(listed(&open(directory.path())), listed(&cache), "also after a restart");
    cache.discard(second.artifact);
    assert!(listed(&cache).is_empty() && versions.last() < Some(&cache.version()));
}

// PRI-09
#[test]
fn on_a_full_disk_everything_goes_but_what_runs_what_is_wanted_and_what_is_being_pulled() {
    let directory = directory();
    let codes: Vec<Vec<u8>> = (0..5).map(code).collect();
    let manifests: Vec<ArtifactManifest> =
        codes.iter().map(|code| signed(code, |said| said.image = digest(&code[..9]))).collect();
    // A pull that an earlier start left, and one that goes on.
    let mut cache = open(directory.path());
    assert!(cache.begin("left:1", manifests[3].clone(), Some(&public())).is_ok());
    let mut cache = open(directory.path());
    for (name, at) in [("wanted:1", 0), ("running:1", 1), ("idle:1", 2)] {
        pull(&mut cache, name, &manifests[at], &codes[at]).unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(cache.begin("going:1", manifests[4].clone(), Some(&public())).is_ok());
    cache.want(Vec::new());
    cache.want_also(["wanted:1".to_owned()]);
    let size = codes[2].len() as u64;
    assert_eq!(cache.reclaim(|image| image == manifests[1].image), size);
    let mut left = |at: usize| cache.of_image(manifests[at].image).is_some();
    assert_eq!([0, 1, 2].map(&mut left), [true, true, false]);
    let partial = |at: usize| directory.path().join("partial").join(manifests[at].artifact.hex().as_str()).exists();
    assert_eq!((partial(3), partial(4)), (false, true));
    assert_eq!(cache.reclaim(|image| image == manifests[1].image), 0);
}
