//! `[tracing]`: where `nrid` exports spans.

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use std::fmt;

/// `[tracing]`: spans of requests and of calls of plugins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TracingSettings {
    /// The collector. Default: none.
    #[serde(deserialize_with = "endpoint")]
    pub endpoint: Option<CollectorUrl>,
}

/// URL of a collector that speaks OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorUrl(String);

/// Text that is no [`CollectorUrl`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCollectorUrl {
    /// Not of the form that is understood.
    #[error("{0:?} is not the URL of a collector: use \"http://HOST:PORT\", without /v1/traces")]
    Form(String),
    /// TLS is not built in.
    #[error("{0:?}: nrid exports without TLS; use http:// and a collector on this host")]
    Tls(String),
}

impl CollectorUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// The text is no URL, or one of `https`.
    pub fn parse(text: &str) -> Result<Self, InvalidCollectorUrl> {
        if text.starts_with("https://") {
            return Err(InvalidCollectorUrl::Tls(text.to_owned()));
        }
        let url = text.trim_end_matches('/');
        let is_url = url.strip_prefix("http://").is_some_and(|rest| {
            let is_allowed = |c: char| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '@' | '\\');
            let authority = rest.split('/').next().unwrap_or_default();
            let port = authority.rsplit_once(':');
            let has_port = port.is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            });
            rest.chars().all(is_allowed) && has_port && !rest.ends_with("/v1/traces")
        });
        if is_url {
            Ok(Self(url.to_owned()))
        } else {
            Err(InvalidCollectorUrl::Form(text.to_owned()))
        }
    }

    /// Returns the URL, without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn endpoint<'de, D: Deserializer<'de>>(d: D) -> Result<Option<CollectorUrl>, D::Error> {
    struct UrlVisitor;
    impl Visitor<'_> for UrlVisitor {
        type Value = CollectorUrl;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a URL")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<CollectorUrl, E> {
            CollectorUrl::parse(text).map_err(E::custom)
        }
    }
    d.deserialize_str(UrlVisitor).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_http_with_a_port_are_accepted() {
        for text in ["http://127.0.0.1:4318", "http://[::1]:4318", "http://collector:80/otlp"] {
            assert_eq!(CollectorUrl::parse(text).unwrap().as_str(), text);
        }
        assert_eq!(CollectorUrl::parse("http://a:1/").unwrap().as_str(), "http://a:1");
        for (text, why) in [
            ("https://collector:4318", "without TLS"),
            ("http://127.0.0.1", "is not the URL"),
            ("http://:4318", "is not the URL"),
            ("http://a:0", "is not the URL"),
            ("http://a:1/v1/traces", "without /v1/traces"),
            ("http://user@a:1", "is not the URL"),
            ("127.0.0.1:4318", "is not the URL"),
            ("", "is not the URL"),
        ] {
            let error = CollectorUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
