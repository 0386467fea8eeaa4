//! The directories of definitions: their files, which of them apply, and in which order.

use crate::definition::{Definition, InvalidDefinition};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The directories of oci-hooks(5); a file hides that of the same name in an earlier directory.
pub(crate) const DEFAULT: [&str; 2] =
    ["/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d"];

/// Largest definition, in bytes: thousands of times what a hook needs.
const MAX_SIZE: u64 = 1 << 20;

/// The definitions that apply, and what is wrong with others.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    /// Definitions with their file names, in the order in which their hooks are injected.
    pub(crate) hooks: Vec<(String, Definition)>,
    /// Files and directories that cannot be used.
    pub(crate) failures: Vec<Unusable>,
    /// Definitions whose programs do not exist.
    pub(crate) without_program: Vec<Unusable>,
}

/// A file or directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("{path}: {source}")]
    Invalid { path: PathBuf, source: InvalidDefinition },
    #[error("{path}: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{0} has more than {MAX_SIZE} bytes")]
    TooLarge(PathBuf),
}

impl Definitions {
    /// Reads the directories; later ones take precedence. A directory that does not exist is
    /// empty. A file that cannot be used hides nothing.
    pub(crate) fn read(directories: &[PathBuf]) -> Self {
        let mut found = BTreeMap::new();
        let mut definitions = Self::default();
        for directory in directories {
            let files = match names(directory) {
                Ok(files) => files,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => {
                    let path = directory.clone();
                    definitions.failures.push(Unusable::Unreadable { path, source });
                    continue;
                }
            };
            for name in files {
                let path = directory.join(&name);
                match read_file(&path) {
                    Ok(Some(definition)) => drop(found.insert(name, definition)),
                    Ok(None) => {}
                    Err(e @ Unusable::Invalid { source: InvalidDefinition::NoProgram(_), .. }) => {
                        definitions.without_program.push(e);
                    }
                    Err(e) => definitions.failures.push(e),
                }
            }
        }
        definitions.hooks = found.into_iter().collect();
        // Stable: names that differ only in case keep the order of the map.
        definitions.hooks.sort_by_cached_key(|(name, _)| name.to_lowercase());
        definitions
    }
}

/// Names of the definitions in a directory. Names that are not UTF-8 are converted for messages,
/// and cannot be opened then: they are no names that packages use.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in directory.read_dir()? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".json") {
            names.push(name);
        }
    }
    Ok(names)
}

/// Reads a definition; `None` if the file has been removed meanwhile.
fn read_file(path: &Path) -> Result<Option<Definition>, Unusable> {
    let json = match content(path) {
        Ok(json) => json,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Unusable::Unreadable { path: path.to_owned(), source }),
    };
    if json.len() as u64 > MAX_SIZE {
        return Err(Unusable::TooLarge(path.to_owned()));
    }
    let invalid = |source| Unusable::Invalid { path: path.to_owned(), source };
    Definition::parse(&json).map(Some).map_err(invalid)
}

/// Content of a regular file, up to one byte more than allowed.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut json = Vec::new();
    File::open(path)?.take(MAX_SIZE + 1).read_to_end(&mut json)?;
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const VALID: &str = r#"{"hook": "/bin/true", "stages": ["poststop"], "arguments": ["ARG"]}"#;

    fn write(directory: &Path, name: &str, argument: &str) {
        fs::write(directory.join(name), VALID.replace("ARG", argument)).unwrap();
    }

    fn arguments(definitions: &Definitions) -> Vec<&str> {
        let hooks = definitions.hooks.iter().map(|(_, definition)| &definition.hook);
        hooks.map(|hook| hook.args.as_ref().unwrap()[1].as_str()).collect()
    }

    #[test]
    fn later_directories_hide_files_of_earlier_ones_and_names_give_the_order() {
        let dir = tempfile::tempdir().unwrap();
        let [low, high] = ["low", "high"].map(|name| dir.path().join(name));
        let directories = [low.clone(), high.clone(), dir.path().join("absent")];
        assert!(Definitions::read(&directories).hooks.is_empty());
        for directory in [&low, &high] {
            fs::create_dir(directory).unwrap();
        }
        write(&low, "02-b.json", "low b");
        write(&low, "01-A.json", "low A");
        write(&low, "01-b.json", "low 01-b");
        write(&low, "00.json.disabled", "not read");
        write(&high, "02-b.json", "high b");
        write(&high, "00-z.json", "high z");
        let definitions = Definitions::read(&directories);
        assert_eq!(arguments(&definitions), ["high z", "low A", "low 01-b", "high b"]);
        fs::remove_file(high.join("02-b.json")).unwrap();
        assert_eq!(arguments(&Definitions::read(&directories))[3], "low b");
    }

    #[test]
    fn files_that_cannot_be_used_are_named_and_hide_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let [low, high] = ["low", "high"].map(|name| dir.path().join(name));
        for directory in [&low, &high] {
            fs::create_dir(directory).unwrap();
        }
        write(&low, "a.json", "low a");
        fs::write(high.join("a.json"), "{").unwrap();
        fs::create_dir(high.join("b.json")).unwrap();
        fs::write(high.join("c.json"), " ".repeat(1 + (1 << 20))).unwrap();
        let absent = VALID.replace("/bin/true", "/no/such/program");
        fs::write(high.join("d.json"), absent).unwrap();
        let definitions = Definitions::read(&[low, high]);
        assert_eq!(arguments(&definitions), ["low a"]);
        let mut failures: Vec<_> = definitions.failures.iter().map(ToString::to_string).collect();
        failures.sort();
        let expected =
            ["a.json: invalid JSON: EOF", "b.json: not a regular file", "c.json has more"];
        for (failure, expected) in failures.iter().zip(expected) {
            assert!(failure.contains(expected), "{failure}");
        }
        assert_eq!(failures.len(), 3);
        let absent = definitions.without_program[0].to_string();
        assert!(absent.ends_with("d.json: hook /no/such/program does not exist"), "{absent}");
        let not_a_directory = Definitions::read(&[PathBuf::from("/bin/true")]);
        assert_eq!(not_a_directory.failures.len(), 1);
    }
}
