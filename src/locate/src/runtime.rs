//! Finds the real runtime by the rules of `nri_passthrough::runtime`, and says why none is found.

use crate::{
    call_settings::EncodedSettings,
    environment::{Environment, absolute},
    paths::RUNTIME_ENV,
    search::search_dirs,
};
use nri_config::RuntimeSettings;
use nri_passthrough::{
    CallSettings, LongPath,
    runtime::{NoRuntime, RuntimeRequest, UnusableProgram, find, find_program},
};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Reason why no runtime can be run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeNotFound {
    /// The named runtime cannot be used.
    #[error("the real runtime {} ({from}): {why}", path.display())]
    Named {
        /// Name or path of the runtime.
        path: PathBuf,
        /// The option, variable or key that names the runtime.
        from: String,
        /// Reason why the runtime cannot be used.
        why: UnusableProgram,
    },
    /// None of the candidates exists.
    #[error(
        "no real runtime found: searched {} in {}; name one in [runtime].path",
        join(names, ", "),
        join(dirs, ":")
    )]
    NoCandidate {
        /// The candidates.
        names: Vec<PathBuf>,
        /// Directories that were searched.
        dirs: Vec<PathBuf>,
    },
}

/// Returns the absolute path of the real runtime for a call: `option` is `--nri-runtime`,
/// `called_as` the name that the wrapper was called by.
///
/// # Errors
/// The named runtime cannot be used, or no candidate exists.
pub fn find_runtime(
    option: Option<&OsStr>,
    called_as: Option<&OsStr>,
    settings: &CallSettings<'_>,
    environment: &Environment,
) -> Result<PathBuf, RuntimeNotFound> {
    // Only here, and not in the configuration, a path may be relative.
    let resolved = |path: &OsStr| match path.as_bytes().contains(&b'/') {
        true => absolute(Path::new(path)).into_os_string(),
        false => path.to_owned(),
    };
    let (option, variable) = (option.map(resolved), environment.var(RUNTIME_ENV).map(resolved));
    let request = RuntimeRequest {
        option: option.as_deref().map(OsStr::as_bytes),
        variable: variable.as_deref().map(OsStr::as_bytes),
        called_as: called_as.map(OsStr::as_bytes),
        path: environment.var("PATH").map(OsStr::as_bytes),
    };
    let mut found = LongPath::default();
    match find(&request, settings, &mut found) {
        Ok(()) => Ok(os_text(found.as_c_str().unwrap_or_default().to_bytes()).into()),
        Err(NoRuntime::Named(path, (before, name, after), why)) => Err(RuntimeNotFound::Named {
            path: os_text(path).into(),
            from: format!("{before}{}{after}", os_text(name).to_string_lossy()),
            why,
        }),
        Err(NoRuntime::NoCandidate) => Err(RuntimeNotFound::NoCandidate {
            names: settings.candidates().map(|name| os_text(name).into()).collect(),
            dirs: search_dirs(environment),
        }),
    }
}

/// Returns the absolute path of the real runtime of calls that name none.
///
/// # Errors
/// See [`find_runtime`].
pub fn find_configured_runtime(
    settings: &RuntimeSettings,
    environment: &Environment,
) -> Result<PathBuf, RuntimeNotFound> {
    find_runtime(None, None, &EncodedSettings::of_runtimes(settings).settings(), environment)
}

/// Checks a runtime that the configuration names.
///
/// # Errors
/// The runtime cannot be used.
pub(crate) fn check_configured(
    name: &Path,
    environment: &Environment,
) -> Result<(), UnusableProgram> {
    let path = environment.var("PATH").map(OsStr::as_bytes);
    find_program(name.as_os_str().as_bytes(), path, &mut LongPath::default())
}

fn os_text(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

fn join(paths: &[PathBuf], separator: &str) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A directory with the programs `runc`, `crun`, `youki` and `special`.
    fn programs() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in ["runc", "crun", "youki", "special"] {
            let path = dir.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        dir
    }

    #[test]
    fn runtimes_are_chosen_in_the_documented_order() {
        let dir = programs();
        let named = "[runtime.names.nri-special]\npath = 'special'\n";
        let path = format!("[runtime]\npath = 'youki'\n{named}");
        let candidates = format!("[runtime]\ncandidates = ['none', 'crun', 'runc']\n{named}");
        for (option, variable, called, text, expected) in [
            (Some("runc"), Some("special"), "nri-crun", &*path, "runc"),
            (None, Some("special"), "nri-crun", &path, "special"),
            (None, None, "nri-special", &path, "special"),
            (None, None, "nri-crun", &path, "crun"),
            (None, None, "nri-container-runtime", &path, "youki"),
            (None, None, "runc", &path, "youki"),
            (None, None, "nri-container-runtime", named, "runc"),
            (None, None, "youki", named, "youki"),
            (None, None, "", named, "runc"),
            (None, None, "runc", &candidates, "runc"),
            (None, None, "youki", &candidates, "crun"),
        ] {
            let settings =
                EncodedSettings::of_runtimes(&nri_config::Config::parse(text).unwrap().runtime);
            let variable = variable.map(|value| format!("{RUNTIME_ENV}={value}").into());
            let path = format!("PATH=relative:{}", dir.path().display()).into();
            let environment = Environment::new([path].into_iter().chain(variable).collect());
            let (option, called_as) = (option.map(OsStr::new), Some(OsStr::new(called)));
            let found = find_runtime(option, called_as, &settings.settings(), &environment);
            assert_eq!(found, Ok(dir.path().join(expected)), "{option:?} {called:?} {text}");
        }
    }

    #[test]
    fn a_program_that_cannot_be_used_is_an_error_with_its_origin() {
        let dir = programs();
        let path = dir.path().join("own");
        symlink("/proc/self/exe", &path).unwrap();
        let find = |program: &Path| {
            let settings = EncodedSettings::default();
            let option = Some(program.as_os_str());
            find_runtime(option, None, &settings.settings(), &Environment::default())
                .unwrap_err()
                .to_string()
        };
        let dir = dir.path().to_owned();
        for (program, why) in [
            (path, "it is nri-container-runtime itself"),
            (dir.join("none"), "not found"),
            (dir, "not an executable file"),
        ] {
            let expected = format!("the real runtime {} (--nri-runtime): {why}", program.display());
            assert_eq!(find(&program), expected);
        }
    }
}
