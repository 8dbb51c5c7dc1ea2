//! A runtime with nothing around it: guests are compiled here as the controller does it, pulled into a cache, started.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use coracle_agent::artifacts::{Artifacts, Stored};
use coracle_agent::logs::{Logs, Next, Output};
use coracle_agent::runtime::{Preopen, Report, Runtime, Start};
use coracle_agent_core::RuntimeEvent;
use coracle_engine::Statement;
use coracle_lifecycle::{Exit, Run};
use coracle_model::limits::BLOCK_BYTES;
use coracle_model::{Container, Digest, EnvVar, Limits, Pod, PodUid, PullPolicy, ResourceAmounts, RestartPolicy};
use coracle_wire::artifact::ArtifactManifest;
use ed25519_dalek::SigningKey;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
};
use wit_component::ComponentEncoder;

/// A test that waits for this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn key() -> SigningKey {
    SigningKey::from_bytes(&[3; 32])
}

fn digest(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// A guest of `workloads/built`.
pub(crate) fn built(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../workloads/built").join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// WebAssembly to machine code for this machine, once for each.
fn compile(wasm: &[u8]) -> Arc<Vec<u8>> {
    static COMPILED: OnceLock<Mutex<HashMap<Digest, Arc<Vec<u8>>>>> = OnceLock::new();
    let mut compiled = COMPILED.get_or_init(Mutex::default).lock().unwrap_or_else(|error| panic!("{error}"));
    let entry = compiled.entry(digest(wasm)).or_insert_with(|| {
        let is_module = wasm.get(4..8) == Some(&[1, 0, 0, 0]);
        let component = if is_module {
            ComponentEncoder::default()
                .module(wasm)
                .and_then(|encoder| {
                    encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER)
                })
                .and_then(|mut encoder| encoder.encode())
                .unwrap_or_else(|error| panic!("{error:#}"))
        } else {
            wasm.to_vec()
        };
        let config = coracle_engine::config(coracle_engine::host_target()).unwrap_or_else(|error| panic!("{error}"));
        let engine = wasmtime::Engine::new(&config).unwrap_or_else(|error| panic!("{error:#}"));
        Arc::new(engine.precompile_component(&component).unwrap_or_else(|error| panic!("{error:#}")))
    });
    Arc::clone(entry)
}

/// What the controller would say of a guest, and the guest's machine code.
pub(crate) fn signed(wasm: &[u8]) -> (ArtifactManifest, Arc<Vec<u8>>) {
    let code = compile(wasm);
    let said = Statement {
        image: digest(wasm),
        artifact: digest(&code),
        size: code.len() as u64,
        target: coracle_engine::host_target().to_owned(),
        engine: coracle_engine::fingerprint(),
    };
    let signature = said.sign(&key()).to_vec();
    let Statement { image, artifact, size, target, engine } = said;
    let blocks = code.chunks(BLOCK_BYTES).map(digest).collect();
    (ArtifactManifest { image, artifact, size, target, engine, blocks, signature }, code)
}

pub(crate) struct Bench {
    directory: tempfile::TempDir,
    artifacts: Artifacts,
    pub(crate) runtime: Runtime,
    reports: mpsc::Receiver<Report>,
    pub(crate) logs: Arc<Logs>,
    /// What the next guest that is started finds mounted.
    pub(crate) preopens: Vec<Preopen>,
}

/// A container as the controller would send it.
pub(crate) fn container() -> Container {
    Container {
        name: "main".into(),
        image: "test:1".into(),
        pull_policy: PullPolicy::IfNotPresent,
        argv: Vec::new(),
        env: Vec::new(),
        working_dir: None,
        ports: Vec::new(),
        limits: ResourceAmounts::default(),
        requests: ResourceAmounts::default(),
        config_error: None,
        stdin_eof: false,
        mounts: Vec::new(),
    }
}

pub(crate) fn arguments(words: &[&str]) -> Container {
    Container { argv: words.iter().map(|word| (*word).to_owned()).collect(), ..container() }
}

pub(crate) fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: value.into() }
}

fn run_of(pod: u128) -> Run {
    Run { pod: PodUid(pod), container: "main".into(), attempt: 1 }
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_memory(0)
    }

    /// A node that has so much memory for all guests together.
    pub(crate) fn with_memory(memory_bytes: u64) -> Self {
        let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let artifacts = Artifacts::open(directory.path()).unwrap_or_else(|error| panic!("{error}"));
        let (sender, reports) = mpsc::channel(64);
        let runtime = Runtime::new(sender, memory_bytes);
        Self { directory, artifacts, runtime, reports, logs: Logs::new(&Limits::LINUX), preopens: Vec::new() }
    }

    /// Signs, pulls and finds it, as an agent does.
    pub(crate) fn stored(&mut self, wasm: &[u8]) -> Stored {
        let (manifest, code) = signed(wasm);
        let public = Self::public_key();
        let (image, artifact) = (manifest.image, manifest.artifact);
        let begun = self.artifacts.begin("test:1", manifest, Some(&public)).unwrap_or_else(|error| panic!("{error}"));
        if !begun.complete {
            for (index, block) in (0..).zip(code.chunks(BLOCK_BYTES)) {
                self.artifacts.write_block(artifact, index, block).unwrap_or_else(|error| panic!("{error}"));
            }
            self.artifacts.finish("test:1", artifact, Some(&public)).unwrap_or_else(|error| panic!("{error}"));
        }
        self.artifacts.of_image(image).unwrap_or_else(|| panic!("it was just stored"))
    }

    /// Starts a guest as the only container of the pod with this number.
    pub(crate) async fn start(&mut self, pod: u128, wasm: &[u8], container: Container) -> Run {
        let artifact = Some((self.stored(wasm), key().verifying_key().to_bytes()));
        self.start_with(pod, digest(wasm), artifact, container).await
    }

    pub(crate) async fn start_with(
        &mut self,
        pod: u128,
        image: Digest,
        artifact: Option<(Stored, [u8; 32])>,
        container: Container,
    ) -> Run {
        let run = run_of(pod);
        let pod = Pod {
            uid: PodUid(pod),
            namespace: "default".into(),
            name: format!("pod-{pod}"),
            restart_policy: RestartPolicy::Never,
            termination_grace_ms: 30_000,
            priority: 0,
            containers: vec![container],
            stop: None,
            volumes: Vec::new(),
        };
        let output = self.logs.begin(pod.uid, "main");
        let container = &pod.containers[0];
        let preopens = std::mem::take(&mut self.preopens);
        self.runtime.start(Start { run: run.clone(), pod: &pod, container, image, artifact, output, preopens }).await;
        run
    }

    /// Overwrites the file of an image's machine code.
    pub(crate) fn damage(&mut self, wasm: &[u8]) -> (Stored, Digest) {
        let stored = self.stored(wasm);
        let artifact = stored.artifact();
        let path = self.directory.path().join("artifacts").join(format!("{}.cwasm", artifact.hex()));
        let mut bytes = std::fs::read(&path).unwrap_or_default();
        if let Some(byte) = bytes.last_mut() {
            *byte ^= 1;
        }
        std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("{error}"));
        (stored, artifact)
    }

    pub(crate) fn public_key() -> [u8; 32] {
        key().verifying_key().to_bytes()
    }

    pub(crate) async fn report(&mut self) -> Report {
        let report = tokio::time::timeout(PATIENCE, self.reports.recv()).await;
        let report = report.ok().flatten().unwrap_or_else(|| panic!("the runtime said nothing"));
        if let Report::Event(RuntimeEvent::Exited { run, .. }) = &report {
            self.runtime.ended(run);
        }
        report
    }

    pub(crate) async fn started(&mut self, want: &Run) {
        match self.report().await {
            Report::Event(RuntimeEvent::Started(run)) if run == *want => {}
            other => panic!("{want:?} did not start: {other:?}"),
        }
    }

    pub(crate) async fn exit(&mut self, want: &Run) -> Exit {
        loop {
            match self.report().await {
                Report::Event(RuntimeEvent::Exited { run, exit }) if run == *want => return exit,
                Report::Event(RuntimeEvent::Started(_)) => {}
                other => panic!("{want:?} did not exit: {other:?}"),
            }
        }
    }

    pub(crate) fn output(&self, pod: u128) -> Arc<Output> {
        self.logs.find(PodUid(pod), "main", false).unwrap_or_else(|| panic!("pod {pod} has no output"))
    }

    /// All that a guest printed, once it has ended.
    pub(crate) fn printed(&self, pod: u128) -> String {
        let output = self.output(pod);
        let (mut number, mut text) = (0, String::new());
        while let Next::Line(line, after) = output.next(number) {
            text.push_str(&String::from_utf8_lossy(&line.text));
            text.push('\n');
            number = after;
        }
        text
    }

    /// Waits for the first line of a guest that runs on.
    pub(crate) async fn first_line(&self, pod: u128) -> String {
        let output = self.output(pod);
        let waited = tokio::time::timeout(PATIENCE, output.wait(0)).await;
        assert!(waited.is_ok(), "pod {pod} printed nothing");
        match output.next(0) {
            Next::Line(line, _) => String::from_utf8_lossy(&line.text).into_owned(),
            other => panic!("pod {pod} printed nothing: {other:?}"),
        }
    }
}
