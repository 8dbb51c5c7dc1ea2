//! Certificates: what is asked of one, how it is issued, and whether one on disk still is what is asked for.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SanType, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;

use super::User;

const DAY_S: u64 = 24 * 60 * 60;
/// The certificate authority outlives the devices. It is never made again.
const CA_DAYS: u64 = 20 * 365;
/// 825 days is the most that some clients accept of a server.
const LEAF_DAYS: u64 = 825;
/// A certificate that ends within this is issued anew at the next start.
const RENEW_DAYS: u64 = 180;
/// Clocks of clients may be behind ours.
const SKEW_S: u64 = DAY_S;
/// In the year 9000.
const LAST_SECOND: u64 = 221_845_392_000;

/// A private key that is none, or an issuer that cannot sign.
pub(super) type IssueError = rcgen::Error;

/// A certificate with its private key.
pub(super) struct Pair {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: KeyPair,
}

impl Pair {
    /// Reads a pair; `None` when the texts are no certificate and key that belong to each other.
    pub(super) fn parse(certificate_pem: &str, key_pem: &str) -> Option<Self> {
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).ok()?;
        let key = KeyPair::from_pem(key_pem).ok()?;
        let fits = parse(&certificate)?.public_key().raw == key.subject_public_key_info();
        fits.then_some(Self { certificate, key })
    }

    /// The private key as rustls takes it.
    pub(super) fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()))
    }
}

/// A new ECDSA P-256 key.
pub(super) fn new_key() -> Result<KeyPair, IssueError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}

/// What a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The API, under these names.
    Server { names: BTreeSet<String>, addresses: BTreeSet<IpAddr> },
    /// A user of the API: Kubernetes reads the common name as the user and organizations as groups (we issue one).
    Client { user: &'static str, group: &'static str },
}

/// The authority's own certificate, signed by itself.
pub(super) fn issue_authority(key: &KeyPair, now_s: u64) -> Result<CertificateDer<'static>, IssueError> {
    let mut params = authority();
    set_validity(&mut params, now_s, CA_DAYS);
    Ok(params.self_signed(key)?.into())
}

/// A certificate for this purpose, with a key of its own.
pub(super) fn issue(purpose: &Purpose, authority_key: &KeyPair, now_s: u64) -> Result<Pair, IssueError> {
    let mut params = CertificateParams::default();
    set_validity(&mut params, now_s, LEAF_DAYS);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.distinguished_name = DistinguishedName::new();
    match purpose {
        Purpose::Server { names, addresses } => {
            params.distinguished_name.push(DnType::CommonName, "coracle-api");
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            for name in names {
                params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
            }
            params.subject_alt_names.extend(addresses.iter().copied().map(SanType::IpAddress));
        }
        Purpose::Client { user, group } => {
            params.distinguished_name.push(DnType::OrganizationName, *group);
            params.distinguished_name.push(DnType::CommonName, *user);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        }
    }
    let key = new_key()?;
    let certificate = params.signed_by(&key, &Issuer::new(authority(), authority_key))?.into();
    Ok(Pair { certificate, key })
}

/// Whether a certificate was issued by this authority for this purpose and is good for a while yet.
pub(super) fn serves(certificate: &CertificateDer<'_>, purpose: &Purpose, ca: &CertificateDer<'_>, now_s: u64) -> bool {
    let (Some(leaf), Some(ca)) = (parse(certificate), parse(ca)) else { return false };
    let start = u64::try_from(leaf.validity().not_before.timestamp()).unwrap_or_default();
    let end = u64::try_from(leaf.validity().not_after.timestamp()).unwrap_or_default();
    let fresh = start <= now_s && now_s + RENEW_DAYS * DAY_S < end;
    let issued = issuer_key(&leaf).is_some_and(|issuer| Some(issuer) == own_key(&ca));
    fresh && issued && purpose_of(&leaf, purpose) == Some(true)
}

fn purpose_of(leaf: &X509Certificate<'_>, want: &Purpose) -> Option<bool> {
    match want {
        Purpose::Client { user, group } => {
            let found = user_of(leaf)?;
            Some(found.name == *user && found.groups == [*group])
        }
        Purpose::Server { names, addresses } => {
            let mut found = (BTreeSet::new(), BTreeSet::new());
            for name in &leaf.subject_alternative_name().ok()??.value.general_names {
                match name {
                    GeneralName::DNSName(name) => _ = found.0.insert((*name).to_owned()),
                    GeneralName::IPAddress(bytes) => _ = found.1.insert(address(bytes)?),
                    _ => return Some(false),
                }
            }
            Some(found == (names.clone(), addresses.clone()))
        }
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

fn issuer_key<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(found) => found.key_identifier.as_ref().map(|id| id.0),
        _ => None,
    })
}

fn own_key<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(found) => Some(found.0),
        _ => None,
    })
}

/// The user that a verified client certificate names: common name and organizations.
pub(super) fn user_of(certificate: &X509Certificate<'_>) -> Option<User> {
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok().map(str::to_owned)).collect();
    (!name.is_empty()).then_some(User { name, groups })
}

/// Reads a certificate; `None` when it is none, or when something follows it.
pub(super) fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    X509Certificate::from_der(certificate).ok().filter(|(rest, _)| rest.is_empty()).map(|(_, parsed)| parsed)
}

/// Everything of the authority that its children show. The same in every cluster; the key identifiers tell them apart.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "coracle-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

/// From a day ago until so many days ahead.
fn set_validity(params: &mut CertificateParams, now_s: u64, days: u64) {
    // A clock that is off by thousands of years must not end in a date that cannot be written.
    let now_s = now_s.min(LAST_SECOND);
    params.not_before = date_time_ymd(1970, 1, 1) + Duration::from_secs(now_s.saturating_sub(SKEW_S));
    params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(now_s + days * DAY_S);
}
