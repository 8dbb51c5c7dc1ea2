//! Where a broker is.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::session::LinkError;

const SCHEME: &str = "mqtt://";
const DEFAULT_PORT: u16 = 1883;

/// The address of a broker, as `mqtt://host:port`. The port is 1883 if it is not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerUrl {
    host: String,
    port: u16,
}

/// A text that is not the address of a broker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{found}\" is no broker: {wrong}, want mqtt://host:port")]
pub struct ParseBrokerUrlError {
    found: String,
    wrong: &'static str,
}

impl BrokerUrl {
    /// A name, or an IP address; IPv6 without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The TCP port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Whether nothing on this way leaves the machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }

    /// Refuses what would travel in the clear between machines (DESIGN, decision 13).
    ///
    /// # Errors
    /// For an address that is not loopback.
    pub fn refuse_plaintext(&self) -> Result<(), LinkError> {
        if self.is_loopback() { Ok(()) } else { Err(LinkError::Plaintext(self.clone())) }
    }

    /// The host as it stands before `:port`: an IPv6 address in brackets.
    pub(crate) fn host_of_authority(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl From<SocketAddr> for BrokerUrl {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port() }
    }
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}:{}", self.host_of_authority(), self.port)
    }
}

impl FromStr for BrokerUrl {
    type Err = ParseBrokerUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |wrong| ParseBrokerUrlError { found: text.to_owned(), wrong };
        let authority = text.strip_prefix(SCHEME).ok_or_else(|| error("it does not start with mqtt://"))?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(|| error("a bracket is not closed"))?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| error("no IPv6 address is in the brackets"))?;
                (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').unwrap_or(port)) })
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
        if host.is_empty() || !host.bytes().all(plain) {
            return Err(error("the host is empty or has a character that no host has"));
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|port| *port != 0).ok_or_else(|| error("the port is not from 1 to 65535"))?
            }
            Some(_) => return Err(error("the port is not from 1 to 65535")),
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, host, port, shown) in [
            ("mqtt://127.0.0.1:1883", "127.0.0.1", 1883, "mqtt://127.0.0.1:1883"),
            ("mqtt://broker.example", "broker.example", 1883, "mqtt://broker.example:1883"),
            ("mqtt://localhost:18830/", "localhost", 18830, "mqtt://localhost:18830"),
            ("mqtt://[::1]:1884", "::1", 1884, "mqtt://[::1]:1884"),
            ("mqtt://[::1]", "::1", 1883, "mqtt://[::1]:1883"),
        ] {
            let url: BrokerUrl = text.parse().expect(text);
            assert_eq!((url.host(), url.port(), url.to_string().as_str()), (host, port, shown));
        }
    }

    #[test]
    fn texts_that_are_no_address_are_refused_with_what_is_wrong() {
        for (text, wrong) in [
            ("", "does not start"),
            ("127.0.0.1:1883", "does not start"),
            ("mqtts://h:1", "does not start"),
            ("mqtt://", "the host"),
            ("mqtt://:1883", "the host"),
            ("mqtt://user@host", "the host"),
            ("mqtt://host/path", "the host"),
            ("mqtt://host:", "the port"),
            ("mqtt://host:0", "the port"),
            ("mqtt://host:65536", "the port"),
            ("mqtt://host:+1", "the port"),
            ("mqtt://[::1", "bracket"),
            ("mqtt://[host]:1", "IPv6"),
        ] {
            let error = text.parse::<BrokerUrl>().expect_err(text).to_string();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }

    #[test]
    fn plaintext_is_refused_outside_loopback() {
        for text in ["mqtt://127.0.0.1", "mqtt://127.9.9.9", "mqtt://localhost", "mqtt://[::1]"] {
            let url: BrokerUrl = text.parse().expect(text);
            assert!(url.refuse_plaintext().is_ok(), "{text}");
        }
        for text in ["mqtt://10.0.0.1", "mqtt://localhost.example", "mqtt://[2001:db8::1]", "mqtt://0.0.0.0"] {
            let url: BrokerUrl = text.parse().expect(text);
            let error = url.refuse_plaintext().expect_err(text).to_string();
            assert!(error.contains("plaintext MQTT is refused outside loopback"), "{error}");
        }
    }
}
