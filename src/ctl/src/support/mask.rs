//! Masks what looks like a secret in texts of a support bundle.

use regex::Regex;
use std::borrow::Cow;

/// Patterns of secrets, each with what replaces a match.
const PATTERNS: &[(&str, &str)] = &[
    // Private keys in PEM
    (r"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----)", "$1***$2"),
    // User and password of a URL
    (r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@:'\x22]*:[^\s/@'\x22]*@", "$1***@"),
    // Credentials of HTTP
    (r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{6,}", "$1 ***"),
    // Values of keys, variables and options whose names speak of a secret
    (
        concat!(
            r#"(?i)((?:"|\b|--)[\w.-]*(?:passw|secret|token|api[_-]?key|access[_-]?key|"#,
            r#"private[_-]?key|credential|auth)[\w.-]*["']?\]?\s*[:=]\s*)"#,
            r#"("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,}\]]+)"#
        ),
        "$1***",
    ),
];

/// Replaces secrets in texts.
pub(super) struct Mask(Vec<(Regex, &'static str)>);

impl Mask {
    /// Compiles the patterns.
    ///
    /// # Errors
    /// A pattern is not valid, which a test excludes.
    pub(super) fn new() -> Result<Self, regex::Error> {
        let compiled = |(pattern, by): &(&str, &'static str)| Ok((Regex::new(pattern)?, *by));
        PATTERNS.iter().map(compiled).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the text without secrets.
    pub(super) fn apply(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for (pattern, by) in &self.0 {
            if let Cow::Owned(changed) = pattern.replace_all(&masked, *by) {
                masked = changed;
            }
        }
        masked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_look_like_secrets_are_masked_and_the_rest_stays() {
        let mask = Mask::new().unwrap();
        for (text, expected) in [
            (r#"password = "a \" b" # why"#, "password = *** # why"),
            (
                r#"{"registry-token": "x1", "debug": true}"#,
                r#"{"registry-token": ***, "debug": true}"#,
            ),
            ("env[DB_PASSWORD]=hunter2 env[PATH]=/bin", "env[DB_PASSWORD]=*** env[PATH]=/bin"),
            ("--api-key=abc --level=debug", "--api-key=*** --level=debug"),
            ("Authorization: Bearer abcdefgh", "Authorization: *** ***"),
            ("proxy=http://me:secret@host:3128/", "proxy=http://***@host:3128/"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nab\ncd\n-----END RSA PRIVATE KEY-----",
                "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
            ),
            ("plugin 10-adjust: memory.limit=67108864", "plugin 10-adjust: memory.limit=67108864"),
            ("auths: nothing\nnext line", "auths: ***\nnext line"),
        ] {
            assert_eq!(mask.apply(text), expected);
        }
    }
}
