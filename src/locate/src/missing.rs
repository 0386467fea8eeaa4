//! Checks whether the paths in the configuration lead to usable programs, files and directories.
//! Findings are only warnings: a runtime may be installed later, and the engine may see other
//! mounts than the program that checks.

use crate::{environment::Environment, runtime::find_program};
use nri_config::Config;
use std::{
    fmt,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

/// A path at which nothing usable exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingPath {
    /// Key of the configuration that has this path.
    pub key: String,
    /// Value of the key.
    pub path: PathBuf,
    /// The fault, and its effect.
    pub problem: String,
}

impl fmt::Display for MissingPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?}: {}", self.key, self.path, self.problem)
    }
}

/// Returns the paths of runtimes, of the plugin directory, of class files and of the audit log at
/// which nothing usable exists. Paths that have a default are checked only if the configuration
/// file sets them.
pub fn missing_paths(config: &Config, environment: &Environment) -> Vec<MissingPath> {
    let runtime = &config.runtime;
    let named =
        runtime.names.iter().map(|(name, r)| (format!("runtime.names.{name}.path"), &r.path));
    let programs = runtime.path.iter().map(|path| ("runtime.path".to_owned(), path)).chain(named);
    let programs = programs.filter_map(|(key, path)| match find_program(path, environment) {
        Ok(_) => None,
        Err(why) => {
            let problem = format!("{why}; calls of the wrapper that need this runtime fail");
            Some(MissingPath { key, path: path.clone(), problem })
        }
    });
    let missing =
        |key: &str, path: &Option<PathBuf>, is_there: fn(&Path) -> bool, problem: &str| {
            let path =
                path.clone().filter(|path| !path.as_os_str().is_empty() && !is_there(path))?;
            Some(MissingPath { key: key.to_owned(), path, problem: problem.to_owned() })
        };
    let files = [
        missing(
            "plugin_path",
            &config.plugin_path,
            Path::is_dir,
            "no such directory; no plugin is launched",
        ),
        missing(
            "blockio.config_file",
            &config.blockio.config_file,
            Path::is_file,
            "no such file; block I/O classes are refused",
        ),
        missing(
            "rdt.config_file",
            &config.rdt.config_file,
            Path::is_file,
            "no such file; RDT classes are refused",
        ),
        missing(
            "audit.file",
            &config.audit.file,
            can_be_log,
            "not a file; no audit log is written",
        ),
    ];
    programs.chain(files.into_iter().flatten()).collect()
}

/// Whether a log can be written there: to a file, also one that does not exist yet, or to a device.
fn can_be_log(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |meta| {
        let kind = meta.file_type();
        kind.is_file() || kind.is_char_device()
    })
}
