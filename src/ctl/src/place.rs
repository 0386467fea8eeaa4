//! Which `nrid` is meant: from the command line, the environment and the configuration, as `nrid`
//! itself does.

use nri_config::Config;
use nri_control::Launcher;
use nri_host::sha256;
use nri_locate::{ConfigFileError, Environment, LoadedConfig, NRID, find_own_program};
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
    /// What is wrong with the file. The other fields then hold defaults, but for the state directory
    /// and the runtime, if they could be read.
    pub(crate) problem: Option<ConfigFileError>,
}

impl Place {
    /// Reads the configuration, if the command line does not say everything. A file that is wrong
    /// is a problem beside a place that is known without it.
    pub(crate) fn find(named: Option<&Path>, state: Option<&Path>) -> Self {
        let environment = Environment::of_this_process();
        let mut loaded = LoadedConfig::read(named, &environment);
        // Such a file may still say where nrid is: the client checks whose process it connects to.
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

    /// What is wrong with the configuration, as an error.
    ///
    /// # Errors
    /// Something is.
    pub(crate) fn checked(self) -> Result<Self, ConfigFileError> {
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
