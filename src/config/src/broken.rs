//! Reads the keys that are used even from an invalid file: the runtime and the state directory.
//!
//! Even with an invalid file containers must be killed and deleted, by the runtime that created
//! them, since no other runtime knows them. So this parser ignores errors in other keys, and skips
//! text that it cannot parse.

use crate::model::{Config, NamedRuntime, RuntimeSettings};
use std::path::PathBuf;
use toml::{Table, Value};

impl Config {
    /// Returns the defaults with runtime and state directory from a text that [`Config::parse`]
    /// refuses.
    pub fn of_broken(text: &str) -> Self {
        let mut found = Self::default();
        if let Ok(table) = text.parse::<Table>() {
            found.take(&table);
            return found;
        }
        // Parse the keys before the first table line by line, then each table separately.
        let begins = |line: &&str| line.trim_start().starts_with('[');
        for line in text.lines().take_while(|line| !begins(line)) {
            found.take(&line.parse().unwrap_or_default());
        }
        let mut part = String::new();
        for line in text.lines().skip_while(|line| !begins(line)).chain(["["]) {
            if begins(&line) {
                found.take(&part.parse().unwrap_or_default());
                part.clear();
            }
            part.push_str(line);
            part.push('\n');
        }
        found
    }

    fn take(&mut self, table: &Table) {
        let state_dir = ["state_dir", "state-dir"].iter().find_map(|key| table.get(*key));
        if let Some(dir) = state_dir.and_then(path) {
            self.state_dir = Some(dir);
        }
        if let Some(runtime) = table.get("runtime").and_then(Value::as_table) {
            self.runtime.take(runtime);
        }
    }
}

impl RuntimeSettings {
    fn take(&mut self, table: &Table) {
        if let Some(named) = table.get("path").and_then(path) {
            self.path = Some(named);
        }
        if let Some(candidates) = table.get("candidates").and_then(Value::as_array) {
            self.candidates = candidates.iter().filter_map(path).collect();
        }
        for (name, settings) in table.get("names").and_then(Value::as_table).into_iter().flatten() {
            if let Some(path) = settings.get("path").and_then(path) {
                self.names.insert(name.clone(), NamedRuntime { path });
            }
        }
    }
}

fn path(value: &Value) -> Option<PathBuf> {
    value.as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert!(Config::parse(text).is_err(), "{text}");
        assert_eq!(Config::of_broken(text), Config::parse(expected).unwrap(), "{text}");
    }

    #[test]
    fn errors_in_other_keys_are_ignored() {
        let runtime =
            "[runtime]\npath = '/r'\ncandidates = ['a', 'b']\n[runtime.names.nri-x]\npath = '/x'\n";
        check(&format!("colour = 1\n{runtime}"), runtime);
        check(&format!("unreachable = \n{runtime}"), runtime);
        check(&format!("{runtime}[log]\nlevel = \n"), runtime);
        check(&format!("[[plugin]]\nmatch = '*\n{runtime}[[plugin]]\n]"), runtime);
        check("x = \nruntime.path = '/r'\n", "runtime.path = '/r'");
        check("x = \nstate-dir = '/s'\n", "state_dir = '/s'");
        check("state_dir = '/s'\ncolour = 1\n", "state_dir = '/s'");
        check("runtime = { path = '/r' }\n\nx = \n", "runtime.path = '/r'");
    }

    #[test]
    fn text_that_cannot_be_parsed_is_skipped() {
        check("[runtime]\npath = 7\ncandidates = ['a']\n", "[runtime]\ncandidates = ['a']");
        check("[runtime]\npath = '/r'\ncolour = 1\n", "[runtime]\npath = '/r'");
        check(
            "[runtime]\npath = '/r\n[runtime.names.n]\npath = '/n'\n",
            "[runtime.names.n]\npath = '/n'",
        );
        check("[[runtime]]\npath = '/r'\n", "");
        check("= = =", "");
        check("[runtime\npath = '/r'\n", "");
    }
}
