//! Identity of a plugin: a two-digit index that orders the plugins, and a name.

use std::fmt;

/// Index of a plugin: two decimal digits. Plugins are called in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginIndex(u8);

/// Name of a plugin: one or more of `A-Z a-z 0-9 _ . + -`, at most [`PluginName::LONGEST`] bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginName(String);

/// Index and name of a plugin, displayed as `NN-name`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId {
    /// Index, which orders the plugins.
    pub index: PluginIndex,
    /// Name without the index.
    pub name: PluginName,
}

/// Reason why the identity of a plugin is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPlugin {
    /// The index is not exactly two digits.
    #[error("plugin index {0:?} is not two digits")]
    Index(String),
    /// The name is empty, or has a character that is not allowed.
    #[error("plugin name {0:?} is not one or more of A-Z a-z 0-9 _ . + -")]
    Name(String),
    /// The name has this many bytes, more than [`PluginName::LONGEST`].
    #[error("plugin name of {0} bytes is longer than {longest}", longest = PluginName::LONGEST)]
    LongName(usize),
    /// The file name is not `NN-name`.
    #[error("plugin file name {0:?} is not of the form NN-name")]
    FileName(String),
}

/// Cuts an invalid index or name to 64 characters for logs, since a plugin can send any text.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

impl PluginIndex {
    /// Parses an index.
    ///
    /// # Errors
    /// The text is not two ASCII digits.
    pub fn parse(s: &str) -> Result<Self, InvalidPlugin> {
        match s.as_bytes() {
            [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Ok(Self((a - b'0') * 10 + (b - b'0'))),
            _ => Err(InvalidPlugin::Index(shortened(s))),
        }
    }
}

impl PluginName {
    /// Length limit of a name in bytes: a file name, here `NN-name`, has at most 255 bytes.
    pub const LONGEST: usize = 252;

    /// Parses a name.
    ///
    /// # Errors
    /// The name is empty, too long, or has a character that is not allowed.
    pub fn parse(s: &str) -> Result<Self, InvalidPlugin> {
        if s.len() > Self::LONGEST {
            return Err(InvalidPlugin::LongName(s.len()));
        }
        let is_allowed =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'+' | b'-');
        if !s.is_empty() && s.bytes().all(is_allowed) {
            Ok(Self(s.to_owned()))
        } else {
            Err(InvalidPlugin::Name(shortened(s)))
        }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PluginId {
    /// Parses index and name.
    ///
    /// # Errors
    /// The index or the name is invalid.
    pub fn new(index: &str, name: &str) -> Result<Self, InvalidPlugin> {
        Ok(Self { index: PluginIndex::parse(index)?, name: PluginName::parse(name)? })
    }

    /// Parses a file name of the form `NN-name`.
    ///
    /// # Errors
    /// The file name has another form.
    pub fn from_file_name(file: &str) -> Result<Self, InvalidPlugin> {
        let (index, name) =
            file.split_once('-').ok_or_else(|| InvalidPlugin::FileName(file.to_owned()))?;
        Self::new(index, name).map_err(|_| InvalidPlugin::FileName(file.to_owned()))
    }
}

impl fmt::Display for PluginIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}", self.0)
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.index, self.name)
    }
}

macro_rules! debug_as_display {
    ($($t:ty),*) => {$(impl fmt::Debug for $t {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { fmt::Display::fmt(self, f) }
    })*};
}
debug_as_display!(PluginIndex, PluginName, PluginId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_names_of_the_form_nn_name_are_accepted() {
        assert_eq!(PluginId::from_file_name("05-a-b.c+d_e").unwrap().to_string(), "05-a-b.c+d_e");
        for bad in ["", "5-a", "005-a", "05", "05-", "-a", "05-a/b", "xx-a", "05 -a", "٠٥-a"] {
            assert!(PluginId::from_file_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn long_names_are_refused_and_shortened_in_errors() {
        let parse = |n: usize| PluginName::parse(&"x".repeat(n));
        assert!(parse(PluginName::LONGEST).is_ok());
        let too_long = PluginName::LONGEST + 1;
        assert_eq!(parse(too_long), Err(InvalidPlugin::LongName(too_long)));
        let error = PluginIndex::parse(&"1".repeat(1 << 20)).unwrap_err().to_string();
        assert!(error.len() < 200, "{}", error.len());
    }

    #[test]
    fn indexes_are_ordered_by_number() {
        assert!(PluginIndex::parse("09").unwrap() < PluginIndex::parse("10").unwrap());
    }
}
