//! Reads the configuration of infra containers from `containers.conf`: the image, and the paths of
//! the program.
//!
//! Files are read in Podman's order; the last value of a key counts. Files that other users can
//! write are skipped, and directories that contain `$BINDIR` are ignored. Sources:
//! containers/common, `pkg/config/new.go`, `pkg/config/config.go` (`FindInitBinary`,
//! `FindHelperBinary`).

use nri_trust::{Owners, read_regular_text};
use std::{
    fs,
    path::{Path, PathBuf},
};
use toml::{Table, Value};

/// Largest size of a configuration file in bytes; usual files have a few kilobytes.
const MAX_CONFIG: u64 = 1 << 20;

/// Variables in the environment of Podman that select its configuration.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct PodmanEnvironment {
    /// `CONTAINERS_CONF`: the only file, except for `CONTAINERS_CONF_OVERRIDE`.
    pub config: Option<PathBuf>,
    /// `CONTAINERS_CONF_OVERRIDE`: a file that is read last.
    pub override_config: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`: directory of the user's files, in place of `~/.config`.
    pub config_home: Option<PathBuf>,
    /// `HOME`
    pub home: Option<PathBuf>,
}

/// Settings of infra containers, from all files.
#[derive(Debug, Default)]
pub(super) struct ContainersConf {
    /// `infra_image`; `None` if it is not set, or empty.
    pub(super) infra_image: Option<String>,
    /// Paths of `catatonit`: `init_path`, and `catatonit` in each directory of
    /// `helper_binaries_dir`.
    pub(super) programs: Vec<PathBuf>,
}

impl ContainersConf {
    pub(super) fn read(environment: &PodmanEnvironment) -> Self {
        let mut new = Self::default();
        for file in config_files(environment) {
            let Some(table) = read_trusted(&file) else { continue };
            let get = |section: &str, key: &str| table.get(section).and_then(|s| s.get(key));
            if let Some(image) = get("engine", "infra_image").and_then(Value::as_str) {
                new.infra_image = Some(image.to_owned()).filter(|image| !image.is_empty());
            }
            let program = |section| get(section, "init_path").and_then(Value::as_str);
            new.programs.extend(
                ["containers", "engine"].into_iter().filter_map(program).map(PathBuf::from),
            );
            let dirs = get("engine", "helper_binaries_dir").and_then(Value::as_array);
            let dirs = dirs.into_iter().flatten().filter_map(Value::as_str);
            new.programs.extend(dirs.map(|dir| Path::new(dir).join("catatonit")));
        }
        new.programs.retain(|program| program.is_absolute());
        new
    }
}

/// Reads a file that only trusted users can write.
fn read_trusted(file: &Path) -> Option<Table> {
    Owners::of_this_process().check(file).ok()?;
    read_regular_text(file, MAX_CONFIG).ok()?.parse().ok()
}

/// Returns the paths of the configuration files, in Podman's order.
fn config_files(environment: &PodmanEnvironment) -> Vec<PathBuf> {
    let mut files = Vec::new();
    match &environment.config {
        Some(file) => files.push(file.clone()),
        None => {
            let user = environment.home.as_ref().map(|home| home.join(".config"));
            let user = environment.config_home.clone().or(user).filter(|dir| dir.is_absolute());
            let dirs = ["/usr/share", "/etc"].map(PathBuf::from).into_iter().chain(user);
            for conf in dirs.map(|dir| dir.join("containers/containers.conf")) {
                let entries =
                    fs::read_dir(conf.with_extension("conf.d")).into_iter().flatten().flatten();
                let mut drop_ins: Vec<_> = entries
                    .map(|e| e.path())
                    .filter(|p| p.extension().is_some_and(|e| e == "conf"))
                    .collect();
                drop_ins.sort();
                files.push(conf);
                files.append(&mut drop_ins);
            }
        }
    }
    files.extend(environment.override_config.clone());
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_last_trusted_file_sets_a_key() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        let write = |file: &str, text: &str| {
            let file = dir.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
            file
        };
        write(
            "home/.config/containers/containers.conf",
            "[containers]\ninit_path = \"/opt/init\"\n[engine]\ninfra_image = \"first\"\n\
             helper_binaries_dir = [\"/opt/helpers\", \"$BINDIR\", {append = true}]\n",
        );
        let later = write(
            "home/.config/containers/containers.conf.d/b.conf",
            "[engine]\ninfra_image = \"second\"\n",
        );
        write(
            "home/.config/containers/containers.conf.d/c.off",
            "[engine]\ninfra_image = \"third\"\n",
        );
        let home =
            PodmanEnvironment { home: Some(dir.join("home")), ..PodmanEnvironment::default() };
        let has_home_programs = |programs: &[PathBuf]| {
            let expected = ["/opt/init", "/opt/helpers/catatonit"];
            expected.iter().all(|p| programs.contains(&PathBuf::from(p)))
        };
        let read = ContainersConf::read(&home);
        assert_eq!(read.infra_image.as_deref(), Some("second"));
        assert!(has_home_programs(&read.programs), "{:?}", read.programs);
        fs::set_permissions(&later, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(
            ContainersConf::read(&home).infra_image.as_deref(),
            Some("first"),
            "used a value of a file that every user can write"
        );

        let only = write("only.conf", "[engine]\ninfra_image = \"only\"\n");
        let named = PodmanEnvironment { config: Some(only.clone()), ..home.clone() };
        let read = ContainersConf::read(&named);
        assert_eq!(read.infra_image.as_deref(), Some("only"));
        assert!(!has_home_programs(&read.programs));
        let none = write("none.conf", "[engine]\ninfra_image = \"\"\n");
        let overridden = PodmanEnvironment { override_config: Some(none), ..named };
        assert_eq!(ContainersConf::read(&overridden).infra_image, None);
        let other_home = PodmanEnvironment { config_home: Some(dir.join("other")), ..home };
        let read = ContainersConf::read(&other_home);
        assert!(!has_home_programs(&read.programs), "files of ~/.config were read");
    }
}
