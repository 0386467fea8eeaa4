//! Arguments, paths and variables in JSON: text if they are UTF-8, bytes otherwise.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

/// An `OsString`; in JSON a string, or `{"bytes": [..]}` if it is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OsText(pub OsString);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form<'a> {
    Text(std::borrow::Cow<'a, str>),
    Bytes { bytes: Vec<u8> },
}

impl OsText {
    /// Returns the text as a path.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl Serialize for OsText {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => Form::Text(text.into()).serialize(s),
            None => Form::Bytes { bytes: self.0.as_bytes().to_vec() }.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for OsText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text: OsString = match Form::deserialize(d)? {
            Form::Text(text) => text.into_owned().into(),
            Form::Bytes { bytes } => OsString::from_vec(bytes),
        };
        if text.as_bytes().contains(&0) {
            return Err(D::Error::custom("a NUL byte in an argument, path or variable"));
        }
        Ok(Self(text))
    }
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for OsText {
    fn from(text: &T) -> Self {
        Self(text.as_ref().to_owned())
    }
}

impl From<OsString> for OsText {
    fn from(text: OsString) -> Self {
        Self(text)
    }
}

impl AsRef<OsStr> for OsText {
    fn as_ref(&self) -> &OsStr {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_but_nul_are_encoded_without_loss() {
        for bytes in
            [&b"plain"[..], b"", "\u{fc}ml".as_bytes(), b"\xff\xfe", b"new\nline \"quote\""]
        {
            let text = OsText(OsString::from_vec(bytes.to_vec()));
            let json = serde_json::to_string(&text).unwrap();
            assert_eq!(serde_json::from_str::<OsText>(&json).unwrap(), text, "{json}");
        }
        assert!(serde_json::from_str::<OsText>("\"a\\u0000b\"").is_err());
    }
}
