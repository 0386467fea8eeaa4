//! Digests of files, in the form of OCI: `sha256:` and hexadecimal.

use serde::{Deserialize, Deserializer, de::Error};
use std::fmt;

/// Digest of a file by SHA-256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest(String);

impl Digest {
    /// Parses `sha256:` and 64 hexadecimal digits in lower case.
    pub fn new(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:")?;
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (digits.len() == 64 && digits.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Self::new(&text).ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} is not a digest: sha256: and 64 hexadecimal digits in lower case, as \
                 `sha256sum` prints them"
            ))
        })
    }
}
