//! The report that a container prints of itself (see `probe.sh`).

use std::collections::BTreeMap;

/// Names and values, as the container saw them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report(pub BTreeMap<String, String>);

impl Report {
    /// From the probe's output.
    pub fn parse(text: &str) -> Self {
        let pair =
            |line: &str| line.split_once('=').map(|(k, v)| (k.to_owned(), v.trim_end().to_owned()));
        Self(text.lines().filter_map(pair).collect())
    }

    /// A value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Compares with expected values; a name with alternatives, `a|b`, means the one that exists,
    /// and so does a value.
    ///
    /// # Panics
    /// They differ; the message has all differences.
    #[track_caller]
    pub fn check(&self, expected: &[(&str, &str)]) {
        let wrong: Vec<_> =
            expected.iter().filter_map(|(names, values)| self.difference(names, values)).collect();
        assert!(wrong.is_empty(), "{}\nof {:#?}", wrong.join("\n"), self.0);
    }

    fn difference(&self, names: &str, values: &str) -> Option<String> {
        match names.split('|').find_map(|name| self.get(name)) {
            Some(value) if values.split('|').any(|v| v == value) => None,
            Some(value) => Some(format!("{names}: {value:?} instead of {values:?}")),
            None => Some(format!("{names}: not there")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_values_are_compared() {
        let seen = Report::parse("a=1\nb=x=y\r\nno value\n");
        seen.check(&[("a", "1"), ("z|b", "q|x=y")]);
        assert_eq!(seen.difference("a", "2").unwrap(), "a: \"1\" instead of \"2\"");
        assert_eq!(seen.difference("c|d", "2").unwrap(), "c|d: not there");
    }
}
