//! The configuration of NRI v0.1, `/etc/nri/conf.json`: which programs are called, in which order.

use nri_values::{Words, reworded};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The file that v0.1 runtimes read.
pub(crate) const DEFAULT_FILE: &str = "/etc/nri/conf.json";

/// Version of a node without a configuration.
const VERSION: &str = "0.1";

/// Largest configuration, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// Programs to call for each event.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Configuration {
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default, deserialize_with = "list")]
    pub(crate) plugins: Vec<Entry>,
}

/// A program.
#[derive(Debug, Deserialize)]
pub(crate) struct Entry {
    /// Name of the program's file.
    #[serde(rename = "type", default)]
    pub(crate) name: String,
    /// Configuration that the program receives.
    #[serde(default)]
    pub(crate) conf: Option<Box<RawValue>>,
}

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigurationError {
    #[error("reading {path} failed: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is invalid: {}", reworded(&source.to_string(), Words::Yaml))]
    Invalid { path: PathBuf, source: serde_json::Error },
    #[error("{0} has more than {MAX_SIZE} bytes")]
    TooLarge(PathBuf),
}

impl Configuration {
    /// Reads the file. Without a file, no program is called.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigurationError> {
        let failed = |source| ConfigurationError::Read { path: path.to_owned(), source };
        let mut file = match File::open(path) {
            Ok(file) => file.take(MAX_SIZE + 1),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { version: VERSION.to_owned(), plugins: Vec::new() });
            }
            Err(e) => return Err(failed(e)),
        };
        let mut json = Vec::new();
        file.read_to_end(&mut json).map_err(failed)?;
        if json.len() as u64 > MAX_SIZE {
            return Err(ConfigurationError::TooLarge(path.to_owned()));
        }
        let invalid = |source| ConfigurationError::Invalid { path: path.to_owned(), source };
        serde_json::from_slice(&json).map_err(invalid)
    }
}

/// Reads a list that may be null, which Go writes for an empty one.
fn list<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Vec<Entry>, D::Error> {
    Ok(Option::<Vec<Entry>>::deserialize(reader)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Configuration, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().display().to_string();
        Configuration::read(file.path()).map_err(|e| e.to_string().replace(&path, "FILE"))
    }

    #[test]
    fn the_file_names_programs_and_their_configurations() {
        let configuration = read(
            r#"{"version": "0.1", "plugins": [
                {"type": "konfine", "conf": {"systemReserved": [0, 1]}}, {"type": "clearcfs"}]}"#,
        )
        .unwrap();
        assert_eq!(configuration.version, "0.1");
        let [konfine, clearcfs] = &configuration.plugins[..] else { panic!("two programs") };
        assert_eq!(konfine.name, "konfine");
        assert_eq!(konfine.conf.as_ref().unwrap().get(), r#"{"systemReserved": [0, 1]}"#);
        assert_eq!((clearcfs.name.as_str(), clearcfs.conf.is_none()), ("clearcfs", true));
        assert!(read(r#"{"plugins": null}"#).unwrap().plugins.is_empty());
    }

    #[test]
    fn no_file_is_an_empty_configuration() {
        let configuration = Configuration::read(Path::new("/no/such/conf.json")).unwrap();
        assert_eq!((configuration.version.as_str(), configuration.plugins.len()), ("0.1", 0));
    }

    #[test]
    fn errors_name_the_file() {
        let error = read("{").unwrap_err();
        assert!(error.starts_with("FILE is invalid: EOF"), "{error}");
        let error = read(r#"{"plugins": [1]}"#).unwrap_err();
        assert!(
            error.starts_with(
                "FILE is invalid: must be a mapping, such as `name: value`, not 1 at line 1"
            ),
            "{error}"
        );
        assert_eq!(
            read(&" ".repeat(1 + (1 << 20))).unwrap_err(),
            "FILE has more than 1048576 bytes"
        );
        let error = Configuration::read(Path::new("/")).unwrap_err().to_string();
        assert!(error.starts_with("reading / failed: "), "{error}");
    }
}
