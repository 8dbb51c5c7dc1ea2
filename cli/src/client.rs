//! HTTPS to the API, for the commands that kubectl does not have.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::Failure;
use crate::kubeconfig::Kubeconfig;

/// The body of a request.
pub(crate) type Sent = UnsyncBoxBody<Bytes, Infallible>;

/// One connection, on which one request follows another.
#[derive(Debug)]
pub(crate) struct Client {
    address: String,
    authorization: Option<String>,
    sender: SendRequest<Sent>,
    connection: JoinHandle<Result<(), hyper::Error>>,
}

impl Client {
    /// Connects to the server of a kubeconfig.
    ///
    /// # Errors
    /// When it cannot be reached, or is not the one whose certificate is expected.
    pub(crate) async fn connect(config: &Kubeconfig) -> Result<Self, Failure> {
        let server = &config.server;
        let address = server.strip_prefix("https://").ok_or_else(|| format!("{server}: want https://"))?;
        let address = address.trim_end_matches('/').to_owned();
        let (host, _port) = address.rsplit_once(':').ok_or_else(|| format!("{server}: want a port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let stream =
            TcpStream::connect(&address).await.map_err(|error| format!("failed to reach {server}: {error}"))?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::new(tls(config)?));
        let stream = connector.connect(ServerName::try_from(host)?, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let authorization = config.token.as_ref().map(|token| format!("Bearer {token}"));
        Ok(Self { address, authorization, sender, connection: tokio::spawn(connection) })
    }

    /// Sends one request; the answer's body may still be on its way. The one before it must have been read.
    ///
    /// # Errors
    /// When the connection is gone, or the API refuses: then with its own message.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, Failure> {
        let content_type = Some(content_type).filter(|_| !body.is_empty());
        self.ask_with(method, path, content_type, Full::new(Bytes::from(body)).boxed_unsync()).await
    }

    /// As [`Self::ask`], with a body that comes piece by piece.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub(crate) async fn ask_with(
        &mut self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Sent,
    ) -> Result<Response<Incoming>, Failure> {
        self.sender.ready().await?;
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.address);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let answer = self.sender.send_request(request.body(body)?).await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body = answer.into_body().collect().await?.to_bytes();
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = value["message"].as_str().map_or_else(|| format!("the API answered {status}"), ToOwned::to_owned);
        Err(message.into())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Sends one request on a connection of its own and reads the answer's JSON.
///
/// # Errors
/// As for [`Client::connect`] and [`Client::ask`].
pub(crate) async fn send(config: &Kubeconfig, method: Method, path: &str, body: Vec<u8>) -> Result<Value, Failure> {
    let mut client = Client::connect(config).await?;
    let answer = client.ask(method, path, "application/octet-stream", body).await?;
    let body = answer.into_body().collect().await?.to_bytes();
    Ok(serde_json::from_slice(&body).unwrap_or_default())
}

fn tls(config: &Kubeconfig) -> Result<ClientConfig, Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&config.authority) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = builder.with_root_certificates(roots);
    Ok(match &config.certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>()?;
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key)?)?
        }
    })
}
