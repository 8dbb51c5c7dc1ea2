//! One HTTPS request to the API, for the commands that kubectl does not have.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;

use crate::kubeconfig::Kubeconfig;

/// Sends one request and reads the answer's JSON.
///
/// # Errors
/// When the API cannot be reached, or refuses: then with its own message.
pub(crate) async fn send(
    config: &Kubeconfig,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<Value, Box<dyn std::error::Error>> {
    let address = config.server.strip_prefix("https://").ok_or_else(|| format!("{}: want https://", config.server))?;
    let address = address.trim_end_matches('/');
    let (host, _port) = address.rsplit_once(':').ok_or_else(|| format!("{}: want a port", config.server))?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let stream =
        TcpStream::connect(address).await.map_err(|error| format!("failed to reach {}: {error}", config.server))?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(tls(config)?));
    let stream = connector.connect(ServerName::try_from(host)?, stream).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", address);
    if let Some(token) = &config.token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let answer = sender.send_request(request.body(Full::new(Bytes::from(body)))?).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    drop(sender);
    connection.abort();
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status.is_success() {
        return Ok(value);
    }
    let message = value["message"].as_str().map_or_else(|| format!("the API answered {status}"), ToOwned::to_owned);
    Err(message.into())
}

fn tls(config: &Kubeconfig) -> Result<ClientConfig, Box<dyn std::error::Error>> {
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
