//! The few requests of the distribution protocol that a pull makes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_model::Digest;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use reqwest::{Response, Url};
use serde_json::Value;

use super::PullError;
use super::challenge::Challenge;
use super::credentials::Credential;
use super::transport::{Failure, Transport, shown};

/// What is read of an answer that holds a token, or an error.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// Where Docker's registry really is.
const DOCKER: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// What one pull says to one registry, as one user.
pub(super) struct Conversation<'a> {
    transport: &'a Transport,
    registry: String,
    path: String,
    credential: Option<&'a Credential>,
    authorization: Option<HeaderValue>,
    /// Whether the registry has taken that, so that a later refusal means that a token has run out.
    let_in: bool,
    /// `https`, or `http` once a registry that may speak it turned out to do so.
    scheme: Option<&'static str>,
}

impl<'a> Conversation<'a> {
    /// Begins. `path` is the repository without its registry.
    pub(super) fn begin(
        transport: &'a Transport,
        registry: &str,
        path: &str,
        credential: Option<&'a Credential>,
    ) -> Self {
        let mut path = path.to_owned();
        if registry == DOCKER.0 && !path.contains('/') {
            path.insert_str(0, "library/");
        }
        let scheme = if transport.may_be_plain(registry) { None } else { Some("https") };
        let registry = registry.to_owned();
        Self { transport, registry, path, credential, authorization: None, let_in: false, scheme }
    }

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

    /// Sends a request, and once more when the registry wants to know who asks, or wants a newer token.
    async fn send(&mut self, method: &Method, path: &str, accept: &str) -> Result<Response, PullError> {
        let answer = self.send_once(method, path, accept).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            self.let_in |= self.authorization.is_some() && answer.status().is_success();
            return Ok(answer);
        }
        if self.authorization.is_some() && !self.let_in {
            return Ok(answer);
        }
        match Challenge::of(answer.headers()) {
            Some(challenge) => self.authorization = self.meet(challenge).await?,
            None => return Ok(answer),
        }
        if self.authorization.is_none() {
            return Ok(answer);
        }
        let answer = self.send_once(method, path, accept).await?;
        self.let_in = answer.status().is_success();
        Ok(answer)
    }

    /// Sends a request. Where plain HTTP is allowed, TLS is tried first, so that a registry on the loopback may have it.
    async fn send_once(&mut self, method: &Method, path: &str, accept: &str) -> Result<Response, PullError> {
        let sent = self.send_over(self.scheme.unwrap_or("https"), method, path, accept).await;
        let sent = match (self.scheme, sent) {
            (None, Err(failure)) if failure.may_be_plain_http() => {
                self.scheme = Some("http");
                self.send_over("http", method, path, accept).await
            }
            (None, Ok(answer)) => {
                self.scheme = Some("https");
                Ok(answer)
            }
            (_, sent) => sent,
        };
        sent.map_err(|failure| failure.of(&self.registry))
    }

    async fn send_over(&self, scheme: &str, method: &Method, path: &str, accept: &str) -> Result<Response, Failure> {
        let host = if self.registry == DOCKER.0 { DOCKER.1 } else { &self.registry };
        let url = format!("{scheme}://{host}/v2/{}/{path}", self.path);
        let mut request = self.transport.client(&self.registry)?.request(method.clone(), url).header(ACCEPT, accept);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        self.transport.carry(request).await
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
        if !self.transport.may_use(&url, &self.registry) {
            return Err(odd("the address for tokens is plain HTTP"));
        }
        let own = format!("repository:{}:pull", self.path);
        let scope = if scope.is_empty() { own.as_str() } else { scope };
        let http = self.transport.client(&self.registry).map_err(|failure| failure.of(&self.registry))?;
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
        let answer = self.transport.carry(request).await.map_err(|failure| failure.of(&self.registry))?;
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
        while let Some(part) = answer.chunk().await.map_err(|error| Failure::Broken(error).of(&self.registry))? {
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
}

fn basic(credential: &Credential) -> String {
    format!("Basic {}", STANDARD.encode(format!("{}:{}", credential.user, credential.password)))
}
