//! Removal markers: a key with a leading `-` removes that key.

/// The key without its marker, if `key` is a removal.
///
/// A single `-` is no marker, since no key follows.
pub fn removal_key(key: &str) -> Option<&str> {
    key.strip_prefix('-').filter(|k| !k.is_empty())
}

/// A parsed key of an adjustment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked<'a> {
    /// Set this key.
    Set(&'a str),
    /// Remove this key.
    Remove(&'a str),
}

impl<'a> Marked<'a> {
    /// Reads a key.
    pub fn parse(key: &'a str) -> Self {
        removal_key(key).map_or(Self::Set(key), Self::Remove)
    }

    /// Whether an entry with this key sets `name`. One with the key `-a` does not: it removes `a`,
    /// and `-a` is removed by `--a`.
    pub fn sets(key: &str, name: &str) -> bool {
        Marked::parse(key) == Marked::Set(name)
    }

    /// Returns the key without the marker.
    pub fn key(self) -> &'a str {
        match self {
            Self::Set(k) | Self::Remove(k) => k,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leading_dash_removes_the_key_behind_it() {
        assert_eq!(Marked::parse("-a"), Marked::Remove("a"));
        assert_eq!(Marked::parse("--a"), Marked::Remove("-a"));
        assert_eq!(Marked::parse("a-"), Marked::Set("a-"));
        assert_eq!(Marked::parse("-"), Marked::Set("-"));
        assert!(Marked::sets("a", "a") && Marked::sets("-", "-"));
        assert!(!Marked::sets("-a", "a") && !Marked::sets("-a", "-a"));
    }
}
