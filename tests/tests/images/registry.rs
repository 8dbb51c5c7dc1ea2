//! Debian's `docker-registry` on the loopback, and `skopeo` to fill it.

use std::path::{Path, PathBuf};
use std::process::Command;

use coracle_tests::programs::{Process, built, free_port, root, succeed};
use coracle_tests::tools::tool;

use crate::certificates::Pair;

/// The user of a registry with a lock, and the password.
pub(crate) const USER: (&str, &str) = ("sailor", "open sesame");
/// The two, as `htpasswd -B` writes them.
const HTPASSWD: &str = "sailor:$2b$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW\n";

/// A registry that ends with the test.
#[derive(Debug)]
pub(crate) struct Registry {
    /// `127.0.0.1:PORT`
    pub(crate) address: String,
    pub(crate) process: Process,
    dir: PathBuf,
    locked: bool,
}

impl Registry {
    /// Starts one that keeps its images in `dir`; a locked one opens to [`USER`] only.
    pub(crate) fn start(dir: &Path, locked: bool) -> Self {
        Self::start_with(&dir.join("registry"), locked, None)
    }

    /// Starts one that speaks TLS with this certificate.
    pub(crate) fn start_secure(dir: &Path, locked: bool, pair: &Pair) -> Self {
        Self::start_with(dir, locked, Some(pair))
    }

    fn start_with(dir: &Path, locked: bool, pair: Option<&Pair>) -> Self {
        let dir = dir.to_owned();
        std::fs::create_dir_all(&dir).expect("a directory");
        let address = format!("127.0.0.1:{}", free_port());
        let passwords = dir.join("htpasswd");
        std::fs::write(&passwords, HTPASSWD).expect("writable");
        let auth = if locked {
            format!("auth: {{htpasswd: {{realm: harbour, path: {}}}}}\n", passwords.display())
        } else {
            String::new()
        };
        let tls = pair.map_or_else(String::new, |pair| {
            format!(", tls: {{certificate: {}, key: {}}}", pair.certificate.display(), pair.key.display())
        });
        let config = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: \"{address}\"{tls}}}\n{auth}",
            dir.join("data").display()
        );
        let file = dir.join("config.yml");
        std::fs::write(&file, config).expect("writable");
        let mut command = Command::new(tool("docker-registry"));
        let mut process = Process::start("registry", command.arg("serve").arg(file), &dir);
        let _listening = process.said("listening on");
        Self { address, process, dir, locked }
    }

    /// `localhost:PORT`, which is the same place by its name.
    pub(crate) fn by_name(&self) -> String {
        self.address.replace("127.0.0.1", "localhost")
    }

    /// Packs a WebAssembly file under a media type, pushes it with `skopeo` and gives the digest of its manifest. With a
    /// platform (`wasip2/wasm`) it becomes an entry of an index.
    pub(crate) fn push(&self, file: &Path, media: &str, name: &str, platform: Option<&str>) -> String {
        let layout = self.dir.join(name.replace([':', '/'], "-"));
        let digest = layout_of(&layout, file, media, platform);
        let mut command = Command::new(tool("skopeo"));
        command.args(["copy", "--all", "--dest-tls-verify=false"]).env("HOME", &self.dir);
        if self.locked {
            command.arg(format!("--dest-creds={}:{}", USER.0, USER.1));
        }
        command.arg(format!("oci:{}", layout.display())).arg(format!("docker://{}/{name}", self.address));
        let _said = succeed(&mut command);
        digest
    }
}

/// Makes an OCI layout of a file, with a tool that nobody's library is behind; gives the digest of its manifest.
pub(crate) fn layout_of(layout: &Path, file: &Path, media: &str, platform: Option<&str>) -> String {
    let mut command = Command::new("python3");
    command.arg(root().join("tests/python/oci.py")).args([layout, Path::new(media), file]).args(platform);
    succeed(&mut command).trim().to_owned()
}

/// A guest that is built already.
pub(crate) fn guest(name: &str) -> PathBuf {
    root().join("workloads/built").join(name)
}

/// The program that compiles.
pub(crate) fn coracle() -> PathBuf {
    built("coracle")
}
