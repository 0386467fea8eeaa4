//! Which `nrid` is meant: from the command line, the environment and the configuration, as `nrid`
//! itself does.

use nri_config::{CONFIG_ENV, CONFIG_FILE, Config, ConfigError, LIBEXEC_DIR, Owner, state_dir};
use nri_control::Launcher;
use nri_trust::{Owners, Untrusted};
use sha2::{Digest, Sha256};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Where it is.
#[derive(Debug)]
pub(crate) struct Place {
    /// How to reach it.
    pub(crate) launcher: Launcher,
    /// The configuration.
    pub(crate) config: Config,
    /// The file that it came from; none where there was none.
    pub(crate) file: Option<PathBuf>,
    /// SHA-256 of the file, in hexadecimal.
    pub(crate) digest: Option<String>,
    /// What is wrong with the file. What is here then does not depend on it, but for the state
    /// directory, if it could be read.
    pub(crate) problem: Option<PlaceError>,
}

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    /// It cannot be read.
    #[error("configuration {0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// It is not understood.
    #[error("configuration {0}: {1}")]
    Parse(PathBuf, #[source] ConfigError),
    /// Others could change it.
    #[error("configuration {0} is not relied upon: {1}")]
    Untrusted(PathBuf, #[source] Untrusted),
}

impl Place {
    /// Reads the configuration, if the command line does not say everything. A file that is wrong
    /// is a problem beside a place that is known without it.
    pub(crate) fn find(named: Option<&Path>, state: Option<&Path>) -> Self {
        let by_environment =
            std::env::var_os(CONFIG_ENV).filter(|v| !v.is_empty()).map(PathBuf::from);
        let named = named.map(Path::to_owned).or(by_environment);
        // nrid is elsewhere.
        let named = named.map(|path| std::path::absolute(&path).unwrap_or(path));
        let path = named.clone().unwrap_or_else(|| CONFIG_FILE.into());
        // As nrid and the wrapper do.
        let trusted = Owners::of_this_process().check_if_there(&path);
        let mut problem = trusted.map_err(|e| PlaceError::Untrusted(path.clone(), e)).err();
        let (mut config, mut file, mut digest) = (Config::default(), None, None);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                digest = Some(format!("{:x}", Sha256::digest(&text)));
                file = Some(path.clone());
                match Config::parse(&text) {
                    Ok(parsed) => config = parsed,
                    Err(e) => {
                        config.state_dir = state_dir_of(&text);
                        problem = problem.or(Some(PlaceError::Parse(path, e)));
                    }
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound && named.is_none() => {}
            Err(e) => problem = problem.or(Some(PlaceError::Read(path, e))),
        }
        let default_dir = || {
            let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
            let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
            state_dir(&Owner::of(&map, rustix::process::geteuid().as_raw(), runtime_dir))
        };
        let launcher = Launcher {
            program: find_nrid(),
            state_dir: state
                .map(Path::to_owned)
                .or_else(|| config.state_dir.clone())
                .unwrap_or_else(default_dir),
            config: named,
            timeout: config.start_timeout,
        };
        Self { launcher, config, file, digest, problem }
    }

    /// What is wrong with the configuration, as an error.
    ///
    /// # Errors
    /// Something is.
    pub(crate) fn checked(self) -> Result<Self, PlaceError> {
        match self.problem {
            None => Ok(self),
            Some(problem) => Err(problem),
        }
    }

    /// Says on stderr what is wrong with the configuration: the command works all the same.
    pub(crate) fn warned(self) -> Self {
        if let Some(problem) = &self.problem {
            let socket = self.launcher.socket();
            let text = format!("nrictl: warning: {problem}; going on with {}\n", socket.display());
            // Nowhere else to tell.
            let _ = io::stderr().write_all(text.as_bytes());
        }
        self
    }
}

/// Where a configuration that is wrong elsewhere puts the state directory.
fn state_dir_of(text: &str) -> Option<PathBuf> {
    let document: toml_edit::DocumentMut = text.parse().ok()?;
    let value = ["state_dir", "state-dir"].iter().find_map(|key| document.get(key))?;
    value.as_str().map(PathBuf::from)
}

/// Beside this program, in the libexec directory, or in PATH.
fn find_nrid() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Of relative entries, what the working directory holds is anybody's.
    let absolute = std::env::split_paths(&path).filter(|dir| dir.is_absolute());
    let dirs = beside.into_iter().chain([LIBEXEC_DIR.into()]).chain(absolute);
    // As wrappers look for it.
    let can_run = |file: &PathBuf| {
        file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
    };
    dirs.map(|dir| dir.join("nrid")).find(can_run)
}
