//! Paths of the runtimes, the default runtime and the switch of the engine's own NRI in a file.

use super::request::InstallRequest;
use crate::install::{
    editing::{
        error::FileError,
        file::{ConfigFile, Format},
    },
    error::InstallError,
    install_root::InstallRoot,
};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// The table of runtimes in one file.
#[derive(Debug, Clone)]
pub(crate) struct RuntimeTable {
    pub(crate) file: PathBuf,
    pub(crate) format: Format,
    /// Path of the table of runtimes by name.
    pub(crate) runtimes: Vec<String>,
    /// Path of the program in a runtime; empty: a runtime is a list of programs.
    pub(crate) binary: &'static [&'static str],
    /// Path of the default runtime's name.
    pub(crate) default: Vec<String>,
    /// Path of the switch of the engine's own NRI, and the value that switches it off.
    pub(crate) own_nri: Option<(Vec<String>, bool)>,
}

impl RuntimeTable {
    /// Reads the file; `None` if it does not exist.
    pub(crate) fn read(&self, root: &InstallRoot) -> Result<Option<ConfigFile>, FileError> {
        ConfigFile::read(root, &self.file, self.format)
    }

    /// Returns all runtimes by name.
    pub(crate) fn all(&self, root: &InstallRoot) -> Result<Map<String, Value>, FileError> {
        let Some(file) = self.read(root)? else { return Ok(Map::new()) };
        match file.get(&self.runtimes)? {
            Some(Value::Object(runtimes)) => Ok(runtimes),
            _ => Ok(Map::new()),
        }
    }

    /// Returns the program of a runtime.
    pub(crate) fn binary<'a>(&self, runtime: &'a Value) -> Option<&'a str> {
        if self.binary.is_empty() {
            return runtime.as_array()?.iter().find_map(Value::as_str);
        }
        self.binary.iter().try_fold(runtime, |value, name| value.get(name))?.as_str()
    }

    /// Returns the path of a runtime in the file.
    pub(crate) fn runtime(&self, name: &str) -> Vec<String> {
        self.runtimes.iter().cloned().chain([name.to_owned()]).collect()
    }

    /// Returns the name of the runtime at a path; `None` if the path is not that of a runtime.
    pub(crate) fn runtime_name<'a>(&self, at: &'a [String]) -> Option<&'a str> {
        let (last, table) = at.split_last()?;
        (*table == self.runtimes).then_some(last)
    }

    /// Fails if the file has another runtime under a requested name.
    pub(super) fn check_names(&self, request: &InstallRequest<'_>) -> Result<(), InstallError> {
        let Some(file) = self.read(request.root)? else { return Ok(()) };
        for runtime in &request.runtimes {
            let at = self.runtime(&runtime.name);
            let Some(current) = file.get(&at)? else { continue };
            let binary = self.binary(&current);
            if binary
                .is_none_or(|path| !request.root.is_ours(path) && path != runtime.binary_text())
            {
                let (path, value) = (at.join("."), current.to_string());
                return Err(InstallError::Collision { file: self.file.clone(), path, value });
            }
        }
        Ok(())
    }
}
