//! What `nrid` is told: its command line and the configuration file, read at the start and whenever
//! a reload is asked for.

use nri_config::{CONFIG_ENV, CONFIG_FILE, Config, ConfigError, Owner, state_dir};
use nri_trust::{Owners, Untrusted};
use sha2::{Digest, Sha256};
use std::{
    io,
    path::{Path, PathBuf},
};

/// Everything that is fixed until the next reload.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The configuration.
    pub config: Config,
    /// The file that it came from; none where there was none.
    pub file: Option<PathBuf>,
    /// Sockets, locks and records.
    pub state_dir: PathBuf,
    /// SHA-256 of the file, in hexadecimal.
    pub digest: Option<String>,
    /// What the command line says: configuration file and state directory.
    told: (Option<PathBuf>, Option<PathBuf>),
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It cannot be read.
    #[error("configuration {0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// It is not understood.
    #[error("configuration {0}: {1}")]
    Parse(PathBuf, #[source] ConfigError),
    /// Others could change it, and so what runs with our rights.
    #[error("configuration {0} is not relied upon: {1}")]
    Untrusted(PathBuf, #[source] Untrusted),
}

impl Settings {
    /// Reads the configuration: `named` on the command line, else by the environment, else the
    /// usual file, which may be missing.
    ///
    /// # Errors
    /// A file that was named and is missing; any file that is unreadable or wrong.
    pub fn load(named: Option<&Path>, state: Option<&Path>) -> Result<Self, SettingsError> {
        let told = (named.map(Path::to_owned), state.map(Path::to_owned));
        let by_environment =
            std::env::var_os(CONFIG_ENV).filter(|v| !v.is_empty()).map(PathBuf::from);
        let named = named.map(Path::to_owned).or(by_environment);
        let path = named.clone().unwrap_or_else(|| CONFIG_FILE.into());
        // First, so that nobody can change it between the look and the reading.
        let absolute =
            std::path::absolute(&path).map_err(|e| SettingsError::Read(path.clone(), e))?;
        let trusted = Owners::of_this_process().check_if_there(&absolute);
        trusted.map_err(|e| SettingsError::Untrusted(path.clone(), e))?;
        let (config, file, digest) = match std::fs::read_to_string(&path) {
            Ok(text) => {
                let config =
                    Config::parse(&text).map_err(|e| SettingsError::Parse(path.clone(), e))?;
                (config, Some(path), Some(format!("{:x}", Sha256::digest(text))))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound && named.is_none() => {
                (Config::default(), None, None)
            }
            Err(e) => return Err(SettingsError::Read(path, e)),
        };
        let default_dir = || {
            let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
            let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
            state_dir(&Owner::of(&map, rustix::process::geteuid().as_raw(), runtime_dir))
        };
        let state_dir = state
            .map(Path::to_owned)
            .or_else(|| config.state_dir.clone())
            .unwrap_or_else(default_dir);
        Ok(Self { config, file, state_dir, digest, told })
    }

    /// The file that the command line names.
    pub fn named(&self) -> Option<&Path> {
        self.told.0.as_deref()
    }

    /// Reads it again, as it was told at the start.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub fn load_again(&self) -> Result<Self, SettingsError> {
        Self::load(self.told.0.as_deref(), self.told.1.as_deref())
    }

    /// Whether this is the `nrid` of the host, and not one that was put elsewhere.
    pub fn is_default_state_dir(&self) -> bool {
        self.state_dir == state_dir(&Owner::Host)
    }
}
