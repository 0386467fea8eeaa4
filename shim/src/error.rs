//! What can go wrong, in one line each.

use nri_config::{BYPASS_ENV, BYPASS_FILE, ConfigError};
use nri_control::{ClientError, LaunchError};
use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

/// Why the real runtime is not run, or not as asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    // The caller's.
    #[error("--{0} needs a value")]
    OwnFlag(&'static str),
    #[error("container id {0:?} is not acceptable: {1}")]
    Id(OsString, &'static str),
    #[error("bundle {path}: {0}", path = .1.display())]
    Bundle(#[source] io::Error, PathBuf),
    #[error("resources {path}: {0}", path = .1.display())]
    Resources(#[source] io::Error, PathBuf),
    #[error("resources {path}: larger than {limit} bytes", path = .0.display(), limit = crate::resources::LIMIT)]
    ResourcesTooLarge(PathBuf),
    #[error("process document {path}: {1} is not what it has to be", path = .0.display())]
    ExecProcess(PathBuf, &'static str),
    #[error("{path}: {0}", path = .1.display())]
    ExecFile(#[source] io::Error, PathBuf),
    #[error("{path}: {0}", path = .1.display())]
    ExecJson(#[source] serde_json::Error, PathBuf),
    // The operator's.
    #[error("configuration {path}: {0}; {BreakGlass}", path = .1.display())]
    ConfigRead(#[source] io::Error, PathBuf),
    #[error("configuration {path}, {0}; {BreakGlass}", path = .1.display())]
    Config(#[source] ConfigError, PathBuf),
    #[error("configuration {path} is not relied upon: {0}; {BreakGlass}", path = .1.display())]
    ConfigUntrusted(#[source] nri_trust::Untrusted, PathBuf),
    #[error("the real runtime {path} ({from}): {why}", path = .0.display(), from = .1, why = .2)]
    Runtime(PathBuf, String, Unusable),
    #[error("no real runtime found: looked for {names} in {dirs}; name one in [runtime].path", names = .names.join(", "), dirs = join(.dirs))]
    NoRuntime { names: Vec<String>, dirs: Vec<PathBuf> },
    // The host's.
    #[error("{0}; {BreakGlass}")]
    Launch(#[from] LaunchError),
    #[error("{0}; {BreakGlass}")]
    Client(#[from] ClientError),
    #[error("nrid gave an answer that does not fit; {BreakGlass}")]
    Answer,
    #[error("cannot run {path}: {0}", path = .1.display())]
    Exec(#[source] io::Error, PathBuf),
    #[error("cannot {1}: {0}")]
    System(#[source] io::Error, &'static str),
    // A plugin's.
    #[error("{0}")]
    Refused(String),
}

/// Why a program that was named cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("not found")]
    NotFound,
    #[error("not an executable file")]
    NotExecutable,
    #[error("it is nri-container-runtime itself")]
    Ourselves,
}

/// What to do when `nrid` does not do its work.
struct BreakGlass;

impl std::fmt::Display for BreakGlass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "to run containers without NRI set {BYPASS_ENV}=1 or create {BYPASS_FILE}")
    }
}

fn join(dirs: &[PathBuf]) -> String {
    dirs.iter().map(|d| Path::display(d).to_string()).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn break_glass_is_named() {
        let text = Error::Answer.to_string();
        assert!(text.contains(&format!("{BYPASS_ENV}=1")) && text.contains(BYPASS_FILE), "{text}");
    }
}
