use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::*;

const WASM: &[u8] = b"\0asm\x0d\0\x01\0 and so on";

/// What a registry or a layout holds, by digest.
#[derive(Default)]
struct Blobs(BTreeMap<Digest, Vec<u8>>);

impl Blobs {
    fn add(&mut self, media: &str, bytes: &[u8]) -> Value {
        let digest = digest_of(bytes);
        self.0.insert(digest, bytes.to_vec());
        json!({"mediaType": media, "digest": digest.to_string(), "size": bytes.len()})
    }

    fn json(&mut self, media: &str, value: &Value) -> Value {
        self.add(media, value.to_string().as_bytes())
    }

    /// A manifest with one layer.
    fn image(&mut self, media: &str, layer: &[u8], configuration: &Value) -> Value {
        let layer = self.add(media, layer);
        let config = self.json("application/vnd.wasm.config.v0+json", configuration);
        json!({"schemaVersion": 2, "config": config, "layers": [layer]})
    }

    fn unfold(&self, manifest: &Value) -> Result<Vec<u8>, SourceError> {
        let mut unfolding = Unfolding::begin(manifest.to_string().as_bytes())?;
        loop {
            let bytes = self.0.get(&unfolding.wanted().digest).cloned().unwrap_or_default();
            match unfolding.take(bytes)? {
                Step::More(next) => unfolding = next,
                Step::Done(wasm) => return Ok(wasm),
            }
        }
    }
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, *bytes).expect("memory takes it");
    }
    archive.into_inner().expect("memory takes it")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).expect("memory takes it");
    packer.finish().expect("memory takes it")
}

const TAR: &str = "application/vnd.oci.image.layer.v1.tar";
const TAR_GZIP: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

#[test]
fn a_layer_of_webassembly_is_taken_by_its_present_and_its_former_types() {
    for media in [
        "application/wasm",
        "application/vnd.wasm.content.layer.v1+wasm",
        "application/vnd.module.wasm.content.layer.v1+wasm",
    ] {
        let mut blobs = Blobs::default();
        let image = blobs.image(media, WASM, &json!({}));
        assert_eq!(blobs.unfold(&image).as_deref(), Ok(WASM), "{media}");
    }
}

#[test]
fn a_file_in_an_archive_is_found_by_the_entrypoint_or_because_it_is_the_only_one() {
    let other: &[u8] = b"\0asm\x01\0\0\0other";
    let two = tar(&[("app/main.wasm", WASM), ("other.wasm", other), ("README", b"text")]);
    let one = tar(&[("./etc/passwd", b"root"), ("./app", WASM)]);
    for (media, layer, entrypoint, found) in [
        (TAR, two.clone(), json!({"Entrypoint": ["/app/main.wasm", "-v"]}), true),
        (TAR_GZIP, gzip(&two), json!({"Entrypoint": null, "Cmd": ["app/main.wasm"]}), true),
        (TAR_GZIP, gzip(&two), json!({"Entrypoint": ["/elsewhere"]}), false),
        (TAR_GZIP, gzip(&one), json!({"Entrypoint": ["/elsewhere"]}), true),
        (TAR, one, json!({}), true),
        (TAR, tar(&[("README", b"text")]), json!({}), false),
        (TAR_GZIP, b"no gzip".to_vec(), json!({}), false),
    ] {
        let mut blobs = Blobs::default();
        let image = blobs.image(media, &layer, &json!({"config": entrypoint}));
        let unfolded = blobs.unfold(&image);
        assert_eq!(unfolded.as_deref().ok(), found.then_some(WASM), "{media} {entrypoint}: {unfolded:?}");
    }
}

#[test]
fn a_later_layer_replaces_and_removes_files_of_those_before() {
    let mut blobs = Blobs::default();
    let layers = [
        tar(&[("a/old.wasm", b"\0asmold"), ("main.wasm", b"\0asmfirst")]),
        tar(&[("a/.wh.old.wasm", b""), ("main.wasm", WASM)]),
    ];
    let layers: Vec<Value> = layers.iter().map(|layer| blobs.add(TAR_GZIP, &gzip(layer))).collect();
    let config = blobs.json("application/vnd.docker.container.image.v1+json", &json!({}));
    assert_eq!(blobs.unfold(&json!({"config": config, "layers": layers})).as_deref(), Ok(WASM));
}

#[test]
fn an_archive_that_unpacks_to_too_much_is_refused() {
    let zeros = vec![0; 1 << 20];
    let files: Vec<(String, &[u8])> = (0..80).map(|number| (format!("file-{number}"), zeros.as_slice())).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
    let bomb = gzip(&tar(&files));
    assert!(bomb.len() < 1 << 20);
    let mut blobs = Blobs::default();
    let image = blobs.image(TAR_GZIP, &bomb, &json!({}));
    let error = blobs.unfold(&image).expect_err("it is refused").to_string();
    assert!(error.contains("64 MiB"), "{error}");
}

#[test]
fn of_an_index_the_entry_for_webassembly_is_taken() {
    let mut blobs = Blobs::default();
    let (wasm, other) = (blobs.image("application/wasm", WASM, &json!({})), json!({"layers": []}));
    let entry = |blobs: &mut Blobs, value: &Value, os: &str, architecture: &str| {
        let mut entry = blobs.json("application/vnd.oci.image.manifest.v1+json", value);
        if !os.is_empty() {
            entry["platform"] = json!({"os": os, "architecture": architecture});
        }
        entry
    };
    let linux = entry(&mut blobs, &other, "linux", "amd64");
    let plain = entry(&mut blobs, &wasm, "", "");
    for os in ["wasip1", "wasip2", "wasi"] {
        let ours = entry(&mut blobs, &wasm, os, "wasm");
        assert_eq!(blobs.unfold(&json!({"manifests": [linux, ours]})).as_deref(), Ok(WASM), "{os}");
    }
    let first = entry(&mut blobs, &other, "wasip1", "wasm");
    let better = entry(&mut blobs, &wasm, "wasip2", "wasm");
    assert_eq!(blobs.unfold(&json!({"manifests": [first, better]})).as_deref(), Ok(WASM));
    assert_eq!(blobs.unfold(&json!({"manifests": [plain]})).as_deref(), Ok(WASM));
    let error = blobs.unfold(&json!({"manifests": [linux]})).expect_err("not for us").to_string();
    assert!(error.contains("linux/amd64"), "{error}");
    assert!(blobs.unfold(&json!({"manifests": []})).is_err());
    assert!(blobs.unfold(&json!({"manifests": [plain, linux]})).is_err());
}

#[test]
fn indexes_in_indexes_come_to_an_end() {
    let mut blobs = Blobs::default();
    let mut manifest = blobs.image("application/wasm", WASM, &json!({}));
    for depth in 0..5 {
        let found = blobs.unfold(&manifest);
        assert_eq!(found.is_ok(), depth <= MAX_DEPTH, "{depth}: {found:?}");
        let entry = blobs.json("application/vnd.oci.image.index.v1+json", &manifest);
        manifest = json!({"manifests": [entry]});
    }
}

#[test]
fn what_is_not_as_it_was_named_is_refused() {
    let mut blobs = Blobs::default();
    let image = blobs.image("application/wasm", WASM, &json!({}));
    let change = |path: &str, value: Value| {
        let mut image = image.clone();
        *image.pointer_mut(path).expect("it is there") = value;
        image
    };
    let twice = json!([image["layers"][0], image["layers"][0]]);
    for (manifest, word) in [
        (change("/layers/0/digest", json!(Digest([1; 32]).to_string())), "digest"),
        (change("/layers/0/digest", json!("sha512:00")), "sha512"),
        (change("/layers/0/size", json!(3)), "may have 3"),
        (change("/layers/0/size", json!(u64::MAX)), "may have"),
        (change("/layers/0/mediaType", json!("text/html")), "text/html"),
        (change("/layers", json!([])), "none"),
        (change("/layers", twice), "several"),
        (json!({}), "manifest"),
        (json!([]), "manifest"),
    ] {
        let error = blobs.unfold(&manifest).expect_err("it is refused").to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
}

/// A layout as other tools write it.
fn write_layout(path: &Path, blobs: &Blobs, index: &Value) {
    fs::create_dir_all(path.join("blobs/sha256")).expect("writable");
    fs::write(path.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).expect("writable");
    fs::write(path.join("index.json"), index.to_string()).expect("writable");
    for (digest, bytes) in &blobs.0 {
        fs::write(path.join("blobs/sha256").join(digest.hex().as_str()), bytes).expect("writable");
    }
}

#[test]
fn a_layout_is_read_as_a_directory_and_as_an_archive() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let folder = scratch.path().join("layout");
    let mut blobs = Blobs::default();
    let image = blobs.image("application/wasm", WASM, &json!({}));
    let entry = blobs.json("application/vnd.oci.image.manifest.v1+json", &image);
    write_layout(&folder, &blobs, &json!({"schemaVersion": 2, "manifests": [entry]}));
    assert!(layout::is_layout(&folder));
    assert_eq!(layout::read(&folder).expect("a layout"), WASM);
    let archive = scratch.path().join("layout.tar");
    let mut builder = tar::Builder::new(fs::File::create(&archive).expect("writable"));
    builder.append_dir_all(".", &folder).expect("readable");
    builder.finish().expect("writable");
    assert!(layout::is_layout(&archive));
    assert_eq!(layout::read(&archive).expect("a layout"), WASM);
    assert!(!layout::is_layout(&folder.join("index.json")));
    fs::remove_file(folder.join("index.json")).expect("it is there");
    let error = layout::read(&folder).expect_err("it is not whole").to_string();
    assert!(error.contains("index.json"), "{error}");
}
