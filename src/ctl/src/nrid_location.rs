//! Location of `nrid`: program, state directory and socket, found in the command line, the
//! environment and the configuration in the same way as `nrid` finds them.

use nri_config::Config;
use nri_control::Launcher;
use nri_host::sha256;
use nri_locate::{ConfigFileError, Environment, LoadedConfig, NRID, find_own_program};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Location of `nrid`, and its configuration.
#[derive(Debug)]
pub(crate) struct NridLocation {
    /// Program, state directory and socket.
    pub(crate) launcher: Launcher,
    pub(crate) config: Config,
    /// Configuration file that was read; `None` if none exists.
    pub(crate) file: Option<PathBuf>,
    /// SHA-256 of the file, in hexadecimal.
    pub(crate) digest: Option<String>,
    /// Reason why the file cannot be used. The other fields then hold defaults, except for the
    /// state directory and the runtime, if they could be read.
    pub(crate) problem: Option<ConfigFileError>,
}

impl NridLocation {
    /// Finds `nrid` and reads its configuration. A file that cannot be used is not an error here:
    /// it is kept in `problem`.
    pub(crate) fn find(named: Option<&Path>, state: Option<&Path>) -> Self {
        let environment = Environment::of_this_process();
        let mut loaded = LoadedConfig::read(named, &environment);
        // An untrusted file may still name the state directory: the client checks the owner of the
        // process that it connects to.
        if let Some(ConfigFileError::Untrusted(path, _)) = &loaded.problem
            && let Ok(text) = std::fs::read_to_string(path)
        {
            loaded.config.state_dir = Config::of_broken(&text).state_dir;
        }
        let launcher = Launcher {
            program: find_own_program(NRID, &environment),
            state_dir: state.map_or_else(|| loaded.state_dir(&environment), Path::to_owned),
            config: loaded.named,
            timeout: loaded.config.start_timeout,
        };
        let digest = loaded.source.as_ref().map(|(_, text)| sha256(text));
        let file = loaded.source.map(|(file, _)| file);
        Self { launcher, config: loaded.config, file, digest, problem: loaded.problem }
    }

    /// Returns the problem of the configuration as an error.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub(crate) fn checked(self) -> Result<Self, ConfigFileError> {
        match self.problem {
            None => Ok(self),
            Some(problem) => Err(problem),
        }
    }

    /// Prints the problem of the configuration as a warning, for commands that work without it.
    pub(crate) fn warned(self) -> Self {
        if let Some(problem) = &self.problem {
            let socket = self.launcher.socket();
            let text = format!("nrictl: warning: {problem}; using {}\n", socket.display());
            // A failed write to standard error cannot be reported anywhere.
            let _ = io::stderr().write_all(text.as_bytes());
        }
        self
    }
}
