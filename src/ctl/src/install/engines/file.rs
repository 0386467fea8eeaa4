//! A file in which an engine may have runtimes, and where in it they are.

use crate::install::{editing::file::ConfigFile, install_root::InstallRoot};
use serde_json::Value;

/// A file of an engine.
#[derive(Debug, Clone)]
pub(crate) struct EngineFile {
    pub(crate) file: ConfigFile,
    /// Path of the table of runtimes by name.
    pub(crate) runtimes: Vec<String>,
    /// Path of the program in a runtime; empty: a runtime is a list of programs.
    pub(crate) binary: &'static [&'static str],
    /// Path of the default runtime's name.
    pub(crate) default: Vec<String>,
    /// Path of the switch of the engine's own NRI, and the value that switches it off.
    pub(crate) own_nri: (Vec<String>, bool),
}

impl EngineFile {
    /// Returns all runtimes by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.file.get(&self.runtimes).and_then(Value::as_object).into_iter().flatten()
    }

    /// Returns the program of a runtime.
    pub(crate) fn binary<'a>(&self, runtime: &'a Value) -> Option<&'a str> {
        if self.binary.is_empty() {
            return runtime.as_array()?.iter().find_map(Value::as_str);
        }
        self.binary.iter().try_fold(runtime, |value, name| value.get(name))?.as_str()
    }

    /// Returns the program of a runtime that calls the wrapper.
    pub(crate) fn wrapper<'a>(&self, root: &InstallRoot, runtime: &'a Value) -> Option<&'a str> {
        self.binary(runtime).filter(|path| root.is_ours(path))
    }

    /// Returns the path of a runtime in the file.
    pub(crate) fn runtime(&self, name: &str) -> Vec<String> {
        self.runtimes.iter().cloned().chain([name.to_owned()]).collect()
    }

    /// Returns the name of the default runtime.
    pub(crate) fn default_name(&self) -> Option<&str> {
        self.file.get(&self.default)?.as_str()
    }

    /// Whether the engine's own NRI is on, if the file says so.
    pub(crate) fn has_nri_on(&self) -> Option<bool> {
        let (at, off) = &self.own_nri;
        self.file.get(at)?.as_bool().map(|value| value != *off)
    }
}
