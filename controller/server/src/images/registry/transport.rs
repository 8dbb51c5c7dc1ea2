//! The connections to registries: who is reached how, where redirects may lead, and what went wrong in words.

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Response, Url};
use tokio::time::timeout;

use super::PullError;
use super::trust::{self, Authorities};

/// For a connection, the TLS handshake included.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest that a registry may be silent.
const SILENCE: Duration = Duration::from_secs(30);
/// For one request with all of its body: 32 MiB over a link of a megabit a second.
const WHOLE: Duration = Duration::from_secs(300);
/// Registries hand downloads to a storage, which may hand them on.
const MAX_REDIRECTS: usize = 5;
/// What is shown of somebody else's words.
const MAX_WORDS_CHARS: usize = 200;

/// Who is reached how. The connections are made when they are first needed.
#[derive(Debug)]
pub(super) struct Transport {
    insecure: Arc<BTreeSet<String>>,
    authorities: Authorities,
    /// For hosts that only we reach, which no proxy does.
    direct: Mutex<Option<reqwest::Client>>,
    /// By way of the proxy that the environment names, if any.
    outside: Mutex<Option<reqwest::Client>>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing came for too long.
    Silence,
    /// Something broke.
    Broken(reqwest::Error),
    /// Nothing could be sent.
    Unable(String),
}

impl Transport {
    /// `insecure` are hosts (`HOST:PORT`) that may be spoken to over plain HTTP.
    pub(super) fn new(insecure: BTreeSet<String>, authorities: Authorities) -> Self {
        Self { insecure: Arc::new(insecure), authorities, direct: Mutex::default(), outside: Mutex::default() }
    }

    /// What carries requests to a registry.
    pub(super) fn client(&self, registry: &str) -> Result<reqwest::Client, Failure> {
        let may_be_plain = self.may_be_plain(registry);
        let mut client = if may_be_plain { self.direct.lock() } else { self.outside.lock() };
        if let Some(client) = client.as_ref() {
            return Ok(client.clone());
        }
        // A failure is not kept: certificates may be installed meanwhile.
        let made = connector(Arc::clone(&self.insecure), &self.authorities, may_be_plain).map_err(Failure::Unable)?;
        Ok(client.insert(made).clone())
    }

    /// Whether a registry may be spoken to over plain HTTP.
    pub(super) fn may_be_plain(&self, registry: &str) -> bool {
        is_plain(registry, &self.insecure)
    }

    /// Whether an address that this registry names may be used.
    pub(super) fn may_use(&self, url: &Url, registry: &str) -> bool {
        may_use(url, self.may_be_plain(registry), &self.insecure)
    }

    /// Sends a request and waits until the answer begins.
    pub(super) async fn carry(&self, request: RequestBuilder) -> Result<Response, Failure> {
        // The builder's own limits are for each part; this one is for all of them.
        match timeout(SILENCE + CONNECT, request.send()).await {
            Ok(answer) => answer.map_err(Failure::Broken),
            Err(_) => Err(Failure::Silence),
        }
    }
}

fn is_plain(registry: &str, insecure: &BTreeSet<String>) -> bool {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    let is_loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback || insecure.contains(registry)
}

/// Nothing falls back to plain HTTP; and a registry elsewhere does not send us to what listens on our own loopback.
fn may_use(url: &Url, from_plain: bool, insecure: &BTreeSet<String>) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && from_plain && is_plain(&authority(url), insecure))
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn connector(
    insecure: Arc<BTreeSet<String>>,
    authorities: &Authorities,
    may_be_plain: bool,
) -> Result<reqwest::Client, String> {
    let redirects = Policy::custom(move |attempt| {
        let from_plain = attempt.previous().first().is_some_and(|first| is_plain(&authority(first), &insecure));
        if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("too many redirects")
        } else if may_use(attempt.url(), from_plain, &insecure) {
            attempt.follow()
        } else {
            attempt.error("a redirect to plain HTTP")
        }
    });
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(trust::tls(authorities, !may_be_plain)?)
        .user_agent(concat!("coracle/", env!("CARGO_PKG_VERSION")))
        .redirect(redirects)
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE)
        .timeout(WHOLE);
    if may_be_plain {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| words(&error))
}

impl Failure {
    /// Whether there was no connection, and not because the other side is a stranger: it may speak plain HTTP.
    pub(super) fn may_be_plain_http(&self) -> bool {
        matches!(self, Self::Broken(error) if error.is_connect() && !matches!(tls(error), Some(rustls::Error::InvalidCertificate(_))))
    }

    /// In words, for the registry that was to answer.
    pub(super) fn of(self, registry: &str) -> PullError {
        let error = match self {
            Self::Silence => return unreachable(registry, "it does not answer".to_owned()),
            Self::Unable(why) => return unreachable(registry, why),
            Self::Broken(error) => error,
        };
        // It may be the place for tokens, or where a redirect led. Of an address only the host is no secret.
        let host = error.url().and_then(Url::host_str).unwrap_or_default();
        let is_other = !host.is_empty() && registry.split(':').next() != Some(host);
        let who = if is_other { format!("{registry} ({host})") } else { registry.to_owned() };
        match tls(&error) {
            Some(rustls::Error::InvalidCertificate(wrong)) => {
                PullError::Untrusted { registry: who, why: trust::words(wrong) }
            }
            Some(rustls::Error::InvalidMessage(_)) => {
                let hint = format!("(--insecure-registry {registry} lets it be spoken to without)");
                unreachable(&who, format!("it does not speak TLS {hint}"))
            }
            // The one that cannot be reached may be the proxy.
            _ if error.is_connect() && goes_by_proxy(registry) => {
                let way = "by way of the proxy in HTTPS_PROXY, if NO_PROXY does not name it";
                unreachable(&who, format!("{} ({way})", words(&error)))
            }
            _ => unreachable(&who, words(&error)),
        }
    }
}

/// Whether a proxy was named for registries elsewhere. Which names it is not for is the library's business.
fn goes_by_proxy(registry: &str) -> bool {
    let is_named = |variable: &str| std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    !is_plain(registry, &BTreeSet::new()) && (is_named("HTTPS_PROXY") || is_named("https_proxy"))
}

fn unreachable(registry: &str, why: String) -> PullError {
    PullError::Unreachable { registry: registry.to_owned(), why }
}

/// What TLS says, somewhere in the chain of causes.
fn tls(error: &reqwest::Error) -> Option<&rustls::Error> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref() {
            return Some(found);
        }
        // An error of the operating system that wraps another one gives as its source that one's source.
        let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = wrapped.map(|wrapped| wrapped as &(dyn Error + 'static)).or_else(|| cause.source());
    }
    None
}

/// A registry's words, of a bearable length and in one line.
pub(super) fn shown(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(MAX_WORDS_CHARS).collect()
}

/// The innermost cause, which is the one that tells something; the outer ones only repeat the address.
fn words(error: &reqwest::Error) -> String {
    let mut cause: &(dyn Error + 'static) = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if error.is_timeout() {
        return "it does not answer in time".to_owned();
    }
    if cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof) {
        return "it hung up in the middle".to_owned();
    }
    if error.source().is_none() {
        // The error itself would show the address.
        return "the request failed".to_owned();
    }
    shown(&cause.to_string())
}
