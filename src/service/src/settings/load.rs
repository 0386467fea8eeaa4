//! [`Settings`]: the command line, and the configuration file, which is read at the start and at
//! each reload.

use nri_config::{Config, ConfigError};
use nri_host::sha256;
use nri_locate::{
    ConfigFileError, Environment, LoadedConfig, MissingPath, NridOwner, PluginDirs, missing_paths,
};
use std::path::{Path, PathBuf};

/// The settings, which do not change until the next reload.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The configuration.
    pub config: Config,
    /// The configuration file; `None` if it does not exist.
    pub file: Option<PathBuf>,
    /// Directory of sockets, locks and records.
    pub state_dir: PathBuf,
    /// Directories of launched plugins.
    pub plugin_dirs: PluginDirs,
    /// SHA-256 of the file, in hexadecimal.
    pub digest: Option<String>,
    /// Mistakes in the file that do not prevent a start (see [`Config::parse_with_mistakes`]);
    /// `config` has replacement values for them.
    mistakes: Vec<ConfigError>,
    command_line: CommandLine,
}

/// The options of the command line that settings depend on.
#[derive(Debug, Clone)]
struct CommandLine {
    config: Option<PathBuf>,
    state_dir: Option<PathBuf>,
}

impl Settings {
    /// Loads the configuration: the file that the command line names, else the one that the
    /// environment names, else the default one, which may be missing.
    ///
    /// # Errors
    /// A named file is missing, or the file is unreadable, invalid or not trusted.
    pub fn load(config: Option<&Path>, state: Option<&Path>) -> Result<Self, ConfigFileError> {
        let command_line = CommandLine {
            config: config.map(Path::to_owned),
            state_dir: state.map(Path::to_owned),
        };
        let environment = Environment::of_this_process();
        let loaded = LoadedConfig::read(config, &environment);
        if let Some(problem) = loaded.problem {
            return Err(problem);
        }
        let state_dir = state.map_or_else(|| loaded.state_dir(&environment), Path::to_owned);
        let digest = loaded.source.as_ref().map(|(_, text)| sha256(text));
        let (config, mut mistakes) = (loaded.config, loaded.mistakes);
        if !cfg!(feature = "otlp") && config.tracing.endpoint.is_some() {
            let text = loaded.source.as_ref().map_or("", |(_, text)| text);
            mistakes.push(needs_otlp(text));
        }
        let file = loaded.source.map(|(file, _)| file);
        let plugin_dirs = PluginDirs::of(&config, &environment);
        Ok(Self { config, file, state_dir, plugin_dirs, digest, mistakes, command_line })
    }

    /// Returns the mistakes in the file for which the parser has used other values. A start accepts
    /// them; `nrid --check` and a reload refuse the file because of them.
    pub fn mistakes(&self) -> impl Iterator<Item = ConfigFileError> {
        let file = self.file.iter();
        file.flat_map(|file| self.mistakes.iter().map(|m| (file.clone(), m.clone())))
            .map(|(file, mistake)| ConfigFileError::Parse(file, mistake))
    }

    /// Returns the configuration file that the command line names.
    pub fn named_file(&self) -> Option<&Path> {
        self.command_line.config.as_deref()
    }

    /// Loads the configuration again, with the same command line.
    ///
    /// # Errors
    /// See [`Settings::load`].
    pub fn load_again(&self) -> Result<Self, ConfigFileError> {
        Self::load(self.command_line.config.as_deref(), self.command_line.state_dir.as_deref())
    }

    /// Returns the paths in the configuration that do not exist.
    pub fn missing_paths(&self) -> Vec<MissingPath> {
        missing_paths(&self.config, &Environment::of_this_process())
    }

    /// Whether the state directory is the default one of the host.
    pub fn is_default_state_dir(&self) -> bool {
        self.state_dir == NridOwner::Host.state_dir()
    }
}

/// Returns the mistake that `[tracing] endpoint` is in this program.
fn needs_otlp(text: &str) -> ConfigError {
    let key = |line: &&str| line.contains("endpoint") && !line.trim_start().starts_with('#');
    let found = text.lines().enumerate().find(|(_, line)| key(line));
    let (line, column) = found.map_or((0, 0), |(number, line)| {
        (number, line.chars().take_while(|c| c.is_whitespace()).count())
    });
    let message = "[tracing] endpoint needs an nrid that is built with the feature otlp; a start \
                   records no spans";
    ConfigError { line: line + 1, column: column + 1, message: message.to_owned() }
}
