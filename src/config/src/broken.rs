//! What can still be relied upon in a file that is not acceptable: which runtime it names.
//!
//! Containers have to be killed and deleted with a broken file too, by the runtime that made them:
//! another one does not know them. So what is wrong elsewhere does not count here, and what cannot
//! be read is left out.

use crate::{NamedRuntime, RuntimeSettings};
use std::path::PathBuf;
use toml::{Table, Value};

impl RuntimeSettings {
    /// The runtime of a text that [`crate::Config::parse`] refuses.
    pub fn of_broken(text: &str) -> Self {
        let mut found = Self::default();
        if let Ok(table) = text.parse::<Table>() {
            found.take(&table);
            return found;
        }
        // Its tables one by one; what stands before the first, line by line.
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

    fn take(&mut self, document: &Table) {
        let path = |value: &Value| value.as_str().map(PathBuf::from);
        let Some(runtime) = document.get("runtime").and_then(Value::as_table) else { return };
        if let Some(named) = runtime.get("path").and_then(path) {
            self.path = Some(named);
        }
        if let Some(candidates) = runtime.get("candidates").and_then(Value::as_array) {
            self.candidates = candidates.iter().filter_map(path).collect();
        }
        for (name, settings) in runtime.get("names").and_then(Value::as_table).into_iter().flatten()
        {
            if let Some(path) = settings.get("path").and_then(path) {
                self.names.insert(name.clone(), NamedRuntime { path });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn check(text: &str, expected: &str) {
        assert!(Config::parse(text).is_err(), "{text}");
        assert_eq!(
            RuntimeSettings::of_broken(text),
            Config::parse(expected).unwrap().runtime,
            "{text}"
        );
    }

    #[test]
    fn what_is_wrong_elsewhere_does_not_count() {
        let runtime =
            "[runtime]\npath = '/r'\ncandidates = ['a', 'b']\n[runtime.names.nri-x]\npath = '/x'\n";
        check(&format!("colour = 1\n{runtime}"), runtime);
        check(&format!("unreachable = \n{runtime}"), runtime);
        check(&format!("{runtime}[log]\nlevel = \n"), runtime);
        check(&format!("[[plugin]]\nmatch = '*\n{runtime}[[plugin]]\n]"), runtime);
        check("x = \nruntime.path = '/r'\n", "runtime.path = '/r'");
        check("runtime = { path = '/r' }\n\nx = \n", "runtime.path = '/r'");
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
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
