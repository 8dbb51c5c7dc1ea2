use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConnection};

use super::*;

const NOW_S: u64 = 1_795_232_430;
const YEAR_S: u64 = 365 * 24 * 60 * 60;

struct House {
    scratch: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        Self { scratch: tempfile::tempdir().expect("a temporary directory") }
    }

    fn open_as(&self, listen: &str, now_s: u64) -> Result<Keys, KeysError> {
        let directory = DataDir::open(self.scratch.path()).expect("a data directory");
        let listen = listen.parse().expect("an address");
        Keys::open_at(&directory, &server_purpose(listen, Some("Harbour")), now_s)
    }

    fn open(&self) -> Result<Keys, KeysError> {
        self.open_as("0.0.0.0", NOW_S)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join("keys").join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).expect("readable")
    }
}

#[test]
fn keys_are_made_once_and_private() {
    let house = House::new();
    let first = house.open().expect("they are made");
    let (cluster, artifact, token) = (first.cluster(), first.artifact().to_bytes(), first.0.token.clone());
    let kubeconfig = first.admin_kubeconfig("https://127.0.0.1:6443");
    drop(first);
    let again = house.open().expect("they are read");
    assert_eq!((again.cluster(), again.artifact().to_bytes(), &again.0.token), (cluster, artifact, &token));
    assert_eq!(again.admin_kubeconfig("https://127.0.0.1:6443"), kubeconfig);
    for entry in fs::read_dir(house.scratch.path().join("keys")).expect("readable") {
        let entry = entry.expect("readable");
        let mode = entry.metadata().expect("it exists").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
    }
    assert!(House::new().open().expect("they are made").cluster() != cluster);
}

#[test]
fn a_start_that_broke_off_is_taken_up_where_nothing_was_shown_yet() {
    let house = House::new();
    drop(house.open().expect("they are made"));
    let authority = house.text("ca.crt");
    fs::remove_file(house.file("cluster-id")).expect("it is there");
    fs::remove_file(house.file("ca.crt")).expect("it is there");
    drop(house.open().expect("what is missing is made"));
    assert_ne!(house.text("ca.crt"), authority);
}

#[test]
fn a_lost_key_is_not_made_anew_behind_the_agents_backs() {
    for name in ["artifact.key", "ca.key", "ca.crt"] {
        let house = House::new();
        drop(house.open().expect("they are made"));
        fs::remove_file(house.file(name)).expect("it is there");
        let Err(error) = house.open() else { panic!("{name} was made again") };
        assert!(matches!(&error, KeysError::Lost { path } if path.ends_with(name)), "{error}");
    }
}

#[test]
fn a_damaged_key_is_named_with_what_would_be_right() {
    for name in ["artifact.key", "ca.key", "ca.crt", "cluster-id"] {
        let house = House::new();
        drop(house.open().expect("they are made"));
        fs::write(house.file(name), [0xff; 40]).expect("writable");
        let Err(error) = house.open() else { panic!("{name} was accepted") };
        assert!(matches!(&error, KeysError::Damaged { .. }), "{error}");
    }
}

#[test]
fn an_authority_with_somebody_elses_key_is_refused() {
    let (house, other) = (House::new(), House::new());
    drop(house.open().expect("they are made"));
    drop(other.open().expect("they are made"));
    fs::copy(other.file("ca.key"), house.file("ca.key")).expect("writable");
    assert!(matches!(house.open(), Err(KeysError::Damaged { .. })));
}

#[test]
fn the_servers_certificate_is_renewed_when_it_nears_its_end_or_is_called_otherwise() {
    let house = House::new();
    drop(house.open().expect("they are made"));
    let first = house.text("server.crt");
    drop(house.open_as("0.0.0.0", NOW_S + YEAR_S).expect("they are read"));
    assert_eq!(house.text("server.crt"), first);
    drop(house.open_as("192.0.2.7", NOW_S + YEAR_S).expect("they are read"));
    let second = house.text("server.crt");
    assert_ne!(second, first, "another address");
    drop(house.open_as("192.0.2.7", NOW_S + 3 * YEAR_S).expect("they are read"));
    let third = house.text("server.crt");
    assert_ne!(third, second, "near its end");
    fs::remove_file(house.file("server.key")).expect("it is there");
    drop(house.open_as("192.0.2.7", NOW_S + 3 * YEAR_S).expect("they are read"));
    assert_ne!(house.text("server.crt"), third, "without its key");
}

#[test]
fn host_names_that_no_certificate_can_hold_are_left_out() {
    for name in ["my host", "-x", "a..b", "10.0.0.1", "", "ä"] {
        assert!(!is_dns_name(name), "{name}");
    }
    assert!(is_dns_name("edge-7.example"));
}

#[test]
fn the_kubeconfig_is_complete_and_private() {
    let house = House::new();
    let keys = house.open().expect("they are made");
    let path = house.scratch.path().join("admin.kubeconfig");
    keys.write_admin_kubeconfig(&path, "https://127.0.0.1:6443").expect("writable");
    let text = fs::read_to_string(&path).expect("readable");
    assert!(text.contains("    server: \"https://127.0.0.1:6443\"\n"), "{text}");
    for field in ["certificate-authority-data", "client-certificate-data", "client-key-data"] {
        let value = text.split(field).nth(1).and_then(|rest| rest[2..].lines().next()).expect("the field is there");
        let decoded = BASE64.decode(value).expect("base64");
        assert!(decoded.starts_with(b"-----BEGIN "), "{field}");
    }
    assert_eq!(fs::metadata(&path).expect("it exists").permissions().mode() & 0o777, 0o600);
}

#[test]
fn only_the_whole_token_is_the_administrators() {
    let house = House::new();
    let keys = house.open().expect("they are made");
    let token = fs::read_to_string(house.scratch.path().join("admin.token")).expect("readable");
    assert!(keys.is_admin_token(token.trim_end()));
    assert!(!keys.is_admin_token(&token) && !keys.is_admin_token(&token[1..]) && !keys.is_admin_token(""));
    assert_eq!(keys.admin_user().groups, ["system:masters"]);
}

/// Does a handshake in memory and tells whom the server saw and which protocol was agreed on.
fn shake(server: &Keys, trusts: &Keys, client: Option<&Keys>) -> Result<(Option<User>, Vec<u8>), rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(trusts.authority().clone()).expect("a root");
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(roots);
    let mut config = match client {
        Some(keys) => {
            let admin = &keys.0.admin;
            config.with_client_auth_cert(vec![admin.certificate.clone()], admin.private_key())?
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let mut client = ClientConnection::new(Arc::new(config), name)?;
    let mut server = ServerConnection::new(server.server_tls())?;
    let mut wire = Vec::new();
    while client.is_handshaking() || server.is_handshaking() {
        wire.clear();
        client.write_tls(&mut wire).expect("memory");
        server.read_tls(&mut wire.as_slice()).expect("memory");
        server.process_new_packets()?;
        wire.clear();
        server.write_tls(&mut wire).expect("memory");
        client.read_tls(&mut wire.as_slice()).expect("memory");
        client.process_new_packets()?;
    }
    client.writer().write_all(b"hello").expect("memory");
    wire.clear();
    client.write_tls(&mut wire).expect("memory");
    server.read_tls(&mut wire.as_slice()).expect("memory");
    server.process_new_packets()?;
    let mut heard = [0; 5];
    server.reader().read_exact(&mut heard).expect("memory");
    assert_eq!(&heard, b"hello");
    let seen = server.peer_certificates().and_then(|chain| identity_of(&chain[0]));
    Ok((seen, server.alpn_protocol().unwrap_or_default().to_vec()))
}

#[test]
fn a_client_is_the_user_in_its_certificate_or_nobody_yet() {
    // The wall clock is the verifier's, so these certificates are made by it as well.
    let (scratch, other_scratch) = (House::new(), House::new());
    let open = |house: &House| {
        let directory = DataDir::open(house.scratch.path()).expect("a data directory");
        Keys::open(&directory, Ipv4Addr::UNSPECIFIED.into()).expect("they are made")
    };
    let (keys, other) = (open(&scratch), open(&other_scratch));
    let (user, protocol) = shake(&keys, &keys, Some(&keys)).expect("the administrator is let in");
    assert_eq!(user, Some(keys.admin_user()));
    assert_eq!(protocol, b"http/1.1");
    let (user, _) = shake(&keys, &keys, None).expect("without a certificate HTTP decides");
    assert_eq!(user, None);
    assert!(shake(&keys, &other, None).is_err(), "a client of another cluster does not trust this one");
    assert!(shake(&keys, &keys, Some(&other)).is_err(), "another cluster's administrator is nobody here");
}
