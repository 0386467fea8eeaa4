//! Which `nrid` is meant: from the command line, the environment and the configuration, as `nrid` itself does.

use nri_config::{CONFIG_ENV, CONFIG_FILE, Config, ConfigError, LIBEXEC_DIR, Owner, state_dir};
use nri_control::Launcher;
use std::{
    io,
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
}

impl Place {
    /// Reads the configuration, if the command line does not say everything.
    ///
    /// # Errors
    /// A file that was named and is missing, or any that is wrong.
    pub(crate) fn find(named: Option<&Path>, state: Option<&Path>) -> Result<Self, PlaceError> {
        let by_environment = std::env::var_os(CONFIG_ENV).filter(|v| !v.is_empty()).map(PathBuf::from);
        let named = named.map(Path::to_owned).or(by_environment);
        // nrid is elsewhere.
        let named = named.map(|path| std::path::absolute(&path).unwrap_or(path));
        let path = named.clone().unwrap_or_else(|| CONFIG_FILE.into());
        let (config, file) = match std::fs::read_to_string(&path) {
            Ok(text) => (Config::parse(&text).map_err(|e| PlaceError::Parse(path.clone(), e))?, Some(path)),
            Err(e) if e.kind() == io::ErrorKind::NotFound && named.is_none() => (Config::default(), None),
            Err(e) => return Err(PlaceError::Read(path, e)),
        };
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
        Ok(Self { launcher, config, file })
    }
}

/// Beside this program, in the libexec directory, or in PATH.
fn find_nrid() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = beside.into_iter().chain([LIBEXEC_DIR.into()]).chain(std::env::split_paths(&path));
    dirs.map(|dir| dir.join("nrid")).find(|file| file.is_file())
}
