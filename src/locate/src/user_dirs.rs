//! Directories of a user: a user's `nrid` reads its configuration and launches its plugins from
//! there, in place of the system's directories. Start from [`UserDirs::of_this_process`].
//!
//! Engines pass little of a user's environment: rootless Podman calls `start`, `kill` and `delete`
//! with `XDG_RUNTIME_DIR` alone. So `nrid` records the directories as links in the default state
//! directory ([`UserDirs::record`]), where a program without `HOME` finds them.

use crate::{environment::Environment, state_dir::NridOwner};
use rustix::process::geteuid;
use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, symlink},
    path::{Path, PathBuf},
};

/// Name of our directory in the directory of a user's configuration.
const OWN_DIR: &str = "nri-container-runtime";
/// Link to the directory of the user's configuration, in the default state directory.
const CONFIG_LINK: &str = "config-home";
/// Link to the directory of the user's data, in the default state directory.
const DATA_LINK: &str = "data-home";

/// Directories of the user that this program runs for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserDirs {
    /// `$XDG_CONFIG_HOME`, or `.config` in the home directory.
    pub config_home: PathBuf,
    /// `$XDG_DATA_HOME`, or `.local/share` in the home directory.
    pub data_home: PathBuf,
}

impl UserDirs {
    /// Returns the directories of the user; `None` if the system's directories apply: for root, and
    /// for a user whose home directory is not known.
    ///
    /// Root of a user namespace counts as root if the root directory belongs to it, as in a
    /// container that has a distribution of its own. With rootless engines, the root directory
    /// belongs to root of the host, which their user namespaces do not map.
    pub fn of_this_process(environment: &Environment) -> Option<Self> {
        let uid = geteuid().as_raw();
        if uid == 0 && fs::symlink_metadata("/").is_ok_and(|meta| meta.uid() == 0) {
            return None;
        }
        let links = NridOwner::of_this_process(environment).state_dir();
        Self::of(environment, uid, &links)
    }

    /// Returns the directories of a user. `links` is the directory of the links that `nrid` made.
    fn of(environment: &Environment, uid: u32, links: &Path) -> Option<Self> {
        let is_ours = |meta: io::Result<fs::Metadata>| meta.is_ok_and(|meta| meta.uid() == uid);
        let variable = |name: &str| environment.var(name).map(PathBuf::from);
        // Programs that change their user, such as setpriv(1), may keep HOME of the previous one.
        let home = variable("HOME").filter(|home| is_ours(fs::metadata(home)));
        let find = |name: &str, below_home: &str, link: &str| {
            let link = links.join(link);
            variable(name)
                .or_else(|| home.as_ref().map(|home| home.join(below_home)))
                // The XDG Base Directory Specification requires that relative paths are ignored.
                .filter(|dir| dir.is_absolute())
                .or_else(|| {
                    // Without XDG_RUNTIME_DIR, the links are in `/tmp`, where others create files.
                    is_ours(fs::symlink_metadata(&link)).then(|| fs::read_link(&link).ok())?
                })
        };
        Some(Self {
            config_home: find("XDG_CONFIG_HOME", ".config", CONFIG_LINK)?,
            data_home: find("XDG_DATA_HOME", ".local/share", DATA_LINK)?,
        })
    }

    /// Directory of the configuration file, the break-glass file and the record of
    /// installations.
    pub fn own_config_dir(&self) -> PathBuf {
        self.config_home.join(OWN_DIR)
    }

    /// Path of the configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.own_config_dir().join("config.toml")
    }

    /// Path of the file that disables NRI for the user.
    pub fn bypass_file(&self) -> PathBuf {
        self.own_config_dir().join("bypass")
    }

    /// Directory of the plugins to launch.
    pub fn plugin_dir(&self) -> PathBuf {
        self.data_home.join("nri/plugins")
    }

    /// Directory of the configuration of launched plugins.
    pub fn plugin_config_dir(&self) -> PathBuf {
        self.config_home.join("nri/conf.d")
    }

    /// Records the directories for calls without `HOME`, in the default state directory of the
    /// user.
    ///
    /// # Errors
    /// A link cannot be made.
    pub fn record(&self, environment: &Environment) -> io::Result<()> {
        self.record_in(&NridOwner::of_this_process(environment).state_dir())
    }

    fn record_in(&self, dir: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        for (name, target) in [(CONFIG_LINK, &self.config_home), (DATA_LINK, &self.data_home)] {
            let link = dir.join(name);
            if fs::read_link(&link).is_ok_and(|current| current == *target) {
                continue;
            }
            let new = dir.join(format!("{name}.new"));
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            symlink(target, &new)?;
            fs::rename(&new, &link)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(entries: &[String]) -> Environment {
        Environment::new(entries.iter().map(std::ffi::OsString::from))
    }

    #[test]
    fn directories_are_those_of_the_environment_else_the_recorded_ones() {
        let home = tempfile::tempdir().unwrap();
        let state = tempfile::tempdir().unwrap();
        let uid = geteuid().as_raw();
        let of = |entries: &[String]| {
            let found = UserDirs::of(&environment(entries), uid, state.path())?;
            Some([found.config_file(), found.plugin_dir()])
        };
        let home = home.path().display().to_string();
        let from_home = || {
            let file = format!("{home}/.config/nri-container-runtime/config.toml");
            Some([file.into(), format!("{home}/.local/share/nri/plugins").into()])
        };
        let variable = |name: &str, value: &str| format!("{name}={value}");
        let at_home = [variable("HOME", &home)];
        assert_eq!(of(&at_home), from_home());
        let both = [variable("XDG_CONFIG_HOME", "/c"), variable("XDG_DATA_HOME", "/d")];
        let from_both =
            || Some(["/c/nri-container-runtime/config.toml".into(), "/d/nri/plugins".into()]);
        assert_eq!(of(&both), from_both());
        // Relative paths are ignored, and nothing else is known.
        assert_eq!(of(&[variable("XDG_CONFIG_HOME", "c"), variable("XDG_DATA_HOME", "d")]), None);
        assert_eq!(of(&[]), None);

        UserDirs::of(&environment(&at_home), uid, state.path())
            .unwrap()
            .record_in(state.path())
            .unwrap();
        assert_eq!(of(&[]), from_home());
        assert_eq!(of(&both), from_both());
        // A second record replaces the first one.
        let both = UserDirs::of(&environment(&both), uid, state.path()).unwrap();
        both.record_in(&state.path().join("new")).unwrap();
        both.record_in(state.path()).unwrap();
        assert_eq!(of(&[]), from_both());
        let other = UserDirs::of(&environment(&[]), uid.wrapping_add(1), state.path());
        assert_eq!(other, None, "links of another user are followed");
    }

    #[test]
    fn a_home_directory_of_another_user_is_not_used() {
        let state = tempfile::tempdir().unwrap();
        let uid = fs::metadata("/").unwrap().uid().wrapping_add(1);
        let found = UserDirs::of(&environment(&["HOME=/".to_owned()]), uid, state.path());
        assert_eq!(found, None);
    }
}
