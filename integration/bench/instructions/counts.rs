//! Reads and writes the file of recorded counts, which has one name and number per line.

use std::{fs, path::Path};

/// First line of the file.
const HEADER: &str = "# Instructions, and blocks of code; recorded by: make instructions RENEW=1\n";

/// Counts by name.
pub(crate) struct Counts(pub(crate) Vec<(String, u64)>);

impl Counts {
    /// Reads the file.
    pub(crate) fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let counts = lines.map(|line| {
            let (name, count) = line.split_once(' ').expect("a line is NAME COUNT");
            (name.to_owned(), count.parse().expect("a number"))
        });
        Self(counts.collect())
    }

    /// Returns the recorded count of `name`.
    pub(crate) fn of(&self, name: &str) -> u64 {
        let found = self.0.iter().find(|(recorded, _)| recorded == name);
        let (_, count) = found.unwrap_or_else(|| panic!("no recorded count of {name}"));
        assert_ne!(*count, 0, "the recorded count of {name} is zero");
        *count
    }

    /// Writes the file.
    pub(crate) fn write(&self, file: &Path) {
        let lines = self.0.iter().map(|(name, count)| format!("{name} {count}\n"));
        let text = HEADER.to_owned() + &lines.collect::<String>();
        fs::write(file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }
}
