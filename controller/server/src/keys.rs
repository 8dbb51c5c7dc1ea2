//! Who this cluster is: its id, its certificate authority, the API's certificate, the administrator's credentials and
//! the key that signs artifacts (DESIGN, "Keys").
//!
//! *In:* a data directory and the address that the API listens on. *Out:* [`Keys`], all of it on disk before anything
//! listens.
//! *Must never know:* sockets, the store, what a user may do.
//! *Tested:* in `keys/tests.rs`: made once, kept, renewed, refused when damaged, and one TLS handshake in memory.
//!
//! Id, authority and artifact key are made once: agents and clients have pinned them. The file `cluster-id` is written
//! last, so once it is there, nothing that it stands for is ever made again, and a lost file is an error that says so.
//! Certificates under the authority are made anew whenever they are missing, near their end, or of another name.

mod certificate;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use coracle_model::{ClusterId, Digest};
use ed25519_dalek::SigningKey;
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use self::certificate::{IssueError, Pair, Purpose};
use crate::data_dir::{DataDir, make_dir, write_durably};

/// The administrator, who may do everything.
const ADMIN: Purpose = Purpose::Client { user: "kubernetes-admin", group: "system:masters" };

/// Why the keys cannot be had. Each text fits after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A file cannot be read or written.
    #[error("{action} {path}")]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A key that exists only once is gone.
    #[error(
        "find {path}, although the cluster has its id: agents and clients trust what was in it, so it cannot be made anew; restore it from a backup, or begin a new cluster in a new data directory"
    )]
    Lost {
        /// The file.
        path: PathBuf,
    },
    /// A key that exists only once is not readable as one.
    #[error("use {path}: want {want}; restore it from a backup, or begin a new cluster in a new data directory")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        want: &'static str,
    },
    /// A certificate could not be made.
    #[error("issue a certificate")]
    Issue(#[source] IssueError),
    /// The library for TLS does not take what we have.
    #[error("set up TLS")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The system gives no randomness.
    #[error("get randomness from the system: {0}")]
    Randomness(getrandom::Error),
}

/// A user of the API, as a client certificate names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The common name.
    pub name: String,
    /// The organizations.
    pub groups: Vec<String>,
}

/// Everything that proves something in this cluster. Cheap to clone.
#[derive(Clone)]
pub struct Keys(Arc<Inner>);

struct Inner {
    cluster: ClusterId,
    artifact: SigningKey,
    authority: CertificateDer<'static>,
    admin: Pair,
    token: String,
    tls: Arc<ServerConfig>,
    /// As long as somebody has the keys, nobody else may use the directory.
    _directory: DataDir,
}

impl Keys {
    /// Reads the keys, and makes what is missing. `listen` is the address of the API; it becomes one of the names of its
    /// certificate, unless it stands for all addresses.
    ///
    /// # Errors
    /// See [`KeysError`].
    pub fn open(directory: &DataDir, listen: IpAddr) -> Result<Self, KeysError> {
        let now = std::time::SystemTime::now();
        let now_s = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
        Self::open_at(directory, &server_purpose(listen, host_name().as_deref()), now_s)
    }

    fn open_at(directory: &DataDir, server: &Purpose, now_s: u64) -> Result<Self, KeysError> {
        let path = directory.keys();
        make_dir(&path).map_err(|source| KeysError::File { action: "write", path: path.clone(), source })?;
        let once = Once::open(&path, now_s)?;
        let server = leaf(&path, "server", server, &once, now_s)?;
        let admin = leaf(&path, "admin", &ADMIN, &once, now_s)?;
        let token = token(&directory.admin_token())?;
        let tls = server_tls(&once.authority.certificate, &server)?;
        let Once { cluster, artifact, authority } = once;
        let authority = authority.certificate;
        Ok(Self(Arc::new(Inner { cluster, artifact, authority, admin, token, tls, _directory: directory.clone() })))
    }

    /// The cluster's id, which agents pin at first contact.
    #[must_use]
    pub fn cluster(&self) -> ClusterId {
        self.0.cluster
    }

    /// The key that signs artifacts; agents pin its public half.
    #[must_use]
    pub fn artifact(&self) -> &SigningKey {
        &self.0.artifact
    }

    /// The certificate authority's certificate, which clients trust.
    #[must_use]
    pub fn authority(&self) -> &CertificateDer<'static> {
        &self.0.authority
    }

    /// How the API speaks TLS 1.2 and 1.3: HTTP/2 and HTTP/1.1; a client certificate is asked for, and one of this
    /// cluster's authority is accepted. Without one the connection stands, and HTTP decides (a token, or 401).
    #[must_use]
    pub fn server_tls(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.tls)
    }

    /// Whether this is the administrator's bearer token, in a time that does not depend on where they differ.
    #[must_use]
    pub fn is_admin_token(&self, presented: &str) -> bool {
        let (want, got) = (self.0.token.as_bytes(), presented.as_bytes());
        want.len() == got.len() && want.iter().zip(got).fold(0, |differs, (one, two)| differs | (one ^ two)) == 0
    }

    /// The administrator, as whom [`Self::is_admin_token`] authenticates.
    #[must_use]
    pub fn admin_user(&self) -> User {
        let Purpose::Client { user, group } = ADMIN else { unreachable!("the constant above is a client") };
        User { name: user.to_owned(), groups: vec![group.to_owned()] }
    }

    /// The administrator's kubeconfig for an API at this address (`https://127.0.0.1:6443`). It holds a private key.
    #[must_use]
    pub fn admin_kubeconfig(&self, server_url: &str) -> String {
        let authority = BASE64.encode(pem("CERTIFICATE", &self.0.authority));
        let certificate = BASE64.encode(pem("CERTIFICATE", &self.0.admin.certificate));
        let key = BASE64.encode(self.0.admin.key.serialize_pem());
        // A JSON string is a YAML string, whatever is in it.
        let server = serde_json::Value::from(server_url);
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: coracle\n\
             clusters:\n- name: coracle\n  cluster:\n    server: {server}\n    certificate-authority-data: {authority}\n\
             users:\n- name: coracle-admin\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n\
             contexts:\n- name: coracle\n  context:\n    cluster: coracle\n    user: coracle-admin\n"
        )
    }

    /// Writes [`Self::admin_kubeconfig`] with mode 0600, unless it is there already.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_admin_kubeconfig(&self, path: &Path, server_url: &str) -> Result<(), KeysError> {
        let text = self.admin_kubeconfig(server_url);
        if fs::read(path).is_ok_and(|found| found == text.as_bytes()) {
            return Ok(());
        }
        write(path, text.as_bytes())
    }
}

/// The user that a client certificate names. The certificate has been verified in the handshake already.
#[must_use]
pub fn identity_of(certificate: &CertificateDer<'_>) -> Option<User> {
    certificate::user_of(&certificate::parse(certificate)?)
}

/// What is made once in the life of a cluster.
struct Once {
    cluster: ClusterId,
    artifact: SigningKey,
    authority: Pair,
}

impl Once {
    fn open(path: &Path, now_s: u64) -> Result<Self, KeysError> {
        let id_path = path.join("cluster-id");
        let id = read(&id_path)?;
        let complete = id.is_some();
        let artifact = artifact_key(&path.join("artifact.key"), complete)?;
        let authority = authority(path, complete, now_s)?;
        let damaged = |_| KeysError::Damaged { path: id_path.clone(), want: "32 hexadecimal digits" };
        let cluster = match id {
            Some(id) => id.trim_end().parse().map_err(damaged)?,
            None => {
                let cluster = ClusterId(u128::from_le_bytes(random()?));
                write(&id_path, format!("{cluster}\n").as_bytes())?;
                cluster
            }
        };
        Ok(Self { cluster, artifact, authority })
    }
}

fn artifact_key(path: &Path, complete: bool) -> Result<SigningKey, KeysError> {
    match read(path)? {
        Some(text) => {
            let seed: Result<Digest, _> = text.trim_end().parse();
            let want = "64 hexadecimal digits, the seed of an ed25519 key";
            let seed = seed.map_err(|_| KeysError::Damaged { path: path.to_owned(), want })?;
            Ok(SigningKey::from_bytes(&seed.0))
        }
        None if complete => Err(KeysError::Lost { path: path.to_owned() }),
        None => {
            let seed = random()?;
            write(path, format!("{}\n", Digest(seed).hex()).as_bytes())?;
            Ok(SigningKey::from_bytes(&seed))
        }
    }
}

fn authority(path: &Path, complete: bool, now_s: u64) -> Result<Pair, KeysError> {
    let (key_path, certificate_path) = (path.join("ca.key"), path.join("ca.crt"));
    let lost = |path: &Path| Err(KeysError::Lost { path: path.to_owned() });
    match (read(&key_path)?, read(&certificate_path)?) {
        (Some(key), Some(text)) => Pair::parse(&text, &key).ok_or_else(|| KeysError::Damaged {
            path: certificate_path,
            want: "a certificate in PEM that belongs to the private key in ca.key beside it",
        }),
        (None, _) if complete => lost(&key_path),
        (_, None) if complete => lost(&certificate_path),
        // A crash has come between the first two writes of a new cluster; nobody has seen either.
        _ => {
            let key = certificate::new_key().map_err(KeysError::Issue)?;
            let certificate = certificate::issue_authority(&key, now_s).map_err(KeysError::Issue)?;
            // Should a crash come between these two, both are made again.
            remove(&certificate_path)?;
            write_pair(&key_path, &certificate_path, &key, &certificate)?;
            Ok(Pair { certificate, key })
        }
    }
}

/// A certificate under the authority: as it is on disk if it still serves, else a new one.
fn leaf(path: &Path, name: &str, purpose: &Purpose, once: &Once, now_s: u64) -> Result<Pair, KeysError> {
    let key_path = path.join(format!("{name}.key"));
    let certificate_path = path.join(format!("{name}.crt"));
    if let (Some(key), Some(text)) = (read(&key_path)?, read(&certificate_path)?)
        && let Some(pair) = Pair::parse(&text, &key)
        && certificate::serves(&pair.certificate, purpose, &once.authority.certificate, now_s)
    {
        return Ok(pair);
    }
    let pair = certificate::issue(purpose, &once.authority.key, now_s).map_err(KeysError::Issue)?;
    write_pair(&key_path, &certificate_path, &pair.key, &pair.certificate)?;
    Ok(pair)
}

fn write_pair(
    key_path: &Path,
    certificate_path: &Path,
    key: &KeyPair,
    certificate: &CertificateDer<'_>,
) -> Result<(), KeysError> {
    write(key_path, key.serialize_pem().as_bytes())?;
    write(certificate_path, pem("CERTIFICATE", certificate).as_bytes())
}

fn token(path: &Path) -> Result<String, KeysError> {
    if let Some(text) = read(path)? {
        let token = text.trim_end();
        let whole = token.len() >= 32 && token.bytes().all(|byte| byte.is_ascii_graphic());
        let want = "a token of at least 32 printable characters on one line; remove the file to have a new one made";
        return if whole { Ok(token.to_owned()) } else { Err(KeysError::Damaged { path: path.to_owned(), want }) };
    }
    let token = Digest(random()?).hex().as_str().to_owned();
    write(path, format!("{token}\n").as_bytes())?;
    Ok(token)
}

fn server_tls(authority: &CertificateDer<'static>, server: &Pair) -> Result<Arc<ServerConfig>, KeysError> {
    let tls = |error: rustls::Error| KeysError::Tls(error.into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone()).map_err(tls)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|error| KeysError::Tls(error.into()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(tls)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![server.certificate.clone()], server.private_key())
        .map_err(tls)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The names under which clients reach the API.
fn server_purpose(listen: IpAddr, host: Option<&str>) -> Purpose {
    let mut names = BTreeSet::from(["localhost".to_owned()]);
    names.extend(host.filter(|name| is_dns_name(name)).map(str::to_lowercase));
    let mut addresses = BTreeSet::from([IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]);
    if !listen.is_unspecified() {
        addresses.insert(listen);
    }
    Purpose::Server { names, addresses }
}

fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| fs::read_to_string("/etc/hostname")).ok()?;
    Some(name.trim().to_owned())
}

/// A host may be called anything; what is no DNS name cannot be in a certificate.
fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (1..=63).contains(&label.len()) && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label) && name.parse::<IpAddr>().is_err()
}

fn random<const N: usize>() -> Result<[u8; N], KeysError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(KeysError::Randomness)?;
    Ok(bytes)
}

/// PEM: base64 in lines of 64 characters between two marks.
fn pem(label: &str, der: &[u8]) -> String {
    let body = BASE64.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, next) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = next;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

fn read(path: &Path) -> Result<Option<String>, KeysError> {
    match fs::read(path) {
        // What is no text is no key either; whoever reads it says what is wanted.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeysError::File { action: "read", path: path.to_owned(), source }),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), KeysError> {
    write_durably(path, bytes).map_err(|source| KeysError::File { action: "write", path: path.to_owned(), source })
}

fn remove(path: &Path) -> Result<(), KeysError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(KeysError::File { action: "write", path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}
