//! Certificates for registries: good, expired, for somebody else, signed by nobody.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};

/// A certificate and its key, as files.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// An authority, with its own certificate as a file.
#[derive(Debug)]
pub(crate) struct Authority {
    pub(crate) certificate: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    dir: PathBuf,
}

impl Authority {
    /// Founds one that keeps its files in `dir`.
    pub(crate) fn found(dir: &Path, name: &str) -> Self {
        let dir = dir.join(name);
        fs::create_dir_all(&dir).expect("a directory");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = dir.join("authority.pem");
        fs::write(&certificate, params.self_signed(&key).expect("it signs itself").pem()).expect("writable");
        Self { certificate, issuer: Issuer::new(params, key), dir }
    }

    /// Signs a certificate for these names and addresses.
    pub(crate) fn issue(&self, names: &[&str]) -> Pair {
        self.sign(names, |_| {})
    }

    /// Signs one that was good in 2020, and no longer.
    pub(crate) fn issue_expired(&self, names: &[&str]) -> Pair {
        self.sign(names, |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 12, 31);
        })
    }

    fn sign(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = params(names);
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        write(&self.dir, &certificate.pem(), &key)
    }
}

/// A certificate that is its own authority, as `openssl req -x509` makes it.
pub(crate) fn self_signed(dir: &Path, names: &[&str]) -> Pair {
    fs::create_dir_all(dir).expect("a directory");
    let mut params = params(names);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    write(dir, &params.self_signed(&key).expect("a certificate").pem(), &key)
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).expect("names")
}

fn write(dir: &Path, certificate: &str, key: &KeyPair) -> Pair {
    let number = fs::read_dir(dir).expect("a directory").count();
    let pair = Pair { certificate: dir.join(format!("{number}.pem")), key: dir.join(format!("{number}.key")) };
    fs::write(&pair.certificate, certificate).expect("writable");
    fs::write(&pair.key, key.serialize_pem()).expect("writable");
    pair
}
