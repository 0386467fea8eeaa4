//! `[metrics]`: where `nrid` serves its metrics. Only sockets that nobody on another host can reach
//! are accepted, since `nrid` runs as root and asks no client for a password.

use crate::reference::section;
use core::net::{AddrParseError, SocketAddr};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use std::{fmt, path::PathBuf};

/// Prefix of the path of a unix socket.
const UNIX: &str = "unix:";

/// Maximum length of the path of a unix socket, of which the kernel has 108 bytes with the zero.
const MAX_SOCKET_PATH: usize = 107;

section! {
    /// Metrics for Prometheus; [operations](operations.md#metrics) lists them. A reload takes
    /// changes.
    #[section("[metrics]", "Metrics")]
    #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct MetricsSettings {
        /// Where metrics are served, by HTTP at `/metrics`. Only root and the user of `nrid` may
        /// connect to a unix socket, and every user of the host to a port. Addresses that other
        /// hosts can reach are refused.
        #[key(
            Text("`\"unix:/PATH\"`, or a loopback address with a port"),
            Derived("no metrics are served."),
            "\"unix:/run/nri-container-runtime/metrics.sock\""
        )]
        #[serde(deserialize_with = "listen")]
        pub listen: Option<MetricsAddress>,
    }
}

/// Address at which metrics are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsAddress {
    /// A unix socket.
    Unix(PathBuf),
    /// A port of a loopback address.
    Tcp(SocketAddr),
}

/// Text that is no [`MetricsAddress`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMetricsAddress {
    /// Neither a unix socket nor an address with a port.
    #[error(
        "{text:?} is not an address: use \"unix:/PATH\", or a loopback address with a port such as \
         \"127.0.0.1:9464\" ({source})"
    )]
    Form {
        /// The text.
        text: String,
        /// Why it is no address with a port.
        source: AddrParseError,
    },
    /// The path of the socket is relative, or too long.
    #[error(
        "{0:?} is not an absolute path of at most {MAX_SOCKET_PATH} bytes, as unix sockets have"
    )]
    Path(String),
    /// An address that other hosts can reach.
    #[error(
        "{0} is not a loopback address: metrics are served without a password, so only on \
         127.0.0.0/8, [::1] or a unix socket"
    )]
    NotLoopback(SocketAddr),
    /// The kernel would choose a port that nobody knows.
    #[error("{0} has no port")]
    NoPort(SocketAddr),
}

impl MetricsAddress {
    /// Parses an address.
    ///
    /// # Errors
    /// The text is no address, or one that other hosts can reach.
    pub fn parse(text: &str) -> Result<Self, InvalidMetricsAddress> {
        if let Some(path) = text.strip_prefix(UNIX) {
            let is_path = path.starts_with('/') && path.len() <= MAX_SOCKET_PATH;
            return if is_path {
                Ok(Self::Unix(path.into()))
            } else {
                Err(InvalidMetricsAddress::Path(path.to_owned()))
            };
        }
        let address: SocketAddr = text
            .parse()
            .map_err(|source| InvalidMetricsAddress::Form { text: text.to_owned(), source })?;
        if !address.ip().is_loopback() {
            return Err(InvalidMetricsAddress::NotLoopback(address));
        }
        if address.port() == 0 {
            return Err(InvalidMetricsAddress::NoPort(address));
        }
        Ok(Self::Tcp(address))
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

fn listen<'de, D: Deserializer<'de>>(d: D) -> Result<Option<MetricsAddress>, D::Error> {
    struct AddressVisitor;
    impl Visitor<'_> for AddressVisitor {
        type Value = MetricsAddress;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an address")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<MetricsAddress, E> {
            MetricsAddress::parse(text).map_err(E::custom)
        }
    }
    d.deserialize_str(AddressVisitor).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_host_are_accepted() {
        for text in ["unix:/run/x/metrics.sock", "127.0.0.1:9464", "127.1.2.3:1", "[::1]:9464"] {
            assert_eq!(MetricsAddress::parse(text).unwrap().to_string(), text);
        }
        for (text, why) in [
            ("0.0.0.0:9464", "is not a loopback address"),
            ("[::]:9464", "is not a loopback address"),
            ("192.0.2.1:9464", "is not a loopback address"),
            ("[::ffff:127.0.0.1]:9464", "is not a loopback address"),
            ("127.0.0.1:0", "has no port"),
            ("127.0.0.1", "is not an address"),
            (":9464", "is not an address"),
            ("localhost:9464", "is not an address"),
            ("", "is not an address"),
            ("unix:metrics.sock", "is not an absolute path"),
            ("unix:", "is not an absolute path"),
            ("/run/metrics.sock", "is not an address"),
        ] {
            let error = MetricsAddress::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let long = format!("unix:/{}", "x".repeat(MAX_SOCKET_PATH));
        assert!(MetricsAddress::parse(&long).is_err());
    }
}
