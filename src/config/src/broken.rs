//! Reads the keys that are used even from an invalid file: the runtime, the state directory and
//! `disable`.
//!
//! While the file is invalid, containers must still be killed and deleted, and only the runtime
//! that created a container can do that. A mistake elsewhere must not stop a node on which NRI is
//! disabled. So this parser ignores errors in other keys, and skips text that it cannot parse.

use crate::{Config, NamedRuntime, RuntimeSettings};
use std::path::PathBuf;
use toml::{Table, Value};

impl Config {
    /// Returns the defaults, except for the runtime, the state directory and `disable`, which are
    /// read from a text that [`Config::parse`] refuses.
    pub fn of_broken(text: &str) -> Self {
        let mut config = Self::default();
        if let Ok(table) = text.parse::<Table>() {
            config.read_keys(&table);
            return config;
        }
        // Parse the keys before the first table line by line, then each table separately.
        let is_header = |line: &&str| line.trim_start().starts_with('[');
        for line in text.lines().take_while(|line| !is_header(line)) {
            config.read_keys(&line.parse().unwrap_or_default());
        }
        let mut table_text = String::new();
        // The last `[` ends the last table, as the header of another table would.
        for line in text.lines().skip_while(|line| !is_header(line)).chain(["["]) {
            if is_header(&line) {
                config.read_keys(&table_text.parse().unwrap_or_default());
                table_text.clear();
            }
            table_text.push_str(line);
            table_text.push('\n');
        }
        config
    }

    fn read_keys(&mut self, table: &Table) {
        let state_dir = ["state_dir", "state-dir"].iter().find_map(|key| table.get(*key));
        if let Some(dir) = state_dir.and_then(path).filter(|dir| dir.is_absolute()) {
            self.state_dir = Some(dir);
        }
        self.disable |= table.get("disable").and_then(Value::as_bool) == Some(true);
        if let Some(runtime) = table.get("runtime").and_then(Value::as_table) {
            self.runtime.read_keys(runtime);
        }
    }
}

impl RuntimeSettings {
    fn read_keys(&mut self, table: &Table) {
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
        check("state_dir = 's'\n", "");
        check("disable = true\ncolour = 1\n", "disable = true");
        check("x = \ndisable = true\n", "disable = true");
        check("disable = 'yes'\n[log]\ndisable = true\n", "");
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
