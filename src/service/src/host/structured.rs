//! Files that administrators and device vendors write, as JSON or YAML, to one kind of value.
//!
//! Everything is bounded: the size of the file, the depth, and what aliases expand to. What the
//! values mean is decided elsewhere; no file is looked for here. Start from [`read`].

mod yaml;

pub use yaml::InvalidYaml;

use nri_trust::{Owners, Untrusted};
use serde_json::Value;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Bytes that a file may have. Specifications of a vendor's many devices have some tens of
/// thousands.
pub const MAX_FILE: u64 = 4 << 20;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct FileError {
    /// Which.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub why: WhyNot,
}

/// What can be wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum WhyNot {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[source] io::Error),
    /// Others could change it, and so what runs with our rights: specifications of devices have
    /// hooks.
    #[error("not relied upon: {0}")]
    Untrusted(#[source] Untrusted),
    /// A directory, a pipe, a device.
    #[error("not a regular file")]
    NotAFile,
    /// More than [`MAX_FILE`] bytes.
    #[error("more than {MAX_FILE} bytes")]
    TooLarge,
    /// Not JSON.
    #[error("not valid JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// Not YAML, or more of it than is taken.
    #[error("not valid YAML: {0}")]
    Yaml(#[from] InvalidYaml),
}

/// Reads a file: JSON if its name says so, else YAML.
///
/// # Errors
/// It cannot be read, is too large, or is not well formed.
pub fn read(path: &Path) -> Result<Value, FileError> {
    let wrong = |why| FileError { path: path.to_owned(), why };
    let bytes = bytes(path).map_err(wrong)?;
    let parsed = if path.extension().is_some_and(|e| e == "json") {
        serde_json::from_slice(&bytes).map_err(WhyNot::Json)
    } else {
        yaml::parse(&bytes).map_err(WhyNot::Yaml)
    };
    parsed.map_err(wrong)
}

fn bytes(path: &Path) -> Result<Vec<u8>, WhyNot> {
    use rustix::fs::{Mode, OFlags};
    let absolute = std::path::absolute(path).map_err(WhyNot::Read)?;
    if std::fs::metadata(&absolute).is_ok_and(|meta| !meta.is_file()) {
        return Err(WhyNot::NotAFile);
    }
    // What is missing is told by the attempt to open it.
    Owners::of_this_process().check_if_there(&absolute).map_err(WhyNot::Untrusted)?;
    // A pipe without a writer must not stop us.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| WhyNot::Read(e.into()))?;
    let file = File::from(file);
    if !file.metadata().map_err(WhyNot::Read)?.is_file() {
        return Err(WhyNot::NotAFile);
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(WhyNot::Read)?;
    if bytes.len() as u64 > MAX_FILE { Err(WhyNot::TooLarge) } else { Ok(bytes) }
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
    fn the_name_tells_the_format() {
        check("a.json", "{\"a\": [1, true]}", Ok(json!({"a": [1, true]})));
        check("a.yaml", "a:\n- 1\n- true\n", Ok(json!({"a": [1, true]})));
        check("a", "{\"a\": [1, true]}", Ok(json!({"a": [1, true]})));
        check("a.json", "a: 1", Err("not valid JSON: expected value at line 1 column 1"));
        check(
            "a.yaml",
            "a: 1\na: 1",
            Err(
                r#"not valid YAML: duplicate mapping key `a` is not allowed here at line 2, column 1"#,
            ),
        );
    }

    #[test]
    fn a_file_that_others_could_change_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        std::fs::write(&path, "{}").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .unwrap();
        let said = read(&path).unwrap_err().why.to_string();
        assert!(
            said.starts_with("not relied upon: ") && said.contains("writable by everybody"),
            "{said}"
        );
    }

    #[test]
    fn only_regular_files_of_a_size() {
        let dir = tempfile::tempdir().unwrap();
        let said = |path: &Path| read(path).unwrap_err().why.to_string();
        assert_eq!(said(dir.path()), "not a regular file");
        assert_eq!(said(&dir.path().join("none")), "No such file or directory (os error 2)");
        let large = dir.path().join("large.yaml");
        File::create(&large).unwrap().set_len(MAX_FILE + 1).unwrap();
        assert_eq!(said(&large), "more than 4194304 bytes");
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(said(&pipe), "not a regular file");
    }
}
