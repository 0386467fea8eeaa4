//! Directories of the plugins that `nrid` launches, and of their configuration.

use crate::{
    environment::Environment,
    paths::{ENABLED_PLUGIN_DIR, PLUGIN_CONFIG_DIR, PLUGIN_DIR},
    user_dirs::UserDirs,
};
use nri_config::Config;
use std::path::{Path, PathBuf};

/// The directories: those of the configuration file, else those of the user, else the system's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginDirs {
    /// Directory of the programs. An empty path, which the configuration may have, means none.
    pub programs: PathBuf,
    /// Directory of the plugins that `nrictl plugin enable` enables, which no engine launches: one
    /// of its own beside the shared plugins, else that of the programs.
    pub enabled: PathBuf,
    /// Directory of their configuration.
    pub configuration: PathBuf,
    /// Whether the programs are the shared ones: those in the system's directory, which engines
    /// with NRI launch too, and which the configuration file does not name.
    pub are_shared: bool,
}

impl PluginDirs {
    /// Returns the directories for a configuration.
    pub fn of(config: &Config, environment: &Environment) -> Self {
        Self::with_user(config, UserDirs::of_this_process(environment).as_ref())
    }

    /// Returns the directories of programs, without an empty path.
    pub fn all(&self) -> impl Iterator<Item = &Path> {
        let second = Some(&self.programs).filter(|programs| **programs != self.enabled);
        let dirs = [Some(&self.enabled), second].into_iter().flatten();
        dirs.map(PathBuf::as_path).filter(|dir| !dir.as_os_str().is_empty())
    }

    fn with_user(config: &Config, user: Option<&UserDirs>) -> Self {
        let programs = user.map_or_else(|| PLUGIN_DIR.into(), UserDirs::plugin_dir);
        let configuration =
            user.map_or_else(|| PLUGIN_CONFIG_DIR.into(), UserDirs::plugin_config_dir);
        let are_shared = config.plugin_path.is_none() && user.is_none();
        let programs = config.plugin_path.clone().unwrap_or(programs);
        Self {
            enabled: if are_shared { ENABLED_PLUGIN_DIR.into() } else { programs.clone() },
            programs,
            configuration: config.plugin_config_path.clone().unwrap_or(configuration),
            are_shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_precedes_the_user_and_the_user_the_system() {
        let user = UserDirs { config_home: "/h/.config".into(), data_home: "/h/data".into() };
        let of = |text: &str, user| PluginDirs::with_user(&Config::parse(text).unwrap(), user);
        let dirs = |programs: &str, configuration: &str, are_shared| PluginDirs {
            enabled: if are_shared { ENABLED_PLUGIN_DIR } else { programs }.into(),
            programs: programs.into(),
            configuration: configuration.into(),
            are_shared,
        };
        assert_eq!(of("", None), dirs("/opt/nri/plugins", "/etc/nri/conf.d", true));
        assert_eq!(
            of("", Some(&user)),
            dirs("/h/data/nri/plugins", "/h/.config/nri/conf.d", false)
        );
        let named = "plugin_path = '/opt/nri/plugins'\nplugin_config_path = '/c'";
        for user in [None, Some(&user)] {
            assert_eq!(of(named, user), dirs("/opt/nri/plugins", "/c", false));
        }
        assert_eq!(of("plugin_path = ''", None), dirs("", "/etc/nri/conf.d", false));
    }
}
