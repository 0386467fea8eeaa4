//! Reads JSON and YAML files of administrators and device vendors into JSON values.
//!
//! Size, nesting depth and alias expansion of a file are limited. Callers find the files and
//! interpret the values. Start from [`read`].

mod yaml;

pub use yaml::InvalidYaml;

use nri_trust::{Owners, Untrusted, read_regular};
use serde_json::Value;
use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// Maximum size of a file in bytes, well above the size of real files: a CDI specification of many
/// devices has some tens of thousands of bytes.
pub const MAX_FILE: u64 = 4 << 20;

/// Error of reading a file.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {cause}")]
pub struct FileError {
    /// Path of the file.
    pub path: PathBuf,
    /// The cause.
    #[source]
    pub cause: FileErrorCause,
}

/// Cause of a [`FileError`].
#[derive(Debug, thiserror::Error)]
pub enum FileErrorCause {
    /// The file cannot be read.
    #[error("{0}")]
    Read(#[source] io::Error),
    /// Users other than root can change the file, and thereby run commands as root: CDI
    /// specifications may define hooks.
    #[error("not trusted: {0}")]
    Untrusted(#[source] Untrusted),
    /// The path is a directory, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,
    /// The file has more than [`MAX_FILE`] bytes.
    #[error("more than {MAX_FILE} bytes")]
    TooLarge,
    /// The file is not valid JSON.
    #[error("not valid JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// The file is not valid YAML, or exceeds a limit of the YAML parser.
    #[error("not valid YAML: {0}")]
    Yaml(#[from] InvalidYaml),
}

/// Reads a file: as JSON if its extension is `json`, else as YAML.
///
/// # Errors
/// The file cannot be read, is too large, or is not valid.
pub fn read(path: &Path) -> Result<Value, FileError> {
    let failed = |cause| FileError { path: path.to_owned(), cause };
    let bytes = bytes(path).map_err(failed)?;
    let parsed = if path.extension().is_some_and(|e| e == "json") {
        serde_json::from_slice(&bytes).map_err(FileErrorCause::Json)
    } else {
        yaml::parse(&bytes).map_err(FileErrorCause::Yaml)
    };
    parsed.map_err(failed)
}

fn bytes(path: &Path) -> Result<Vec<u8>, FileErrorCause> {
    let absolute = std::path::absolute(path).map_err(FileErrorCause::Read)?;
    if std::fs::metadata(&absolute).is_ok_and(|meta| !meta.is_file()) {
        return Err(FileErrorCause::NotAFile);
    }
    // The check accepts a missing file; opening it fails below.
    Owners::of_this_process().check_if_exists(&absolute).map_err(FileErrorCause::Untrusted)?;
    read_regular(path, MAX_FILE).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => FileErrorCause::NotAFile,
        ErrorKind::FileTooLarge => FileErrorCause::TooLarge,
        _ => FileErrorCause::Read(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(name: &str, content: &str, expected: Result<Value, &str>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        let found =
            read(&path).map_err(|e| e.to_string().replace(&format!("{}: ", path.display()), ""));
        assert_eq!(found, expected.map_err(str::to_owned), "{name}");
    }

    #[test]
    fn the_extension_selects_json_or_yaml() {
        check("a.json", "{\"a\": [1, true]}", Ok(json!({"a": [1, true]})));
        check("a.yaml", "a:\n- 1\n- true\n", Ok(json!({"a": [1, true]})));
        check("a", "{\"a\": [1, true]}", Ok(json!({"a": [1, true]})));
        check("a.json", "a: 1", Err("not valid JSON: expected value at line 1 column 1"));
        check(
            "a.yaml",
            "a: 1\na: 1",
            Err("not valid YAML: duplicate mapping key `a` is not allowed here at line 2, \
                 column 1"),
        );
    }

    #[test]
    fn a_file_writable_by_others_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        std::fs::write(&path, "{}").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .unwrap();
        let cause = read(&path).unwrap_err().cause.to_string();
        assert!(
            cause.starts_with("not trusted: ") && cause.contains("writable by everybody"),
            "{cause}"
        );
    }

    #[test]
    fn directories_pipes_and_large_files_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let cause = |path: &Path| read(path).unwrap_err().cause.to_string();
        assert_eq!(cause(dir.path()), "not a regular file");
        assert_eq!(cause(&dir.path().join("none")), "No such file or directory (os error 2)");
        let large = dir.path().join("large.yaml");
        std::fs::File::create(&large).unwrap().set_len(MAX_FILE + 1).unwrap();
        assert_eq!(cause(&large), "more than 4194304 bytes");
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(cause(&pipe), "not a regular file");
    }
}
