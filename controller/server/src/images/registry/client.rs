//! The few requests of the distribution protocol that a pull makes.

use std::collections::BTreeSet;
use std::error::Error;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_model::Digest;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Response, Url};
use serde_json::Value;
use tokio::time::timeout;

use super::PullError;
use super::challenge::Challenge;
use super::credentials::Credential;

/// For a connection, the TLS handshake included.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest that a registry may be silent.
const SILENCE: Duration = Duration::from_secs(30);
/// For one request with all of its body: 32 MiB over a link of a megabit a second.
const WHOLE: Duration = Duration::from_secs(300);
/// Registries hand downloads to a storage, which may hand them on.
const MAX_REDIRECTS: usize = 5;
/// What is read of an answer that holds a token, or an error.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;
/// What is shown of a registry's words.
const MAX_WORDS_CHARS: usize = 200;

/// Where Docker's registry really is.
const DOCKER: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// Speaks to registries. The connections are made when they are first needed.
#[derive(Debug)]
pub(super) struct Client {
    insecure: Arc<BTreeSet<String>>,
    /// For hosts that only we reach, which no proxy does.
    direct: OnceLock<Result<reqwest::Client, String>>,
    /// By way of the proxy that the environment names, if any.
    outside: OnceLock<Result<reqwest::Client, String>>,
}

/// What one pull says to one registry, as one user.
pub(super) struct Conversation<'a> {
    client: &'a Client,
    registry: String,
    path: String,
    credential: Option<&'a Credential>,
    authorization: Option<HeaderValue>,
}

impl Client {
    pub(super) fn new(insecure: BTreeSet<String>) -> Self {
        Self { insecure: Arc::new(insecure), direct: OnceLock::new(), outside: OnceLock::new() }
    }

    /// Begins. `path` is the repository without its registry.
    pub(super) fn talk<'a>(
        &'a self,
        registry: &str,
        path: &str,
        credential: Option<&'a Credential>,
    ) -> Conversation<'a> {
        let mut path = path.to_owned();
        if registry == DOCKER.0 && !path.contains('/') {
            path.insert_str(0, "library/");
        }
        Conversation { client: self, registry: registry.to_owned(), path, credential, authorization: None }
    }

    fn http(&self, registry: &str) -> Result<&reqwest::Client, PullError> {
        let is_plain = is_plain(registry, &self.insecure);
        let client = if is_plain { &self.direct } else { &self.outside };
        let made = client.get_or_init(|| connector(Arc::clone(&self.insecure), is_plain));
        made.as_ref().map_err(|why| PullError::Unreachable { registry: registry.to_owned(), why: why.clone() })
    }
}

/// Whether a host is spoken to over plain HTTP.
fn is_plain(registry: &str, insecure: &BTreeSet<String>) -> bool {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    let is_loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback || insecure.contains(registry)
}

/// Whether an address that a registry names may be used: nothing falls back to plain HTTP.
fn may_use(url: &Url, insecure: &BTreeSet<String>) -> bool {
    let host = url.host_str().unwrap_or_default();
    let registry = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    url.scheme() == "https" || (url.scheme() == "http" && is_plain(&registry, insecure))
}

fn connector(insecure: Arc<BTreeSet<String>>, is_plain: bool) -> Result<reqwest::Client, String> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() && !is_plain {
        return Err("this machine has no root certificates; install ca-certificates".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = builder.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
    let redirects = Policy::custom(move |attempt| {
        if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("too many redirects")
        } else if may_use(attempt.url(), &insecure) {
            attempt.follow()
        } else {
            attempt.error("a redirect to plain HTTP")
        }
    });
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("coracle/", env!("CARGO_PKG_VERSION")))
        .redirect(redirects)
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE)
        .timeout(WHOLE);
    if is_plain {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| words(&error))
}

impl Conversation<'_> {
    /// The digest of a manifest, if the registry says it without sending the manifest.
    pub(super) async fn digest(&mut self, path: &str, accept: &str) -> Result<Option<Digest>, PullError> {
        let answer = self.send(&Method::HEAD, path, accept).await?;
        let status = answer.status();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            // The answer to HEAD has no words. A GET finds the same, and says why.
            return Ok(None);
        }
        let digest = answer.headers().get("docker-content-digest").and_then(|value| value.to_str().ok());
        let digest = digest.and_then(|text| text.strip_prefix("sha256:")).and_then(|hex| hex.parse().ok());
        Ok(digest.filter(|_| status.is_success()))
    }

    /// Something of the repository, of at most so many bytes; `tell` hears how many have come.
    pub(super) async fn get(
        &mut self,
        path: &str,
        accept: &str,
        most_bytes: u64,
        tell: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Vec<u8>, PullError> {
        let answer = self.send(&Method::GET, path, accept).await?;
        if !answer.status().is_success() {
            return Err(self.refused(answer).await);
        }
        self.body(answer, most_bytes, tell).await
    }

    /// Sends a request, and once more when the registry wants to know who asks.
    async fn send(&mut self, method: &Method, path: &str, accept: &str) -> Result<Response, PullError> {
        let answer = self.send_once(method, path, accept).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || self.authorization.is_some() {
            return Ok(answer);
        }
        match Challenge::of(answer.headers()) {
            Some(challenge) => self.authorization = self.meet(challenge).await?,
            None => return Ok(answer),
        }
        if self.authorization.is_none() { Ok(answer) } else { self.send_once(method, path, accept).await }
    }

    async fn send_once(&self, method: &Method, path: &str, accept: &str) -> Result<Response, PullError> {
        let plain = is_plain(&self.registry, &self.client.insecure);
        let scheme = if plain { "http" } else { "https" };
        let host = if self.registry == DOCKER.0 { DOCKER.1 } else { &self.registry };
        let url = format!("{scheme}://{host}/v2/{}/{path}", self.path);
        let mut request = self.client.http(&self.registry)?.request(method.clone(), url).header(ACCEPT, accept);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        self.carry(request).await
    }

    async fn carry(&self, request: RequestBuilder) -> Result<Response, PullError> {
        // The builder's own limits are for each part; this one is for all of them.
        let sent = timeout(SILENCE + CONNECT, request.send()).await;
        match sent {
            Ok(answer) => answer.map_err(|error| self.unreachable(words(&error))),
            Err(_) => Err(self.unreachable("it does not answer".to_owned())),
        }
    }

    /// What the registry wants to see; `None` when there is nothing to show.
    async fn meet(&self, challenge: Challenge) -> Result<Option<HeaderValue>, PullError> {
        let text = match (challenge, self.credential) {
            (Challenge::Bearer { .. }, Some(credential)) if !credential.registry_token.is_empty() => {
                format!("Bearer {}", credential.registry_token)
            }
            (Challenge::Bearer { realm, service, scope }, credential) => {
                let token = self.token(&realm, &service, &scope, credential).await?;
                format!("Bearer {token}")
            }
            (Challenge::Basic, Some(credential)) => basic(credential),
            (Challenge::Basic, None) => return Ok(None),
        };
        let mut value = HeaderValue::from_str(&text)
            .map_err(|_| PullError::Unauthorized("the credentials do not fit into a header".to_owned()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    async fn token(
        &self,
        realm: &str,
        service: &str,
        scope: &str,
        credential: Option<&Credential>,
    ) -> Result<String, PullError> {
        let odd = |what: &str| PullError::Answered { registry: self.registry.clone(), what: what.to_owned() };
        let mut url = Url::parse(realm).map_err(|_| odd("the address for tokens is none"))?;
        // The password goes there, so nobody between may read it.
        if !may_use(&url, &self.client.insecure) {
            return Err(odd("the address for tokens is plain HTTP"));
        }
        let own = format!("repository:{}:pull", self.path);
        let scope = if scope.is_empty() { own.as_str() } else { scope };
        let http = self.client.http(&self.registry)?;
        let request = match credential.filter(|credential| !credential.identity_token.is_empty()) {
            Some(credential) => {
                let mut form = Url::parse("http://form/").map_err(|_| odd("no form"))?;
                form.query_pairs_mut()
                    .append_pair("grant_type", "refresh_token")
                    .append_pair("client_id", "coracle")
                    .append_pair("service", service)
                    .append_pair("scope", scope)
                    .append_pair("refresh_token", &credential.identity_token);
                let body = form.query().unwrap_or_default().to_owned();
                http.post(url).header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)
            }
            None => {
                url.query_pairs_mut().append_pair("service", service).append_pair("scope", scope);
                let request = http.get(url);
                match credential {
                    Some(credential) => request.header(AUTHORIZATION, basic(credential)),
                    None => request,
                }
            }
        };
        let answer = self.carry(request).await?;
        if !answer.status().is_success() {
            return Err(self.refused(answer).await);
        }
        let body = self.body(answer, MAX_ANSWER_BYTES, &mut |_| {}).await?;
        let value: Value = serde_json::from_slice(&body).map_err(|_| odd("the token is no JSON"))?;
        let token = value["token"].as_str().or_else(|| value["access_token"].as_str());
        token.map(ToOwned::to_owned).ok_or_else(|| odd("there is no token in the answer"))
    }

    async fn body(
        &self,
        mut answer: Response,
        most_bytes: u64,
        tell: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Vec<u8>, PullError> {
        let mut bytes = Vec::new();
        tell(0);
        while let Some(part) = answer.chunk().await.map_err(|error| self.unreachable(words(&error)))? {
            if bytes.len() as u64 + part.len() as u64 > most_bytes {
                let what = format!("more than the {most_bytes} bytes that were expected");
                return Err(PullError::Answered { registry: self.registry.clone(), what });
            }
            bytes.extend_from_slice(&part);
            tell(bytes.len() as u64);
        }
        Ok(bytes)
    }

    /// What an answer that is no success means.
    async fn refused(&self, answer: Response) -> PullError {
        let status = answer.status();
        let body = self.body(answer, MAX_ANSWER_BYTES, &mut |_| {}).await.unwrap_or_default();
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = said["errors"][0]["message"].as_str().or_else(|| said["details"].as_str());
        let reason = status.canonical_reason().unwrap_or("no reason given").to_ascii_lowercase();
        let words = message.filter(|message| !message.is_empty()).map_or(reason, shown);
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => PullError::Unauthorized(words),
            StatusCode::NOT_FOUND => PullError::NotFound(words),
            _ => PullError::Answered { registry: self.registry.clone(), what: format!("{} {words}", status.as_u16()) },
        }
    }

    fn unreachable(&self, why: String) -> PullError {
        PullError::Unreachable { registry: self.registry.clone(), why }
    }
}

fn basic(credential: &Credential) -> String {
    format!("Basic {}", STANDARD.encode(format!("{}:{}", credential.user, credential.password)))
}

/// A registry's words, of a bearable length and in one line.
fn shown(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(MAX_WORDS_CHARS).collect()
}

/// The innermost cause, which is the one that tells something; the outer ones only repeat the address.
fn words(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if error.is_timeout() {
        return "it does not answer in time".to_owned();
    }
    if error.source().is_none() {
        // The error itself would show the address.
        return "the request failed".to_owned();
    }
    shown(&cause.to_string())
}
