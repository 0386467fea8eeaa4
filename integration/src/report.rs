//! Parses the report that the probe prints in a container (see `probe.sh`).

use std::collections::BTreeMap;

/// Names and values, as the container saw them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report(pub BTreeMap<String, String>);

impl Report {
    /// Parses the probe's output.
    pub fn parse(text: &str) -> Self {
        let pair =
            |line: &str| line.split_once('=').map(|(k, v)| (k.to_owned(), v.trim_end().to_owned()));
        Self(text.lines().filter_map(pair).collect())
    }

    /// Returns a value by name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Checks expected values. A name may have alternatives, `a|b`, of which the first in the
    /// report is compared; a value may have alternatives, of which one must match.
    ///
    /// # Panics
    /// A value differs; the message lists all differences.
    #[track_caller]
    pub fn check(&self, expected: &[(&str, &str)]) {
        let differences: Vec<_> =
            expected.iter().filter_map(|(names, values)| self.difference(names, values)).collect();
        assert!(differences.is_empty(), "{}\nin the report {:#?}", differences.join("\n"), self.0);
    }

    /// Describes the difference of a value from the expected one, if any.
    fn difference(&self, names: &str, values: &str) -> Option<String> {
        match names.split('|').find_map(|name| self.get(name)) {
            Some(value) if values.split('|').any(|v| v == value) => None,
            Some(value) => Some(format!("{names}: {value:?} instead of {values:?}")),
            None => Some(format!("{names}: not in the report")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_compared_with_expected_values() {
        let seen = Report::parse("a=1\nb=x=y\r\nno value\n");
        seen.check(&[("a", "1"), ("z|b", "q|x=y")]);
        assert_eq!(seen.difference("a", "2").unwrap(), "a: \"1\" instead of \"2\"");
        assert_eq!(seen.difference("c|d", "2").unwrap(), "c|d: not in the report");
    }
}
