//! Patterns of names, labels and annotations, by which rules and quotas choose containers.

use glob::Pattern;
use serde::Deserialize;
use std::{collections::BTreeMap, fmt};

/// A pattern of the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(Pattern);

impl Glob {
    /// Whether the pattern matches the whole text.
    pub fn matches(&self, text: &str) -> bool {
        self.0.matches(text)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Pattern::new(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// Whether each pattern matches its text. What has no pattern matches.
pub(crate) fn all_match<const N: usize>(patterns: [(&Option<Glob>, &str); N]) -> bool {
    patterns.iter().all(|(glob, text)| glob.as_ref().is_none_or(|glob| glob.matches(text)))
}

/// Whether there is an entry for each key whose value its pattern matches.
pub(crate) fn entries_match(
    patterns: &BTreeMap<String, Glob>,
    values: &BTreeMap<String, String>,
) -> bool {
    let has = |(key, glob): (&String, &Glob)| values.get(key).is_some_and(|v| glob.matches(v));
    patterns.iter().all(has)
}
