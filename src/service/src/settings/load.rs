//! [`Settings`]: the command line, and the configuration file, which is read at the start and at
//! each reload.

use super::last_good;
use nri_config::{Config, ConfigError, Mode};
use nri_control::answers;
use nri_files::{CallSettings, published_file};
use nri_host::sha256;
use nri_locate::{
    CONFIG_FILE, ConfigFileError, Environment, LoadedConfig, MissingPath, NridOwner, PluginDirs,
    missing_paths,
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
    /// Text of the file.
    text: Option<String>,
    /// Why the file cannot be used, so that `config` is the last one that could be.
    unusable: Option<String>,
    /// The configuration file that calls of the wrapper name, absolute, and what they need of it.
    calls: (PathBuf, CallSettings),
    /// Whether this is the `nrid` that root's calls with this configuration find.
    pub is_found_by_calls: bool,
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
        let loaded = LoadedConfig::read(config, &Environment::of_this_process(), answers);
        let state_dir = state.map(Path::to_owned);
        Self::of(loaded, CommandLine { config: config.map(Path::to_owned), state_dir })
    }

    /// Loads the configuration for a start. If the file cannot be used, takes the last one that
    /// could be, which the previous `nrid` has kept: a start after a crash, or for the next
    /// container, must not fail because of a file that was saved with a mistake.
    ///
    /// # Errors
    /// The file cannot be used, and none was kept since the boot.
    pub fn load_for_start(
        config: Option<&Path>,
        state: Option<&Path>,
    ) -> Result<Self, ConfigFileError> {
        let environment = Environment::of_this_process();
        let mut loaded = LoadedConfig::read(config, &environment, answers);
        let state_dir = state.map_or_else(|| loaded.state_dir(&environment), Path::to_owned);
        let mut unusable = None;
        if let Some(problem) = &loaded.problem
            && let Some(text) = last_good::read(&state_dir, problem.path())
        {
            unusable = Some(problem.to_string());
            loaded = LoadedConfig::of_text(loaded.named, problem.path().to_owned(), text);
        }
        let command_line = CommandLine {
            config: config.map(Path::to_owned),
            state_dir: state.map(Path::to_owned),
        };
        Ok(Self { unusable, ..Self::of(loaded, command_line)? })
    }

    fn of(loaded: LoadedConfig, command_line: CommandLine) -> Result<Self, ConfigFileError> {
        let environment = Environment::of_this_process();
        let settings = loaded.call_settings(&environment);
        let LoadedConfig { config, named, source, mistakes, problem } = loaded;
        if let Some(problem) = problem {
            return Err(problem);
        }
        let state_dir = command_line.state_dir.clone();
        let state_dir = state_dir.unwrap_or_else(|| settings.state_dir.clone());
        let is_found_by_calls = state_dir == settings.state_dir
            && NridOwner::of_this_process(&environment) == NridOwner::Host;
        let calls = (named.unwrap_or_else(|| CONFIG_FILE.into()), settings);
        let (file, text) = source.unzip();
        let digest = text.as_deref().map(sha256);
        let plugin_dirs = PluginDirs::of(&config, &environment);
        Ok(Self {
            config,
            file,
            state_dir,
            plugin_dirs,
            digest,
            text,
            unusable: None,
            calls,
            is_found_by_calls,
            mistakes,
            command_line,
        })
    }

    /// Returns the mistakes in the file for which the parser has used other values. A start accepts
    /// them; `nrid --check` and a reload refuse the file because of them.
    pub fn mistakes(&self) -> impl Iterator<Item = ConfigFileError> {
        let file = self.file.iter();
        file.flat_map(|file| self.mistakes.iter().map(|m| (file.clone(), m.clone())))
            .map(|(file, mistake)| ConfigFileError::Parse(file, mistake))
    }

    /// Publishes what calls of the wrapper need, if they find this `nrid`, and keeps the file for
    /// an `nrid` that starts while it cannot be used.
    pub fn publish(&self) {
        let file = self.file.as_deref().zip(self.text.as_deref());
        last_good::keep(&self.state_dir, file);
        let (config, settings) = &self.calls;
        if self.is_found_by_calls
            && let Err(error) = settings.publish(config)
        {
            tracing::warn!(
                %error,
                "settings of wrappers not published; each call reads the configuration"
            );
        }
    }

    /// Removes what was published, so that calls read the file: at an end that an administrator
    /// has requested. What another end leaves is followed until the next `nrid`.
    pub fn unpublish(&self) {
        if self.is_found_by_calls {
            // Without the file, there is nothing to remove.
            let _ = std::fs::remove_file(published_file(&self.calls.0));
        }
    }

    /// Says that the last configuration that could be used is effective, and why.
    pub fn unusable_file(&self) -> Option<String> {
        let why = self.unusable.as_ref()?;
        Some(format!("{why}; the last configuration that nrid could use is effective"))
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

    /// Whether plugins can refuse what engines request, by a reply or because one is missing. In
    /// shadow mode they cannot.
    pub fn plugins_can_refuse(&self) -> bool {
        self.config.mode == Mode::Apply
    }

    /// Whether the state directory is the default one of the host.
    pub fn is_default_state_dir(&self) -> bool {
        self.state_dir == NridOwner::Host.state_dir()
    }
}
