//! The environment variables that decide about a call.

use crate::names::{CONFIG_ENV, RUNTIME_ENV};

/// Values of variables; an empty value counts as unset.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Variables<'a> {
    /// [`CONFIG_ENV`]
    pub(crate) config: Option<&'a [u8]>,
    /// [`RUNTIME_ENV`]
    pub(crate) runtime: Option<&'a [u8]>,
    /// `PATH`
    pub(crate) path: Option<&'a [u8]>,
}

impl<'a> Variables<'a> {
    /// Reads entries of an environment. Of several entries with one name, the first counts, as for
    /// getenv(3).
    pub(crate) fn read(entries: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut found = Self::default();
        for entry in entries {
            let variables = [
                (CONFIG_ENV, &mut found.config),
                (RUNTIME_ENV, &mut found.runtime),
                ("PATH", &mut found.path),
            ];
            for (name, value) in variables {
                let rest = entry.strip_prefix(name.as_bytes());
                if let Some(given) = rest.and_then(|rest| rest.strip_prefix(b"=")) {
                    value.get_or_insert(given);
                }
            }
        }
        let set = |value: Option<&'a [u8]>| value.filter(|value| !value.is_empty());
        Self { config: set(found.config), runtime: set(found.runtime), path: set(found.path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_of_a_name_is_its_value() {
        let read = |entries: &[&'static str]| {
            Variables::read(entries.iter().map(|entry| entry.as_bytes()))
        };
        let runtime = format!("{RUNTIME_ENV}=/r");
        let found = read(&["PATH", "XPATH=/x", "PATH=/a:/b=", "PATH=/c", runtime.leak()]);
        let expected = Variables { config: None, runtime: Some(b"/r"), path: Some(b"/a:/b=") };
        assert_eq!(found, expected);
        assert_eq!(read(&["PATH=", "PATH=/c"]), Variables::default());
    }
}
