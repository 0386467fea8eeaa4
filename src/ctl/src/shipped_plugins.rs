//! `nrictl plugin`: the plugins that come with the package, and which of them `nrid` launches. A
//! plugin is enabled by a symbolic link in the plugin directory, so that an upgrade of the package
//! upgrades it.

use crate::{nrid_location::NridLocation, output::output, table::TextTable};
use clap::Subcommand;
use nri_locate::{PluginDirs, own_program_dirs};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fs, io,
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// Directory of the shipped plugins, beside our other programs.
const SHIPPED: &str = "plugins";

/// Directory of their sample configurations, below the prefix of the installation.
const SAMPLES: &str = "share/nri-container-runtime/plugins";

/// What an error of standard output names.
const STDOUT: &str = "standard output";

/// Enable, disable or list the shipped plugins.
///
/// Exit code 4 if the command was refused, or a plugin could not be launched.
#[derive(clap::Args)]
pub(crate) struct PluginCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the shipped plugins, and those that are enabled.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Let nrid launch a shipped plugin, from now on.
    ///
    /// Links the program into a directory of nrid, `/etc/nri-container-runtime/plugins` unless
    /// `plugin_path` is set, copies its sample configuration where it has none yet, and reloads
    /// nrid, or starts it, so that a mistake in the configuration is found at once. The plugin is
    /// called for containers that are created with nri-container-runtime; an engine with NRI of its
    /// own does not launch it.
    Enable {
        /// Name of the plugin, as `nrictl plugin list` shows it.
        name: String,
        /// Place in the order of plugins, two digits.
        #[arg(long, value_name = "NN", default_value = "50", value_parser = index)]
        index: String,
    },
    /// Let nrid launch a shipped plugin no longer.
    ///
    /// Removes the link, and reloads nrid if it runs. The configuration of the plugin stays.
    Disable {
        /// Name of the plugin.
        name: String,
    },
}

/// Failure of `nrictl plugin`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShippedPluginError {
    #[error("no plugin {name:?} comes with this installation: there are {}", .all.join(", "))]
    Unknown { name: String, all: Vec<String> },
    #[error("no plugins come with this installation: none are in {}", .0.join(" or "))]
    NoneShipped(Vec<String>),
    #[error("plugin {0:?} is not enabled")]
    NotEnabled(String),
    #[error(
        "{} is this plugin already: `nrictl plugin disable {name}` or remove it first",
        .path.display()
    )]
    Exists { path: PathBuf, name: String },
    #[error("{} is not a link to a shipped plugin: remove it yourself", .0.display())]
    NotOurs(PathBuf),
    #[error("the configuration has no plugin_path: nrid launches no plugins")]
    NoDirectory,
    #[error("{}: {error}", .path.display())]
    Io { path: PathBuf, error: io::Error },
}

fn index(text: &str) -> Result<String, String> {
    let is_index = text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_digit());
    is_index.then(|| text.to_owned()).ok_or_else(|| "expected two digits, such as 50".to_owned())
}

/// A shipped plugin, as `--json` shows it.
#[derive(Debug, Serialize)]
struct ShippedPlugin {
    name: String,
    program: PathBuf,
    /// Its names in the plugin directory.
    enabled: Vec<String>,
}

impl PluginCommand {
    /// Whether a plugin is to be launched from now on.
    pub(crate) fn enables(&self) -> bool {
        matches!(self.action, Action::Enable { .. })
    }

    /// Runs the command. Returns whether the plugin directory is to be loaded again.
    ///
    /// # Errors
    /// See [`ShippedPluginError`].
    pub(crate) fn run(&self, nrid: &NridLocation) -> Result<bool, ShippedPluginError> {
        let dirs = &nrid.plugin_dirs;
        let shipped = Shipped::find(own_program_dirs());
        match &self.action {
            Action::List { json } => {
                let plugins = shipped.plugins(dirs)?;
                print(&plugins, *json).map_err(|error| io_error(Path::new(STDOUT), error))?;
                Ok(false)
            }
            Action::Enable { name, index } => shipped.enable(dirs, name, index).map(|()| true),
            Action::Disable { name } => shipped.disable(dirs, name).map(|()| true),
        }
    }
}

/// The shipped plugins: programs by name.
struct Shipped {
    programs: BTreeMap<String, PathBuf>,
    dirs: Vec<String>,
}

impl Shipped {
    fn find(dirs: impl Iterator<Item = PathBuf>) -> Self {
        let dirs: Vec<PathBuf> = dirs.map(|dir| dir.join(SHIPPED)).collect();
        let mut programs = BTreeMap::new();
        for entry in dirs.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if nri_locate::can_run(&entry.path()) {
                programs.entry(name).or_insert_with(|| entry.path());
            }
        }
        Self { programs, dirs: dirs.iter().map(|dir| dir.display().to_string()).collect() }
    }

    fn program(&self, name: &str) -> Result<&Path, ShippedPluginError> {
        if self.programs.is_empty() {
            return Err(ShippedPluginError::NoneShipped(self.dirs.clone()));
        }
        let unknown = || {
            let all = self.programs.keys().cloned().collect();
            ShippedPluginError::Unknown { name: name.to_owned(), all }
        };
        self.programs.get(name).map(PathBuf::as_path).ok_or_else(unknown)
    }

    /// Returns all shipped plugins, and their names in the plugin directories.
    fn plugins(&self, dirs: &PluginDirs) -> Result<Vec<ShippedPlugin>, ShippedPluginError> {
        let plugin = |(name, program): (&String, &PathBuf)| {
            let enabled =
                entries_of(dirs, name)?.into_iter().filter(|path| is_link_to(path, program));
            let names = enabled.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
            Ok(ShippedPlugin {
                name: name.clone(),
                program: program.clone(),
                enabled: names.collect(),
            })
        };
        self.programs.iter().map(plugin).collect()
    }

    fn enable(&self, dirs: &PluginDirs, name: &str, index: &str) -> Result<(), ShippedPluginError> {
        let program = self.program(name)?;
        if dirs.programs.as_os_str().is_empty() {
            return Err(ShippedPluginError::NoDirectory);
        }
        let link = dirs.enabled.join(format!("{index}-{name}"));
        let mut entries = entries_of(dirs, name)?;
        entries.retain(|path| *path != link || !is_link_to(path, program));
        if let Some(path) = entries.pop() {
            return Err(ShippedPluginError::Exists { path, name: name.to_owned() });
        }
        self.configure(dirs, program, name, index)?;
        fs::create_dir_all(&dirs.enabled).map_err(|e| io_error(&dirs.enabled, e))?;
        match symlink(program, &link) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(io_error(&link, error))
            }
            _ => report(&format!("{} -> {}", link.display(), program.display())),
        }
    }

    /// Copies the sample configuration of a plugin, if it has one and is not configured yet.
    fn configure(
        &self,
        dirs: &PluginDirs,
        program: &Path,
        name: &str,
        index: &str,
    ) -> Result<(), ShippedPluginError> {
        let Some(sample) = sample_of(program, name) else { return Ok(()) };
        let file = dirs.configuration.join(format!("{name}.conf"));
        let own = dirs.configuration.join(format!("{index}-{name}.conf"));
        if !sample.exists() || file.exists() || own.exists() {
            return Ok(());
        }
        fs::create_dir_all(&dirs.configuration).map_err(|e| io_error(&dirs.configuration, e))?;
        // Complete or not at all: nrid may read it at any time.
        let new = dirs.configuration.join(format!(".{name}.conf.new"));
        let written = fs::copy(&sample, &new).and_then(|_| fs::rename(&new, &file));
        written.map_err(|error| {
            // What cannot be written can often not be removed either.
            let _ = fs::remove_file(&new);
            io_error(&file, error)
        })?;
        report(&format!("{}: the configuration of the plugin, as an example", file.display()))
    }

    fn disable(&self, dirs: &PluginDirs, name: &str) -> Result<(), ShippedPluginError> {
        let program = self.program(name)?;
        let entries = entries_of(dirs, name)?;
        let (ours, others): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|path| is_link_to(path, program));
        if ours.is_empty() {
            let not_enabled = || ShippedPluginError::NotEnabled(name.to_owned());
            return Err(others
                .into_iter()
                .next()
                .map_or_else(not_enabled, ShippedPluginError::NotOurs));
        }
        for link in ours {
            fs::remove_file(&link).map_err(|error| io_error(&link, error))?;
            report(&format!("{} removed", link.display()))?;
        }
        Ok(())
    }
}

/// Returns the path of the sample configuration of a plugin, which may not exist: below
/// `PREFIX/share` for a program `PREFIX/libexec/nri-container-runtime/plugins/NAME`.
fn sample_of(program: &Path, name: &str) -> Option<PathBuf> {
    Some(program.ancestors().nth(4)?.join(SAMPLES).join(format!("{name}.conf")))
}

/// Returns the files `NN-name` of the plugin directories, in order. A link in the directory that
/// engines have, too, counts like one that `enable` has made.
fn entries_of(dirs: &PluginDirs, name: &str) -> Result<Vec<PathBuf>, ShippedPluginError> {
    let is_named = |path: &PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        file.split_once('-').is_some_and(|(nn, rest)| index(nn).is_ok() && rest == name)
    };
    let mut found = Vec::new();
    for dir in dirs.all() {
        match fs::read_dir(dir) {
            Ok(entries) => {
                found.extend(entries.flatten().map(|entry| entry.path()).filter(is_named));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error(dir, error)),
        }
    }
    found.sort();
    Ok(found)
}

fn is_link_to(path: &Path, program: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| target == program)
}

fn report(line: &str) -> Result<(), ShippedPluginError> {
    writeln!(output(), "{line}").map_err(|error| io_error(Path::new(STDOUT), error))
}

fn io_error(path: &Path, error: io::Error) -> ShippedPluginError {
    ShippedPluginError::Io { path: path.to_owned(), error }
}

fn print(plugins: &[ShippedPlugin], json: bool) -> io::Result<()> {
    let mut out = output();
    if json {
        return writeln!(out, "{}", serde_json::to_string(&plugins)?);
    }
    if plugins.is_empty() {
        return writeln!(out, "no plugins come with this installation");
    }
    let mut table = TextTable::new(0);
    table.row(["NAME", "ENABLED AS"]);
    for plugin in plugins {
        let enabled = match plugin.enabled.as_slice() {
            [] => "-".to_owned(),
            names => names.join(", "),
        };
        table.row([plugin.name.clone(), enabled]);
    }
    table.write(&mut out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct Fixture {
        root: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let dir = root.path().join("usr/libexec/nri-container-runtime/plugins");
            fs::create_dir_all(&dir).unwrap();
            for name in ["rules", "logger"] {
                fs::write(dir.join(name), "#!/bin/sh\n").unwrap();
                fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
            }
            let samples = root.path().join("usr").join(SAMPLES);
            fs::create_dir_all(&samples).unwrap();
            fs::write(samples.join("rules.conf"), "rules: []\n").unwrap();
            Self { root }
        }

        fn shipped(&self) -> Shipped {
            Shipped::find(
                [
                    self.root.path().join("none"),
                    self.root.path().join("usr/libexec/nri-container-runtime"),
                ]
                .into_iter(),
            )
        }

        fn dirs(&self) -> PluginDirs {
            PluginDirs {
                programs: self.root.path().join("shared"),
                enabled: self.root.path().join("plugins"),
                configuration: self.root.path().join("conf.d"),
                are_shared: true,
            }
        }

        fn enabled(&self) -> Vec<(String, Vec<String>)> {
            let plugins = self.shipped().plugins(&self.dirs()).unwrap();
            plugins.into_iter().map(|plugin| (plugin.name, plugin.enabled)).collect()
        }
    }

    #[test]
    fn a_plugin_is_enabled_by_a_link_and_keeps_its_configuration() {
        let fixture = Fixture::new();
        let (shipped, dirs) = (fixture.shipped(), fixture.dirs());
        let none = [("logger".to_owned(), vec![]), ("rules".to_owned(), vec![])];
        assert_eq!(fixture.enabled(), none);
        shipped.enable(&dirs, "rules", "50").unwrap();
        // A second time changes nothing.
        shipped.enable(&dirs, "rules", "50").unwrap();
        let link = dirs.enabled.join("50-rules");
        assert_eq!(
            fs::read_link(&link).unwrap(),
            fixture.root.path().join("usr/libexec/nri-container-runtime/plugins/rules")
        );
        assert_eq!(fixture.enabled()[1].1, ["50-rules"]);
        let config = dirs.configuration.join("rules.conf");
        assert_eq!(fs::read_to_string(&config).unwrap(), "rules: []\n");
        fs::write(&config, "edited").unwrap();
        shipped.disable(&dirs, "rules").unwrap();
        assert_eq!(fixture.enabled(), none);
        shipped.enable(&dirs, "rules", "10").unwrap();
        assert_eq!(fs::read_to_string(&config).unwrap(), "edited");
    }

    /// Engines with NRI launch the plugins of that directory, too.
    #[test]
    fn a_link_in_the_shared_directory_counts_as_enabled() {
        let fixture = Fixture::new();
        let (shipped, dirs) = (fixture.shipped(), fixture.dirs());
        fs::create_dir(&dirs.programs).unwrap();
        let link = dirs.programs.join("50-rules");
        symlink(shipped.program("rules").unwrap(), &link).unwrap();
        assert_eq!(fixture.enabled()[1].1, ["50-rules"]);
        let error = shipped.enable(&dirs, "rules", "50").unwrap_err();
        assert!(
            matches!(&error, ShippedPluginError::Exists { path, .. } if *path == link),
            "{error}"
        );
        shipped.disable(&dirs, "rules").unwrap();
        assert!(!link.is_symlink());
        shipped.enable(&dirs, "rules", "50").unwrap();
        assert!(dirs.enabled.join("50-rules").is_symlink());
    }

    #[test]
    fn files_of_others_stay() {
        let fixture = Fixture::new();
        let (shipped, dirs) = (fixture.shipped(), fixture.dirs());
        let error = shipped.enable(&dirs, "ruled", "50").unwrap_err().to_string();
        assert!(error.contains("logger, rules"), "{error}");
        fs::create_dir(&dirs.programs).unwrap();
        let other = dirs.programs.join("20-rules");
        fs::write(&other, "").unwrap();
        for result in [shipped.enable(&dirs, "rules", "50"), shipped.disable(&dirs, "rules")] {
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with(other.to_str().unwrap()), "{error}");
        }
        assert!(other.exists() && !dirs.configuration.exists());
        let not_enabled = shipped.disable(&dirs, "logger").unwrap_err();
        assert!(matches!(not_enabled, ShippedPluginError::NotEnabled(_)));
        let empty = Shipped::find([fixture.root.path().join("none")].into_iter());
        let none = empty.enable(&dirs, "rules", "50").unwrap_err();
        assert!(matches!(none, ShippedPluginError::NoneShipped(_)));
    }

    #[test]
    fn an_index_has_two_digits() {
        for (text, is_valid) in
            [("00", true), ("99", true), ("5", false), ("5x", false), ("", false)]
        {
            assert_eq!(index(text).is_ok(), is_valid, "{text}");
        }
    }
}
