//! Removal markers: a key with a leading `-` removes that key.

/// Returns the key that `key` removes; `None` if `key` has no removal marker.
///
/// A single `-` is an ordinary key, since no key follows the dash.
pub fn removal_key(key: &str) -> Option<&str> {
    key.strip_prefix('-').filter(|k| !k.is_empty())
}

/// A parsed key of an adjustment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked<'a> {
    /// The entry sets this key.
    Set(&'a str),
    /// The entry removes this key.
    Remove(&'a str),
}

impl<'a> Marked<'a> {
    /// Parses a key.
    pub fn parse(key: &'a str) -> Self {
        removal_key(key).map_or(Self::Set(key), Self::Remove)
    }

    /// Whether an entry with the key `key` sets `name`. An entry with the key `-a` never sets `-a`:
    /// it removes `a`.
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
    fn a_leading_dash_removes_the_key_after_it() {
        assert_eq!(Marked::parse("-a"), Marked::Remove("a"));
        assert_eq!(Marked::parse("--a"), Marked::Remove("-a"));
        assert_eq!(Marked::parse("a-"), Marked::Set("a-"));
        assert_eq!(Marked::parse("-"), Marked::Set("-"));
        assert!(Marked::sets("a", "a") && Marked::sets("-", "-"));
        assert!(!Marked::sets("-a", "a") && !Marked::sets("-a", "-a"));
    }
}
