//! Selects and finds the real runtime. The wrapper itself is never selected, not even through a
//! symbolic or hard link.

use crate::{
    environment::{Environment, absolute},
    paths::{DEFAULT_RUNTIMES, RUNTIME_ENV},
    search::{can_run, search_dirs},
};
use nri_config::RuntimeSettings;
use nri_passthrough::names::{NAME_PREFIX, OWN_NAME};
use std::{
    ffi::OsStr,
    os::unix::fs::MetadataExt,
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

/// Reason why a program that was named cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnusableProgram {
    /// The file does not exist.
    #[error("not found")]
    NotFound,
    /// The path is a directory, or this process may not execute the file.
    #[error("not an executable file")]
    NotExecutable,
    /// The file is the wrapper, which would call itself recursively.
    #[error("it is nri-container-runtime itself")]
    Ourselves,
}

/// Selection of the runtime.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    /// The named runtime only, with the option, variable or key that names it.
    Named(PathBuf, String),
    /// The first of these candidates that exists.
    FirstOf(Vec<PathBuf>),
}

/// Returns the absolute path of the real runtime.
///
/// The first of these that is set names the runtime: `option` (`--nri-runtime`), the variable, the
/// name that the wrapper was called by (`called_as`), `[runtime].path`. If none is set, the runtime
/// is the first candidate that exists.
///
/// # Errors
/// The named runtime cannot be used, or no candidate exists.
pub fn find_runtime(
    option: Option<&OsStr>,
    called_as: Option<&str>,
    settings: &RuntimeSettings,
    environment: &Environment,
) -> Result<PathBuf, RuntimeNotFound> {
    let ourselves = Ourselves::identify();
    let dirs = search_dirs(environment);
    match choose(option, environment.var(RUNTIME_ENV), called_as, settings) {
        Choice::Named(path, from) => find_named(&path, &dirs, ourselves)
            .map_err(|why| RuntimeNotFound::Named { path, from, why }),
        Choice::FirstOf(names) => {
            let mut found = names.iter().flat_map(|name| paths_of(name, &dirs));
            found
                .find(|path| ourselves.check(path).is_ok())
                .ok_or_else(|| RuntimeNotFound::NoCandidate { names: names.clone(), dirs })
        }
    }
}

/// Returns the runtimes to try, in order, if no runtime is named.
pub fn runtime_candidates(settings: &RuntimeSettings) -> Vec<PathBuf> {
    match settings.candidates.as_slice() {
        [] => DEFAULT_RUNTIMES.map(PathBuf::from).to_vec(),
        given => given.to_vec(),
    }
}

fn choose(
    option: Option<&OsStr>,
    variable: Option<&OsStr>,
    called_as: Option<&str>,
    settings: &RuntimeSettings,
) -> Choice {
    if let Some(path) = option {
        return Choice::Named(path.into(), "--nri-runtime".to_owned());
    }
    if let Some(path) = variable {
        return Choice::Named(path.into(), RUNTIME_ENV.to_owned());
    }
    let named = called_as.and_then(|name| settings.names.get_key_value(name));
    if let Some((name, runtime)) = named {
        return Choice::Named(runtime.path.clone(), format!("[runtime.names.{name}]"));
    }
    let linked = called_as.and_then(|name| name.strip_prefix(NAME_PREFIX));
    if let Some(name) = linked.filter(|name| *name != OWN_NAME && !name.is_empty()) {
        return Choice::Named(name.into(), format!("called as {NAME_PREFIX}{name}"));
    }
    if let Some(path) = &settings.path {
        return Choice::Named(path.clone(), "[runtime].path".to_owned());
    }
    let mut candidates = runtime_candidates(settings);
    // A wrapper installed under the name of a runtime runs that runtime.
    let own = called_as.and_then(|name| candidates.iter().position(|c| c == Path::new(name)));
    if let Some(at) = own {
        candidates[..=at].rotate_right(1);
    }
    Choice::FirstOf(candidates)
}

/// Returns the absolute path of a runtime that the configuration names.
///
/// # Errors
/// The runtime cannot be used.
pub(crate) fn find_configured(
    name: &Path,
    environment: &Environment,
) -> Result<PathBuf, UnusableProgram> {
    find_named(name, &search_dirs(environment), Ourselves::identify())
}

fn find_named(
    name: &Path,
    dirs: &[PathBuf],
    ourselves: Ourselves,
) -> Result<PathBuf, UnusableProgram> {
    let mut why = UnusableProgram::NotFound;
    for path in paths_of(name, dirs) {
        match ourselves.check(&path) {
            Ok(()) => return Ok(path),
            // The first existing file is most likely the one that was meant, so its error is
            // reported.
            Err(e) if why == UnusableProgram::NotFound => why = e,
            Err(_) => {}
        }
    }
    Err(why)
}

/// Returns the paths to try for a name: a bare name in each of `dirs`, a path unchanged.
fn paths_of(name: &Path, dirs: &[PathBuf]) -> Vec<PathBuf> {
    if name.components().count() == 1 && !name.has_root() {
        dirs.iter().map(|dir| dir.join(name)).collect()
    } else {
        vec![absolute(name)]
    }
}

fn join(paths: &[PathBuf], separator: &str) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(separator)
}

/// Device and inode of the running program, which are equal for all hard and symbolic links to it;
/// `None` if they cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ourselves(Option<(u64, u64)>);

impl Ourselves {
    /// Reads `/proc/self/exe`; without `/proc`, the path with which this program was started.
    fn identify() -> Self {
        let meta = std::fs::metadata("/proc/self/exe").or_else(|_| {
            use std::os::unix::ffi::OsStrExt;
            std::fs::metadata(OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()))
        });
        Self(meta.ok().map(|m| (m.dev(), m.ino())))
    }

    /// Checks that `path` is an executable file other than this program.
    fn check(self, path: &Path) -> Result<(), UnusableProgram> {
        let meta = std::fs::metadata(path).map_err(|_| UnusableProgram::NotFound)?;
        if self.0 == Some((meta.dev(), meta.ino())) {
            return Err(UnusableProgram::Ourselves);
        }
        if can_run(path) { Ok(()) } else { Err(UnusableProgram::NotExecutable) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_chosen_in_the_documented_order() {
        let mut settings = RuntimeSettings::default();
        let runtime = |path: &str| nri_config::NamedRuntime { path: path.into() };
        settings.names.insert("nri-special".to_owned(), runtime("/special"));
        let with_path = RuntimeSettings { path: Some("/configured".into()), ..settings.clone() };
        let candidates = RuntimeSettings {
            candidates: vec!["a".into(), "crun".into(), "b".into()],
            ..settings.clone()
        };
        let named = |path: &str, from: &str| Choice::Named(path.into(), from.to_owned());
        let first = |names: &[&str]| Choice::FirstOf(names.iter().map(PathBuf::from).collect());
        let cases = [
            (Some("/o"), Some("/v"), "nri-crun", &with_path, named("/o", "--nri-runtime")),
            (None, Some("/v"), "nri-crun", &with_path, named("/v", RUNTIME_ENV)),
            (
                None,
                None,
                "nri-special",
                &with_path,
                named("/special", "[runtime.names.nri-special]"),
            ),
            (None, None, "nri-crun", &with_path, named("crun", "called as nri-crun")),
            (
                None,
                None,
                "nri-container-runtime",
                &with_path,
                named("/configured", "[runtime].path"),
            ),
            (None, None, "runc", &with_path, named("/configured", "[runtime].path")),
            (None, None, "nri-container-runtime", &settings, first(&["runc", "crun", "youki"])),
            (None, None, "youki", &settings, first(&["youki", "runc", "crun"])),
            (None, None, "", &settings, first(&["runc", "crun", "youki"])),
            (None, None, "crun", &candidates, first(&["crun", "a", "b"])),
        ];
        for (option, variable, called, settings, expected) in cases {
            let got =
                choose(option.map(OsStr::new), variable.map(OsStr::new), Some(called), settings);
            assert_eq!(got, expected, "{option:?} {variable:?} {called:?}");
        }
    }

    #[test]
    fn bare_names_are_searched_and_paths_are_not() {
        let dirs = [PathBuf::from("/a"), "/b".into()];
        assert_eq!(
            paths_of(Path::new("runc"), &dirs),
            [Path::new("/a/runc"), Path::new("/b/runc")]
        );
        assert_eq!(paths_of(Path::new("/x/runc"), &dirs), [Path::new("/x/runc")]);
        assert_eq!(paths_of(Path::new("./runc"), &dirs), [absolute(Path::new("./runc"))]);
    }
}
