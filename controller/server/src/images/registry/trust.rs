//! Which registries are believed to be who they say they are: those with a certificate that leads to an authority of the
//! system or of the operator, or with the very certificate that the operator has named.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::{ASN1Time, FromDer as _};

/// A file of certificates is smaller; the system's own has a quarter of a megabyte.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Names of a certificate that are shown; some have hundreds.
const MAX_NAMES: usize = 4;

/// Why a file names no certificate authority. The text fits after "failed to".
#[derive(Debug, thiserror::Error)]
#[error("read certificates of registries from {path}: {what}")]
pub struct AuthoritiesError {
    path: PathBuf,
    what: String,
}

/// Certificates that are trusted beside the system's: those of authorities, or of registries themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorities(Vec<CertificateDer<'static>>);

impl Authorities {
    /// Reads certificates from these files, each with one or more of them in PEM.
    ///
    /// # Errors
    /// When one cannot be read, or holds none.
    pub fn read(paths: &[PathBuf]) -> Result<Self, AuthoritiesError> {
        let mut all = Vec::new();
        for path in paths {
            let found = certificates(path).map_err(|what| AuthoritiesError { path: path.clone(), what })?;
            all.extend(found);
        }
        Ok(Self(all))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let size_bytes = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size_bytes > MAX_FILE_BYTES {
        return Err(format!("it has {size_bytes} bytes, and may have {MAX_FILE_BYTES}"));
    }
    let text = fs::read(path).map_err(|error| error.to_string())?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|_| "it is no PEM file".to_owned())?;
    if found.is_empty() {
        return Err("there is no \"BEGIN CERTIFICATE\" in it".to_owned());
    }
    for certificate in &found {
        // Better now than at the first pull.
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).map_err(|_| "a certificate in it is damaged".to_owned())?;
    }
    Ok(found)
}

/// How TLS is spoken with registries. The system's certificates are read anew each time (`SSL_CERT_FILE` and `SSL_CERT_DIR`
/// name others). `is_needed` is false for those who may do without TLS.
pub(super) fn tls(authorities: &Authorities, is_needed: bool) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    roots.add_parsable_certificates(authorities.0.iter().cloned());
    if roots.is_empty() && is_needed {
        return Err("this machine has no root certificates; install ca-certificates".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    if roots.is_empty() {
        return Ok(builder.with_root_certificates(roots).with_no_client_auth());
    }
    let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let chains = chains.map_err(|error| error.to_string())?;
    let verifier = Arc::new(Verifier { chains, named: authorities.0.clone() });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// The usual checks; and what the usual ones refuse: a registry whose own certificate is an authority's, signed by itself.
/// That is what `openssl req -x509` makes, and what every guide to a private registry begins with.
#[derive(Debug)]
struct Verifier {
    chains: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.named.iter().any(|named| named == end_entity) {
            return self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        let (_, certificate) = X509Certificate::from_der(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        let now = i64::try_from(now.as_secs()).ok().and_then(|now| ASN1Time::from_timestamp(now).ok());
        let now = now.ok_or(CertificateError::Expired)?;
        let validity = certificate.validity();
        if now < validity.not_before {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > validity.not_after {
            return Err(CertificateError::Expired.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// What is wrong with a certificate, for whoever has to mend it.
pub(super) fn words(error: &CertificateError) -> String {
    let day = |time: &UnixTime| {
        let time = i64::try_from(time.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        let text = time.unwrap_or(Timestamp::UNIX_EPOCH).to_string();
        text.split('T').next().unwrap_or_default().to_owned()
    };
    match error {
        CertificateError::UnknownIssuer => {
            "its certificate is signed by nobody whom this controller trusts (--registry-ca FILE names an authority)"
                .to_owned()
        }
        CertificateError::ExpiredContext { not_after, .. } => format!("its certificate expired on {}", day(not_after)),
        CertificateError::Expired => "its certificate has expired".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("its certificate is not valid before {}; is the clock of this machine right?", day(not_before))
        }
        CertificateError::NotValidYet => {
            "its certificate is not valid yet; is the clock of this machine right?".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            format!("its certificate is for no name at all, and not for {}", expected.to_str())
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let mut names: Vec<&str> = presented.iter().take(MAX_NAMES).map(|name| bare(name)).collect();
            if presented.len() > MAX_NAMES {
                names.push("others");
            }
            format!("its certificate is for {}, and not for {}", names.join(", "), expected.to_str())
        }
        other => format!("its certificate is not accepted: {other}"),
    }
}

/// The library shows names as `DnsName("a.b")`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_certificate_is_refused_by_its_name() {
        let dir = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (name, text, word) in [("empty", "", "BEGIN CERTIFICATE"), ("damaged", damaged, "damaged")] {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap_or_else(|error| panic!("{error}"));
            let refused = Authorities::read(&[path]).expect_err("it is refused").to_string();
            assert!(refused.contains(name) && refused.contains(word), "{refused}");
        }
        let missing = Authorities::read(&[dir.path().join("missing")]).expect_err("it is refused").to_string();
        assert!(missing.contains("No such file"), "{missing}");
    }

    // POD-09
    #[test]
    fn what_is_wrong_with_a_certificate_is_told_in_words() {
        let name = |text: &str| ServerName::try_from(text.to_owned()).unwrap_or_else(|error| panic!("{error}"));
        let at = |seconds| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        let presented = vec!["DnsName(\"a.example.com\")".to_owned(), "IpAddress(10.0.0.1)".to_owned()];
        for (error, text) in [
            (
                CertificateError::NotValidForNameContext { expected: name("b.example.com"), presented },
                "its certificate is for a.example.com, 10.0.0.1, and not for b.example.com",
            ),
            (
                CertificateError::ExpiredContext { time: at(1_800_000_000), not_after: at(1_700_000_000) },
                "its certificate expired on 2023-11-14",
            ),
        ] {
            assert_eq!(words(&error), text);
        }
    }
}
