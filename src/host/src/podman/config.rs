//! The configuration of infra containers in `containers.conf`: image, and paths of the program.
//!
//! Files are read in Podman's order; the last value of a key counts. Files that other users can
//! write are skipped, `$BINDIR` is ignored. Sources: containers/common, `pkg/config/new.go`,
//! `pkg/config/config.go` (`FindInitBinary`, `FindHelperBinary`).

use super::files::read;
use nri_trust::Owners;
use std::{
    fs,
    path::{Path, PathBuf},
};
use toml::{Table, Value};

/// Largest size of a file in bytes; usual ones have some kilobytes.
const MAX_CONFIG: u64 = 1 << 20;

/// Variables of the engine that select its configuration.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct PodmanEnvironment {
    /// `CONTAINERS_CONF`: replaces all files but that of the next variable.
    pub config: Option<PathBuf>,
    /// `CONTAINERS_CONF_OVERRIDE`
    pub override_config: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`
    pub config_home: Option<PathBuf>,
    /// `HOME`
    pub home: Option<PathBuf>,
}

/// Values of the files.
#[derive(Debug, Default)]
pub(super) struct ContainersConf {
    /// `infra_image`; `None` if it is not set, or empty.
    pub(super) infra_image: Option<String>,
    /// Paths of `catatonit`: `init_path`, and those in the directories of `helper_binaries_dir`.
    pub(super) programs: Vec<PathBuf>,
}

impl ContainersConf {
    pub(super) fn read(environment: &PodmanEnvironment) -> Self {
        let mut new = Self::default();
        for file in files(environment) {
            let Some(table) = table(&file) else { continue };
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

fn table(file: &Path) -> Option<Table> {
    Owners::of_this_process().check(file).ok()?;
    String::from_utf8(read(file, MAX_CONFIG)?).ok()?.parse().ok()
}

fn files(environment: &PodmanEnvironment) -> Vec<PathBuf> {
    let mut files = Vec::new();
    match &environment.config {
        Some(file) => files.push(file.clone()),
        None => {
            let own = environment.home.as_ref().map(|home| home.join(".config"));
            let own = environment.config_home.clone().or(own).filter(|dir| dir.is_absolute());
            let dirs = ["/usr/share", "/etc"].map(PathBuf::from).into_iter().chain(own);
            for conf in dirs.map(|dir| dir.join("containers/containers.conf")) {
                let more =
                    fs::read_dir(conf.with_extension("conf.d")).into_iter().flatten().flatten();
                let mut more: Vec<_> = more
                    .map(|e| e.path())
                    .filter(|p| p.extension().is_some_and(|e| e == "conf"))
                    .collect();
                more.sort();
                files.push(conf);
                files.append(&mut more);
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
        let lab = tempfile::tempdir().unwrap();
        let dir = lab.path().canonicalize().unwrap();
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
        let own = |programs: &[PathBuf]| {
            let own = ["/opt/init", "/opt/helpers/catatonit"];
            own.iter().all(|p| programs.contains(&PathBuf::from(p)))
        };
        let read = ContainersConf::read(&home);
        assert_eq!(read.infra_image.as_deref(), Some("second"));
        assert!(own(&read.programs), "{:?}", read.programs);
        fs::set_permissions(&later, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(
            ContainersConf::read(&home).infra_image.as_deref(),
            Some("first"),
            "anybody may have named the second"
        );

        let only = write("only.conf", "[engine]\ninfra_image = \"only\"\n");
        let named = PodmanEnvironment { config: Some(only.clone()), ..home.clone() };
        let read = ContainersConf::read(&named);
        assert_eq!(read.infra_image.as_deref(), Some("only"));
        assert!(!own(&read.programs));
        let none = write("none.conf", "[engine]\ninfra_image = \"\"\n");
        let over = PodmanEnvironment { override_config: Some(none), ..named };
        assert_eq!(ContainersConf::read(&over).infra_image, None);
        let other = PodmanEnvironment { config_home: Some(dir.join("other")), ..home };
        assert!(!own(&ContainersConf::read(&other).programs), "it is in place of ~/.config");
    }
}
