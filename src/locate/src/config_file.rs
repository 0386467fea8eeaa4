//! Finds, checks and reads the configuration file.
//!
//! [`LoadedConfig`] stores an error of the file together with usable values: even with an invalid
//! file the wrapper must kill and delete containers, and `nrictl` must reach `nrid`.

use crate::{
    environment::{Environment, absolute},
    paths::{CONFIG_ENV, CONFIG_FILE},
    reach::{ANSWER_TIMEOUT, Answers, hangs},
    state_dir::NridOwner,
    user_dirs::UserDirs,
};
use nri_config::{Config, ConfigError, Unreachable};
use nri_files::CallSettings;
use nri_trust::{MAX_CONFIG_FILE, Owners, Untrusted, read_regular, read_regular_text};
use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// The configuration, and the file that it was read from.
#[derive(Debug)]
pub struct LoadedConfig {
    /// Values of the file. Defaults if the file is missing; if the file is invalid, defaults with
    /// the values that [`Config::of_broken`] finds.
    pub config: Config,
    /// Absolute path that the command line or the environment names, if any.
    pub named: Option<PathBuf>,
    /// Absolute path and text of the file that was read; `None` if it is missing or not trusted.
    pub source: Option<(PathBuf, String)>,
    /// Mistakes in the file for which the parser has used other values; see
    /// [`Config::parse_with_mistakes`].
    pub mistakes: Vec<ConfigError>,
    /// Reason why the file cannot be used, if any.
    pub problem: Option<ConfigFileError>,
}

/// Reason why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// The file cannot be read.
    #[error("configuration {}: {}", .0.display(), .1)]
    Read(PathBuf, #[source] io::Error),
    /// The file is malformed.
    #[error("configuration {}: {}", .0.display(), .1)]
    Parse(PathBuf, #[source] ConfigError),
    /// Other users could change the file, and thereby the programs that run with our privileges.
    #[error("configuration {} is not trusted: {}", .0.display(), .1)]
    Untrusted(PathBuf, #[source] Untrusted),
    /// The file system of the file does not answer.
    #[error(
        "configuration {}: its file system hangs, no answer within {ANSWER_TIMEOUT:?}", .0.display()
    )]
    Hangs(PathBuf),
}

impl ConfigFileError {
    /// Path of the file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Read(path, _)
            | Self::Parse(path, _)
            | Self::Untrusted(path, _)
            | Self::Hangs(path) => path,
        }
    }
}

impl LoadedConfig {
    /// Reads the file named by the command line (`option`), else by the environment variable, else
    /// the default file, which may be missing: that of the user, if it exists, or of the system.
    /// `answers` keeps it from waiting for a file system that hangs.
    pub fn read(option: Option<&Path>, environment: &Environment, answers: Answers) -> Self {
        let named = named_config_file(option, environment);
        let user = || UserDirs::of_this_process(environment).map(|user| user.config_file());
        let found = match &named {
            Some(path) => read_if_it_answers(path, answers).map(|text| Some((path.clone(), text))),
            None => read_first(user().into_iter().chain([CONFIG_FILE.into()]), answers),
        };
        match found {
            Ok(Some((path, text))) => Self::of_text(named, path, text),
            Ok(None) => Self::without_file(named, None),
            Err(e) => Self::without_file(named, Some(e)),
        }
    }

    /// Parses the text of the file at `path`. `named` is the path that the command line or the
    /// environment names.
    pub fn of_text(named: Option<PathBuf>, path: PathBuf, text: String) -> Self {
        let (config, mistakes, problem) = match Config::parse_with_mistakes(&text) {
            Ok((config, mistakes)) => (config, mistakes, None),
            // The path of the runtime is still needed: only the runtime that created a container
            // can kill and delete the container.
            Err(e) => {
                let problem = ConfigFileError::Parse(path.clone(), e);
                (Config::of_broken(&text), Vec::new(), Some(problem))
            }
        };
        Self { config, named, source: Some((path, text)), mistakes, problem }
    }

    fn without_file(named: Option<PathBuf>, problem: Option<ConfigFileError>) -> Self {
        Self { config: Config::default(), named, source: None, mistakes: Vec::new(), problem }
    }

    /// Returns the absolute path of the state directory: the key `state_dir`, else the default.
    pub fn state_dir(&self, environment: &Environment) -> PathBuf {
        match &self.config.state_dir {
            Some(dir) => absolute(dir),
            None => NridOwner::of_this_process(environment).state_dir(),
        }
    }

    /// Returns what calls of the wrapper need.
    pub fn call_settings(&self, environment: &Environment) -> CallSettings {
        let config = &self.config;
        CallSettings {
            state_dir: self.state_dir(environment),
            is_disabled: config.disable,
            passes_unreachable: config.unreachable == Unreachable::Pass,
            start_timeout: config.start_timeout,
            request_timeout: config.longest_request_timeout(),
            runtime: config.runtime.clone(),
        }
    }
}

/// Returns the absolute path of the configuration file that the command line or the environment
/// names.
pub fn named_config_file(option: Option<&Path>, environment: &Environment) -> Option<PathBuf> {
    option.or_else(|| environment.var(CONFIG_ENV).map(Path::new)).map(absolute)
}

/// Reads the first file that exists; `None` if none does.
fn read_first(
    paths: impl Iterator<Item = PathBuf>,
    answers: Answers,
) -> Result<Option<(PathBuf, String)>, ConfigFileError> {
    for path in paths {
        match read_if_it_answers(&path, answers) {
            Ok(text) => return Ok(Some((path, text))),
            Err(ConfigFileError::Read(_, e)) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// Accesses a file as [`LoadedConfig::read`] and [`read_in_time`](crate::read_in_time) do: the
/// child of [`Answers`].
pub fn touch(path: &Path) {
    // Only whether they end matters; the second one also reads files that are not trusted.
    let _ = Owners::of_this_process().check_if_exists(path);
    let _ = read_regular(path, MAX_CONFIG_FILE);
}

fn read_if_it_answers(path: &Path, answers: Answers) -> Result<String, ConfigFileError> {
    if hangs(path, answers) {
        return Err(ConfigFileError::Hangs(path.to_owned()));
    }
    read_trusted(path)
}

/// Checks the path, then reads the file. Other users cannot replace the file in between, since they
/// cannot change a trusted path.
fn read_trusted(path: &Path) -> Result<String, ConfigFileError> {
    Owners::of_this_process()
        .check_if_exists(path)
        .map_err(|e| ConfigFileError::Untrusted(path.to_owned(), e))?;
    read_regular_text(path, MAX_CONFIG_FILE).map_err(|e| ConfigFileError::Read(path.to_owned(), e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::OsString, fs, os::unix::fs::PermissionsExt, time::Duration};

    fn read(path: &Path) -> LoadedConfig {
        LoadedConfig::read(Some(path), &Environment::default(), |_| true)
    }

    #[test]
    fn a_broken_file_still_defines_what_is_needed_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().canonicalize().unwrap().join("c.toml");
        fs::write(&file, "state_dir = '/s'\ncolour = 1\n[runtime]\npath = '/r'\n").unwrap();
        let loaded = read(&file);
        assert_eq!(loaded.config.runtime.path, Some("/r".into()));
        assert_eq!(loaded.state_dir(&Environment::default()), Path::new("/s"));
        let problem = loaded.problem.unwrap().to_string();
        let place = format!("configuration {}: line 2, column 1: ", file.display());
        assert!(problem.starts_with(&place), "{problem}");
        // Path and text are kept also for a broken file: `nrid` needs a digest of the text.
        assert_eq!(loaded.source.unwrap().0, file);
    }

    #[test]
    fn a_file_with_mistakes_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().canonicalize().unwrap().join("c.toml");
        fs::write(&file, "state_dir = 's'\n[log]\nlevel = 'loud'\n[runtime]\npath = '/r'\n")
            .unwrap();
        let loaded = read(&file);
        assert!(loaded.problem.is_none(), "{:?}", loaded.problem);
        assert_eq!(loaded.mistakes.len(), 2, "the relative path and the unknown log level");
        assert_eq!(loaded.config.runtime.path, Some("/r".into()));
        assert_eq!(loaded.state_dir(&Environment::default()), Path::new("/s"));
    }

    #[test]
    fn calls_get_all_settings_that_they_need() {
        let text = "state_dir = '/s'\nunreachable = 'pass'\n\
                    start_timeout = '1500ms'\nplugin_request_timeout = '1s'\n\
                    [[plugin]]\nmatch = 'a'\ntimeout = '3m'\n\
                    [runtime]\npath = '/r'\ncandidates = ['a', '/b']\n\
                    [runtime.names.nri-x]\npath = 'x'\n";
        let loaded = LoadedConfig::of_text(None, "/c".into(), text.to_owned());
        assert!(loaded.problem.is_none(), "{:?}", loaded.problem);
        let settings = loaded.call_settings(&Environment::default());
        let encoded = serde_json::to_vec(&settings).unwrap();
        assert_eq!(serde_json::from_slice::<CallSettings>(&encoded).unwrap(), settings);
        let expected = CallSettings {
            state_dir: "/s".into(),
            is_disabled: false,
            passes_unreachable: true,
            start_timeout: Duration::from_millis(1500),
            request_timeout: Duration::from_secs(180),
            runtime: loaded.config.runtime,
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn the_first_file_that_exists_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().canonicalize().unwrap().join(name);
        let paths = || [path("none/a"), path("b"), path("c")].into_iter();
        let read = || read_first(paths(), |_| true);
        assert!(matches!(read(), Ok(None)));
        fs::write(path("c"), "of c").unwrap();
        assert_eq!(read().unwrap().unwrap(), (path("c"), "of c".to_owned()));
        // A file that exists is not skipped because of its contents or its mode.
        fs::write(path("b"), "").unwrap();
        assert_eq!(read().unwrap().unwrap(), (path("b"), String::new()));
        fs::set_permissions(path("b"), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(read(), Err(ConfigFileError::Untrusted(..))));
    }

    #[test]
    fn an_endless_or_huge_file_is_refused_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().canonicalize().unwrap().join(name);
        std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
        // A sparse file of 1 TiB.
        fs::File::create(path("huge")).unwrap().set_len(1 << 40).unwrap();
        for (name, why) in [
            ("zero", "not a regular file"),
            ("huge", "the file is larger than the limit of 1048576 bytes"),
        ] {
            let problem = read(&path(name)).problem.unwrap().to_string();
            assert_eq!(problem, format!("configuration {}: {why}", path(name).display()));
        }
    }

    #[test]
    fn a_file_on_a_file_system_that_does_not_answer_is_not_read() {
        let loaded =
            LoadedConfig::read(Some("/proc/version".as_ref()), &Environment::default(), |_| false);
        assert_eq!(
            loaded.problem.unwrap().to_string(),
            "configuration /proc/version: its file system hangs, no answer within 2s"
        );
        // That of `/` is not asked.
        let loaded = LoadedConfig::read(Some("/none".as_ref()), &Environment::default(), |_| false);
        assert!(matches!(loaded.problem, Some(ConfigFileError::Read(..))));
    }

    #[test]
    fn a_file_writable_by_others_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().canonicalize().unwrap().join("c.toml");
        fs::write(&file, "[runtime]\npath = '/r'\n").unwrap();
        assert_eq!(read(&file).config.runtime.path, Some("/r".into()));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        let loaded = read(&file);
        assert_eq!((loaded.config, loaded.source), (Config::default(), None));
        assert!(matches!(loaded.problem, Some(ConfigFileError::Untrusted(..))));
    }

    #[test]
    fn the_option_precedes_the_variable_and_a_named_file_must_exist() {
        let environment = Environment::new([OsString::from(format!("{CONFIG_ENV}=/nowhere/v"))]);
        for (option, path) in [(Some(Path::new("/nowhere/o")), "/nowhere/o"), (None, "/nowhere/v")]
        {
            let loaded = LoadedConfig::read(option, &environment, |_| true);
            assert_eq!(loaded.named.as_deref(), Some(Path::new(path)));
            assert!(matches!(loaded.problem, Some(ConfigFileError::Read(..))), "{option:?}");
        }
    }
}
