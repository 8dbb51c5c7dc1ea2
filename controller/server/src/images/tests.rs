use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use coracle_engine::{Statement, host_target};
use coracle_model::limits::{BLOCK_BYTES, MAX_IMAGE_BYTES};

use super::*;

/// A program for WASI preview 1, as a compiler of any language writes it.
pub(super) const MODULE_BYTES: &[u8] = include_bytes!("../../../../workloads/built/trap.wasm");
/// A component with a WASI world.
pub(super) const COMPONENT_BYTES: &[u8] = include_bytes!("../../../../workloads/built/sensor-1.wasm");

/// An image that is not built in.
const GROW: &[u8] = include_bytes!("../../../../workloads/built/grow.wasm");
const SAMPLE_JOB: &[u8] = include_bytes!("../../../../workloads/built/job-1.wasm");

struct House {
    scratch: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        Self { scratch: tempfile::tempdir().expect("a temporary directory") }
    }

    /// Opens the images with a compiler that does what this shell script says, and finds that everything is a component.
    fn open_with(&self, script: &str) -> Images {
        self.open_with_room(script, DEFAULT_CACHE_BYTES)
    }

    fn open_with_room(&self, script: &str, cache_bytes: u64) -> Images {
        let program = self.scratch.path().join("compiler");
        let described = r#"{"form":"component","imports":["a:b/c@1.0.0"],"exports":[]}"#;
        let describe = format!("if [ \"$2\" = --describe ]; then echo '{described}'; exit 0; fi");
        fs::write(&program, format!("#!/bin/sh\n{describe}\n{script}\n")).expect("writable");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("ours");
        let options = Options { cache_bytes, ..Options::new(program) };
        Images::open(&self.images(), SigningKey::from_bytes(&[7; 32]), options).expect("images")
    }

    fn open(&self) -> Images {
        self.open_with("exit 1")
    }

    fn images(&self) -> PathBuf {
        self.scratch.path().join("images")
    }

    /// A compiler that counts its runs and writes so many bytes.
    fn counting(&self, artifact: &[u8]) -> String {
        let (runs, file) = (self.scratch.path().join("runs"), self.scratch.path().join("artifact"));
        fs::write(&file, artifact).expect("writable");
        format!("echo \"$*\" >> {}\nexec /bin/cat {}", runs.display(), file.display())
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.scratch.path().join("runs")).unwrap_or_default().lines().count()
    }
}

/// What a node hears when it asks for an image by its name.
async fn ask(
    images: &Images,
    image: &str,
    target: &str,
    engine: &str,
) -> Result<Arc<ArtifactManifest>, ArtifactRefusal> {
    let digest = images.obtain(image, Wish::default()).await?;
    images.artifact(digest, target, engine).await
}

async fn push(images: &Images, name: &str, wasm: &[u8]) -> Result<Digest, ImageError> {
    images.push(name, Bytes::copy_from_slice(wasm)).await
}

#[tokio::test]
async fn a_pushed_image_is_listed_and_found_also_after_a_restart() {
    let house = House::new();
    let images = house.open();
    let digest = push(&images, "sensors/probe:2", COMPONENT_BYTES).await.expect("it is taken");
    assert_eq!(push(&images, "sensors/probe", COMPONENT_BYTES).await.expect("under another name"), digest);
    drop(images);
    let images = house.open();
    let by_digest = format!("sensors/probe@{digest}");
    for name in ["sensors/probe:2", "sensors/probe:latest", "sensors/probe", &by_digest] {
        assert_eq!(images.resolve(&name.parse().expect("a name")), Some(digest), "{name}");
    }
    assert_eq!(images.resolve(&"sensors/probe:3".parse().expect("a name")), None);
    let names: Vec<_> = images.list().into_iter().map(|entry| (entry.name, entry.built_in)).collect();
    let want = [
        ("samples/hello:1", true),
        ("samples/hello:2", true),
        ("samples/job:1", true),
        ("samples/sensor:1", true),
        ("sensors/probe:2", false),
        ("sensors/probe:latest", false),
    ];
    assert_eq!(names, want.map(|(name, built_in)| (name.to_owned(), built_in)));
}

#[tokio::test]
async fn a_name_moves_to_what_is_pushed_last() {
    let house = House::new();
    let images = house.open();
    let first = push(&images, "a:1", COMPONENT_BYTES).await.expect("it is taken");
    let second = push(&images, "a:1", MODULE_BYTES).await.expect("it is taken");
    assert_eq!(images.resolve(&"a:1".parse().expect("a name")), Some(second));
    assert_eq!(images.resolve(&format!("a@{first}").parse().expect("a name")), Some(first));
}

#[tokio::test]
async fn what_is_no_image_is_refused_with_the_reason() {
    let house = House::new();
    let images = house.open();
    let large = vec![0; MAX_IMAGE_BYTES + 1];
    let other = format!("a:1@{}", Digest([1; 32]));
    let table: [(&str, &[u8], &str); 8] = [
        ("a:1", b"", "empty"),
        ("a:1", b"\0asm", "cut off"),
        ("a:1", b"#!/bin/sh", "no WebAssembly"),
        ("a:1", &large, "bytes"),
        ("samples/hello:1", COMPONENT_BYTES, "built into"),
        ("A:1", COMPONENT_BYTES, "invalid image name"),
        (&format!("a@{}", Digest([1; 32])), COMPONENT_BYTES, "want a tag"),
        (&other, COMPONENT_BYTES, "has the digest"),
    ];
    for (name, bytes, reason) in table {
        let error = push(&images, name, bytes).await.expect_err(name).to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert_eq!(images.list().len(), 4, "nothing was stored");
}

#[tokio::test]
async fn a_damaged_index_is_named_and_not_replaced() {
    let house = House::new();
    push(&house.open(), "a:1", COMPONENT_BYTES).await.expect("it is taken");
    let index = house.images().join("index.json");
    for text in
        ["", "{", r#"{"version":2,"names":{}}"#, r#"{"version":1,"names":{"a:1":{"digest":"x","size_bytes":1}}}"#]
    {
        fs::write(&index, text).expect("writable");
        let opened = Images::open(&house.images(), SigningKey::from_bytes(&[7; 32]), Options::new(PathBuf::new()));
        let error = opened.expect_err(text).to_string();
        assert!(error.contains("index.json"), "{error}");
        assert_eq!(fs::read_to_string(&index).expect("readable"), text);
    }
}

// EDGE-02
#[tokio::test]
async fn an_artifact_comes_in_blocks_that_match_a_signed_manifest() {
    let house = House::new();
    let code: Vec<u8> = (0..2 * BLOCK_BYTES + 77).map(|index| index.to_le_bytes()[1]).collect();
    let images = house.open_with(&house.counting(&code));
    let digest = push(&images, "a:1", COMPONENT_BYTES).await.expect("it is taken");
    let manifest = ask(&images, "a:1", "pulley32", &fingerprint()).await.expect("it is compiled");
    assert_eq!((manifest.image, manifest.artifact, manifest.size), (digest, digest_of(&code), code.len() as u64));
    let mut pulled = Vec::new();
    for (index, block) in (0..).zip(&manifest.blocks) {
        let bytes = images.block(manifest.artifact, index).expect("the block is there");
        assert_eq!(digest_of(&bytes), *block);
        pulled.extend(bytes);
    }
    assert_eq!(pulled, code);
    assert_eq!(images.block(manifest.artifact, 3), None);
    assert_eq!(images.block(Digest([1; 32]), 0), None);
    let statement = Statement {
        image: digest,
        artifact: manifest.artifact,
        size: manifest.size,
        target: "pulley32".to_owned(),
        engine: fingerprint(),
    };
    let public = SigningKey::from_bytes(&[7; 32]).verifying_key().to_bytes();
    assert_eq!(statement.verify(&public, &manifest.signature), Ok(()));
}

#[tokio::test]
async fn all_who_ask_at_once_and_later_share_one_compilation() {
    let house = House::new();
    let script = house.counting(b"code");
    let images = house.open_with(&script);
    let hello = || ask(&images, "samples/hello:1", "pulley64", &images.0.engine);
    let (one, two, three) = tokio::join!(hello(), hello(), hello());
    let one = one.expect("it is compiled");
    assert_eq!((two.as_ref(), three.as_ref()), (Ok(&one), Ok(&one)));
    assert_eq!(images.0.making.len(), 0);
    drop(images);
    let images = house.open_with(&script);
    let again = ask(&images, "samples/hello:1", "pulley64", &fingerprint()).await;
    assert_eq!(again, Ok(one));
    assert_eq!(house.runs(), 1);
}

#[tokio::test]
async fn a_node_is_told_why_it_gets_nothing() {
    let house = House::new();
    let images =
        house.open_with(&format!("{}\necho 'no such import' >&2; exit 3", house.counting(b"").replace("exec ", "")));
    let ask = async |image: &str, target: &str, engine: &str| ask(&images, image, target, engine).await;
    let ours = fingerprint();
    let Err(ArtifactRefusal::InvalidName(_)) = ask("A B", "pulley64", &ours).await else { panic!("a wrong name") };
    let Err(ArtifactRefusal::NotFound(text)) = ask("a:1", "pulley64", &ours).await else { panic!("an unknown name") };
    assert!(text.contains("a:1"), "{text}");
    let Err(ArtifactRefusal::Unusable(text)) = ask("samples/hello:1", "pulley64", "47.0.0-1").await else {
        panic!("engine")
    };
    assert!(text.contains("47.0.0-1") && text.contains(&ours), "{text}");
    let Err(ArtifactRefusal::Unusable(text)) = ask("samples/hello:1", "riscv64", &ours).await else { panic!("target") };
    assert!(text.contains("riscv64"), "{text}");
    assert_eq!(house.runs(), 0);
    for _ in 0..2 {
        let refused = ask("samples/hello:1", "pulley64", &ours).await;
        assert_eq!(refused, Err(ArtifactRefusal::Unusable("no such import".to_owned())));
    }
    assert_eq!(house.runs(), 1, "the second time it is known");
    assert_eq!(fs::read_dir(house.images().join("artifacts")).expect("readable").count(), 0);
}

#[tokio::test]
async fn a_compiler_that_breaks_down_does_not_take_the_controller_with_it() {
    let house = House::new();
    for (script, word) in
        [("kill -ABRT $$", "memory"), ("kill -XCPU $$", "processor time"), ("kill -XFSZ $$", "larger")]
    {
        let images = house.open_with(&format!("ulimit -c 0\n{script}"));
        let refused = ask(&images, "samples/job:1", "pulley64", &fingerprint()).await;
        let Err(ArtifactRefusal::Unusable(text)) = refused else { panic!("{script}: {refused:?}") };
        assert!(text.contains(word), "{text}");
    }
    fs::remove_file(house.scratch.path().join("compiler")).expect("it is there");
    let images =
        Images::open(&house.images(), SigningKey::from_bytes(&[7; 32]), Options::new("/no/such/program".into()));
    let refused = ask(&images.expect("images"), "samples/hello:1", "pulley64", &fingerprint()).await;
    assert!(matches!(refused, Err(ArtifactRefusal::Busy(_))), "{refused:?}");
}

#[tokio::test]
async fn an_artifact_that_the_disk_has_damaged_is_made_again() {
    let house = House::new();
    let images = house.open_with(&house.counting(b"machine code"));
    let ask = async || ask(&images, "samples/job:1", "pulley64", &fingerprint()).await.expect("it is compiled");
    let manifest = ask().await;
    let file = house.images().join("artifacts").join(format!("{}.cwasm", manifest.artifact.hex()));
    fs::write(&file, b"machine c0de").expect("writable");
    assert_eq!(images.block(manifest.artifact, 0), None);
    assert_eq!(ask().await, manifest);
    assert_eq!(images.block(manifest.artifact, 0).as_deref(), Some(b"machine code".as_slice()));
    assert_eq!(house.runs(), 2);
}

#[tokio::test]
async fn artifacts_of_another_key_or_engine_are_not_given_out() {
    let house = House::new();
    let images = house.open_with(&house.counting(b"code"));
    ask(&images, "samples/job:1", "pulley64", &fingerprint()).await.expect("it is compiled");
    let program = house.scratch.path().join("compiler");
    let other = Images::open(&house.images(), SigningKey::from_bytes(&[8; 32]), Options::new(program)).expect("images");
    ask(&other, "samples/job:1", "pulley64", &fingerprint()).await.expect("it is compiled");
    assert_eq!(house.runs(), 2, "another key");
    let path = house.images().join("artifacts");
    let key = SigningKey::from_bytes(&[8; 32]);
    drop(other);
    drop(images);
    drop(ArtifactCache::open(&path, key.clone(), &fingerprint(), u64::MAX).expect("the same engine"));
    assert_eq!(files(&path), ["cwasm", "json"]);
    drop(ArtifactCache::open(&path, key, "49.0.0-1", u64::MAX).expect("another engine"));
    assert!(files(&path).is_empty());
}

/// The extensions of the files of a cache, but for the order in which they were wanted.
fn files(path: &Path) -> Vec<String> {
    let found = fs::read_dir(path).expect("readable").map(|entry| entry.expect("readable").path());
    let extension = |path: PathBuf| path.extension().and_then(|text| text.to_str()).unwrap_or_default().to_owned();
    let mut found: Vec<_> = found.map(extension).filter(|extension| extension != "order").collect();
    found.sort();
    found
}

#[tokio::test]
async fn the_cache_keeps_within_its_bound_what_was_wanted_last() {
    let house = House::new();
    let script = house.counting(&[7; 1000]);
    // Every artifact has the same thousand bytes but for the name of its target.
    let script = script.replace("exec /bin/cat", "echo \"$2\"; exec /bin/cat");
    let images = house.open_with_room(&script, 3100);
    let targets = ["pulley32", "pulley64", "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
    let get = async |images: &Images, target: &str| {
        ask(images, "samples/job:1", target, &fingerprint()).await.expect("it is compiled")
    };
    for target in &targets[..3] {
        get(&images, target).await;
    }
    get(&images, targets[0]).await;
    drop(images);
    // The order is known over a restart: the second is the one that nobody wanted for longest.
    let images = house.open_with_room(&script, 3100);
    get(&images, targets[3]).await;
    let job: ImageName = "samples/job:1".parse().expect("a name");
    let left = images.inspect(&job).await.expect("readable").expect("it is there").artifacts;
    let left: Vec<_> = left.iter().map(|artifact| artifact.target.as_str()).collect();
    assert_eq!(left, [targets[3], targets[0], targets[2]]);
    assert_eq!(house.runs(), 4);
    get(&images, targets[0]).await;
    assert_eq!(house.runs(), 4);
    get(&images, targets[1]).await;
    assert_eq!(house.runs(), 5);
}

#[tokio::test]
async fn a_name_is_removed_and_then_what_nobody_needs() {
    let house = House::new();
    let images = house.open_with(&house.counting(b"code"));
    let grow = push(&images, "a:1", GROW).await.expect("it is taken");
    let module = push(&images, "a:2", MODULE_BYTES).await.expect("it is taken");
    assert!(images.has_lost_a_name() && !images.has_lost_a_name());
    for name in ["a:1", "a:2"] {
        ask(&images, name, "pulley64", &fingerprint()).await.expect("it is compiled");
    }
    let parse = |name: &str| name.parse::<ImageName>().expect("a name");
    assert!(matches!(images.remove(&parse("samples/job:1")), Err(ImageError::BuiltIn)));
    assert_eq!(images.remove(&parse("a:3")).expect("writable"), None);
    assert_eq!(images.remove(&parse("a:1")).expect("writable"), Some(grow));
    assert_eq!(images.remove(&parse("a:2")).expect("writable"), Some(module));
    assert!(images.has_lost_a_name());
    assert_eq!(images.collect(&BTreeSet::from([module])), 1);
    assert_eq!(images.resolve(&parse(&format!("a@{grow}"))), None);
    assert_eq!(images.resolve(&parse(&format!("a@{module}"))), Some(module));
    assert!(images.artifact(module, "pulley64", &fingerprint()).await.is_ok());
    assert_eq!(images.collect(&BTreeSet::new()), 1);
    assert!(files(&house.images().join("artifacts")).is_empty());
}

// EDGE-02
#[tokio::test]
async fn a_refusal_of_the_image_itself_outlives_a_restart_and_one_for_want_of_time_does_not() {
    for (script, runs) in [("echo no >&2; exit 3", 1), ("kill -XCPU $$", 2)] {
        let house = House::new();
        let script = format!("{}\n{script}", house.counting(b"").replace("exec ", ""));
        for _ in 0..2 {
            let images = house.open_with(&script);
            let refused = ask(&images, "samples/job:1", "pulley64", &fingerprint()).await;
            assert!(matches!(refused, Err(ArtifactRefusal::Unusable(_))), "{refused:?}");
        }
        assert_eq!(house.runs(), runs, "{script}");
        // A push of the very same image makes it worth another try.
        let images = house.open_with(&script);
        push(&images, "a:1", SAMPLE_JOB).await.expect("it is taken");
        let refused = ask(&images, "a:1", "pulley64", &fingerprint()).await;
        assert!(matches!(refused, Err(ArtifactRefusal::Unusable(_))), "{refused:?}");
        assert_eq!(house.runs(), runs + 1);
    }
}

#[tokio::test]
async fn an_image_is_described_once_and_a_registry_is_not_asked_for_nobody() {
    let house = House::new();
    let images = house.open();
    let digest = push(&images, "localhost:1/a:1", COMPONENT_BYTES).await.expect("it is taken");
    let described = images.description(digest).await.expect("it is described");
    assert_eq!(described.imports, ["a:b/c@1.0.0"]);
    assert_eq!(images.obtain("localhost:1/a:1", Wish::default()).await, Ok(digest));
    let fresh = Wish { fresh: true, credentials: None };
    let Err(ArtifactRefusal::NotFound(text)) = images.obtain("localhost:1/a:1", fresh).await else { panic!("found") };
    assert!(text.contains("no pod of this node"), "{text}");
}

#[test]
fn guests_compile_for_this_machine_for_a_pi_and_for_the_interpreter() {
    for target in [host_target(), "aarch64-unknown-linux-gnu", "pulley32"] {
        for wasm in [COMPONENT_BYTES, MODULE_BYTES] {
            let code = compile::compile(wasm.to_vec(), target).unwrap_or_else(|error| panic!("{target}: {error}"));
            assert!(code.starts_with(b"\x7fELF"), "{target}");
        }
    }
}

#[test]
fn what_only_begins_as_webassembly_is_refused_by_the_compiler() {
    let cut = &COMPONENT_BYTES[..COMPONENT_BYTES.len() / 2];
    let cut_module = &MODULE_BYTES[..MODULE_BYTES.len() / 2];
    let mut garbled = COMPONENT_BYTES.to_vec();
    for byte in garbled.iter_mut().skip(100).step_by(50) {
        *byte ^= 0x55;
    }
    for bytes in [cut, cut_module, &garbled] {
        let error = compile::compile(bytes.to_vec(), "pulley64").expect_err("it is refused");
        assert!(error.contains("not valid WebAssembly"), "{error}");
    }
    assert!(compile::compile(COMPONENT_BYTES.to_vec(), "riscv64").is_err());
}
