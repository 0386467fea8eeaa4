//! What a call of the wrapper needs of the configuration, in the form that `nrid` publishes: the
//! wrapper follows what is published, and makes the same from the file only if nothing is.

use crate::{config_file::LoadedConfig, environment::Environment, paths::DEFAULT_RUNTIMES};
use nri_config::{RuntimeSettings, Unreachable};
use nri_passthrough::{
    CallSettings,
    published::{DIRECTORY, file_name, put_circumstances},
    settings::{
        CANDIDATE, DISABLED, NAMED_RUNTIME, PASS_UNREACHABLE, REQUEST_TIMEOUT, RUNTIME,
        START_TIMEOUT, STATE_DIR, put,
    },
};
use nri_trust::Owners;
use std::{
    ffi::OsStr,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// Entries of [`CallSettings`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncodedSettings(Vec<u8>);

impl EncodedSettings {
    /// Makes the settings from a configuration. Values that it lacks are defaults.
    pub fn of(loaded: &LoadedConfig, environment: &Environment) -> Self {
        let config = &loaded.config;
        let mut this = Self::default();
        this.path(STATE_DIR, &loaded.state_dir(environment));
        for (key, is_set) in [
            (DISABLED, config.disable),
            (PASS_UNREACHABLE, config.unreachable == Unreachable::Pass),
        ] {
            if is_set {
                this.put(key, &[b"1"]);
            }
        }
        this.time(START_TIMEOUT, config.start_timeout);
        this.time(REQUEST_TIMEOUT, config.longest_request_timeout());
        this.runtimes(&config.runtime);
        this
    }

    /// Makes settings that only have the runtimes.
    pub(crate) fn of_runtimes(settings: &RuntimeSettings) -> Self {
        let mut this = Self::default();
        this.runtimes(settings);
        this
    }

    /// Returns the settings.
    pub fn settings(&self) -> CallSettings<'_> {
        CallSettings::new(&self.0)
    }

    /// Publishes the settings for calls with this configuration file, in place of those that were
    /// published before. After an error, none are published.
    ///
    /// # Errors
    /// The file cannot be written, or other users could change it.
    pub fn publish(&self, config: &Path) -> Result<(), PublishError> {
        let file = published_file(config);
        let written = self.write(&file, config);
        if written.is_err() {
            // CallSettings of before would be followed.
            let _ = fs::remove_file(&file);
        }
        written.map_err(|source| PublishError { file, source })
    }

    fn write(&self, file: &Path, config: &Path) -> io::Result<()> {
        let mut text = Vec::new();
        put_circumstances(&mut text, config.as_os_str().as_bytes())
            .ok_or_else(|| io::Error::other("the namespaces of this process are not known"))?;
        text.extend_from_slice(&self.0);
        let directory = file.parent().unwrap_or(Path::new("/"));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        Owners::of_this_process().check(directory).map_err(io::Error::other)?;
        let new = file.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, file)
    }

    fn runtimes(&mut self, settings: &RuntimeSettings) {
        if let Some(path) = &settings.path {
            self.path(RUNTIME, path);
        }
        for (name, runtime) in &settings.names {
            let path = runtime.path.as_os_str().as_bytes();
            // No call has a name with a slash.
            if !name.contains('/') {
                self.put(NAMED_RUNTIME, &[name.as_bytes(), b"/", path]);
            }
        }
        let candidates = || runtime_candidates(settings);
        for name in settings.path.is_none().then(candidates).iter().flatten() {
            self.path(CANDIDATE, name);
        }
    }

    fn time(&mut self, key: &str, time: Duration) {
        self.put(key, &[time.as_millis().to_string().as_bytes()]);
    }

    fn path(&mut self, key: &str, path: &Path) {
        self.put(key, &[path.as_os_str().as_bytes()]);
    }

    /// Appends an entry. A value with a NUL, which no path has, is omitted.
    fn put(&mut self, key: &str, parts: &[&[u8]]) {
        let _ = put(&mut self.0, key, parts);
    }
}

/// CallSettings that could not be published.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", file.display())]
pub struct PublishError {
    file: PathBuf,
    #[source]
    source: io::Error,
}

/// Returns the path of the file with what is published for calls with this configuration file.
pub fn published_file(config: &Path) -> PathBuf {
    let directory = Path::new(OsStr::from_bytes(DIRECTORY.to_bytes()));
    directory.join(OsStr::from_bytes(&file_name(config.as_os_str().as_bytes())))
}

/// Returns the runtimes to try, in order, if no runtime is named.
pub fn runtime_candidates(settings: &RuntimeSettings) -> Vec<PathBuf> {
    match settings.candidates.as_slice() {
        [] => DEFAULT_RUNTIMES.map(PathBuf::from).to_vec(),
        given => given.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let file = file.path().canonicalize().unwrap();
        let loaded = LoadedConfig::read(Some(&file), &Environment::default());
        let made = EncodedSettings::of(&loaded, &Environment::default());
        String::from_utf8(made.0).unwrap().replace('\0', "\n")
    }

    #[test]
    fn the_entries_have_all_that_a_call_needs() {
        assert_eq!(
            entries(
                "state_dir = '/s'\ndisable = true\nunreachable = 'pass'\nstart_timeout = '3s'\n\
                 plugin_request_timeout = '1s'\n[[plugin]]\nmatch = 'a'\ntimeout = '3m'\n\
                 [runtime]\npath = '/r'\ncandidates = ['a', '/b']\n\
                 [runtime.names.nri-x]\npath = 'x'\n[runtime.names.'x/y']\npath = 'y'\n"
            ),
            "state_dir=/s\ndisabled=1\npass_unreachable=1\nstart_timeout=3000\n\
             request_timeout=180000\nruntime=/r\nnamed_runtime=nri-x/x\n"
        );
        let defaults = entries("state_dir = '/s'\n");
        let runtimes = "candidate=runc\ncandidate=crun\ncandidate=youki\n";
        assert!(defaults.starts_with("state_dir=/s\nstart_timeout="), "{defaults}");
        assert!(defaults.ends_with(runtimes), "{defaults}");
    }

    #[test]
    fn what_was_written_is_read() {
        let text = "state_dir = '/s'\nstart_timeout = '1500ms'\n";
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let file = file.path().canonicalize().unwrap();
        let loaded = LoadedConfig::read(Some(&file), &Environment::default());
        let made = EncodedSettings::of(&loaded, &Environment::default());
        let settings = made.settings();
        assert_eq!(settings.state_dir(), b"/s");
        assert!(!settings.is_disabled() && !settings.passes_unreachable());
        assert_eq!(settings.start_timeout(), Duration::from_millis(1500));
        assert_eq!(settings.request_timeout(), loaded.config.longest_request_timeout());
        assert_eq!(settings.candidates().count(), 3);
    }
}
