//! What opens registries: the two forms in which Kubernetes keeps it in secrets, and which of it fits a name.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// Entries of one secret.
const MAX_ENTRIES: usize = 256;

/// Why a secret opens nothing. It says nothing of what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// Not of Docker's form.
    #[error("want a JSON object as `docker login` writes it")]
    Form,
    /// An entry has no user and password in it.
    #[error("an entry's \"auth\" is not USER:PASSWORD in base64")]
    Auth,
}

/// What opens one registry.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credential {
    pub(super) user: String,
    pub(super) password: String,
    /// Traded for an access token instead of user and password (OAuth 2).
    pub(super) identity_token: String,
    /// Is an access token.
    pub(super) registry_token: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(..)")
    }
}

impl Credential {
    /// A user and a password.
    #[must_use]
    pub fn basic(user: &str, password: &str) -> Self {
        Self {
            user: user.to_owned(),
            password: password.to_owned(),
            identity_token: String::new(),
            registry_token: String::new(),
        }
    }
}

/// One secret of type `kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials(Vec<(Pattern, Credential)>);

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase", default)]
struct Entry {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
    registrytoken: String,
}

impl Credentials {
    /// Reads `.dockerconfigjson`.
    ///
    /// # Errors
    /// When it is not of that form.
    pub fn from_config_json(bytes: &[u8]) -> Result<Self, CredentialsError> {
        #[derive(Deserialize)]
        struct Config {
            auths: BTreeMap<String, Entry>,
        }
        let config: Config = serde_json::from_slice(bytes).map_err(|_| CredentialsError::Form)?;
        Self::of(config.auths)
    }

    /// Reads `.dockercfg`, which is the same without the outer object.
    ///
    /// # Errors
    /// When it is not of that form.
    pub fn from_cfg(bytes: &[u8]) -> Result<Self, CredentialsError> {
        Self::of(serde_json::from_slice(bytes).map_err(|_| CredentialsError::Form)?)
    }

    fn of(entries: BTreeMap<String, Entry>) -> Result<Self, CredentialsError> {
        if entries.len() > MAX_ENTRIES {
            return Err(CredentialsError::Form);
        }
        let read = |(key, entry): (String, Entry)| {
            let mut credential = Credential::basic(&entry.username, &entry.password);
            if !entry.auth.is_empty() {
                let decoded = STANDARD.decode(entry.auth.trim()).map_err(|_| CredentialsError::Auth)?;
                let decoded = String::from_utf8(decoded).map_err(|_| CredentialsError::Auth)?;
                let (user, password) = decoded.split_once(':').ok_or(CredentialsError::Auth)?;
                credential = Credential::basic(user, password);
            }
            credential.identity_token = entry.identitytoken;
            credential.registry_token = entry.registrytoken;
            Ok((Pattern::of(&key), credential))
        };
        let mut credentials = entries.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        // The longer, the more it says.
        credentials.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.path.len() + pattern.host.len()));
        Ok(Self(credentials))
    }

    /// Those that fit a repository (`PATH` at `HOST[:PORT]`), the best first.
    pub fn fitting(&self, registry: &str, path: &str) -> impl Iterator<Item = &Credential> {
        self.0.iter().filter(move |(pattern, _)| pattern.fits(registry, path)).map(|(_, credential)| credential)
    }
}

/// A key of a secret: `[https://]HOST[:PORT][/PATH]`; within the host, `*` stands for one part or a piece of one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    host: String,
    port: String,
    path: String,
}

impl Pattern {
    fn of(key: &str) -> Self {
        let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
        let (place, path) = key.split_once('/').unwrap_or((key, ""));
        let (host, port) = place.split_once(':').unwrap_or((place, ""));
        let mut path = path.trim_matches('/');
        // The version of the protocol, which older clients noted down as well.
        for version in ["v1", "v2"] {
            path = match path.strip_prefix(version) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_matches('/'),
                _ => path,
            };
        }
        Self { host: canonical(host), port: port.to_owned(), path: path.to_owned() }
    }

    fn fits(&self, registry: &str, path: &str) -> bool {
        let (host, port) = registry.split_once(':').unwrap_or((registry, ""));
        let host = canonical(host);
        let parts = |text: &str| text.split('.').count();
        let below = path.strip_prefix(&self.path);
        self.port == port
            && parts(&self.host) == parts(&host)
            && self.host.split('.').zip(host.split('.')).all(|(pattern, part)| matches(pattern, part))
            && below.is_some_and(|rest| self.path.is_empty() || rest.is_empty() || rest.starts_with('/'))
    }
}

/// One name for Docker's registry, which has three.
fn canonical(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    if matches!(host.as_str(), "index.docker.io" | "registry-1.docker.io") { "docker.io".to_owned() } else { host }
}

/// Whether a part of a host fits; a `*` stands for any run of characters in it.
fn matches(pattern: &str, part: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == part };
    let Some(rest) = part.strip_prefix(before) else { return false };
    (0..=rest.len()).any(|skip| rest.get(skip..).is_some_and(|rest| matches(after, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(text: &str, registry: &str, path: &str) -> Vec<String> {
        let credentials = Credentials::from_config_json(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        credentials.fitting(registry, path).map(|credential| credential.user.clone()).collect()
    }

    // POD-09
    #[test]
    fn a_key_fits_the_repositories_that_kubernetes_says_it_fits() {
        for (key, registry, path, fits) in [
            ("r.example.com", "r.example.com", "a/b", true),
            ("https://r.example.com/v2/", "r.example.com", "a/b", true),
            ("r.example.com", "r.example.com:5000", "a", false),
            ("r.example.com:5000", "r.example.com:5000", "a", true),
            ("r.example.com:5000", "r.example.com:5001", "a", false),
            ("r.example.com/a", "r.example.com", "a/b", true),
            ("r.example.com/a", "r.example.com", "ab", false),
            ("*.example.com", "r.example.com", "a", true),
            ("*.example.com", "example.com", "a", false),
            ("*.example.com", "a.b.example.com", "a", false),
            ("r*1.example.com", "r-1.example.com", "a", true),
            ("R.example.com", "r.example.com", "a", true),
            ("https://index.docker.io/v1/", "docker.io", "library/a", true),
            ("localhost:5000", "localhost:5000", "a", true),
            ("127.0.0.1", "127.0.0.1:5000", "a", false),
        ] {
            let text = format!(r#"{{"auths": {{"{key}": {{"username": "u", "password": "p"}}}}}}"#);
            assert_eq!(!users(&text, registry, path).is_empty(), fits, "{key} for {registry}/{path}");
        }
    }

    #[test]
    fn the_more_a_key_says_the_earlier_it_is_tried() {
        let text = r#"{"auths": {
            "r.example.com": {"username": "wide", "password": "p"},
            "r.example.com/team": {"auth": "bmFycm93OnA6cQ=="}
        }}"#;
        assert_eq!(users(text, "r.example.com", "team/app"), ["narrow", "wide"]);
        assert_eq!(users(text, "r.example.com", "other"), ["wide"]);
    }

    #[test]
    fn what_is_of_another_form_is_refused_without_its_content() {
        for text in ["", "[]", "{}", r#"{"auths": {"a": {"auth": "%"}}}"#, r#"{"auths": {"a": {"auth": "dXNlcg=="}}}"#]
        {
            assert!(Credentials::from_config_json(text.as_bytes()).is_err(), "{text}");
        }
        let plain = Credentials::from_cfg(br#"{"a.b": {"username": "u", "password": "hush"}}"#);
        assert!(plain.is_ok_and(|plain| !format!("{plain:?}").contains("hush")));
    }
}
