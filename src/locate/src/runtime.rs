//! Selects and finds the real runtime. The wrapper itself is never selected, not even through a
//! symbolic or hard link.

use crate::{
    environment::{Environment, absolute},
    paths::{DEFAULT_RUNTIMES, RUNTIME_ENV},
    search::search_dirs,
};
use nri_config::RuntimeSettings;
use rustix::{
    fs::{Access, FileType, Stat, access, stat},
    param::linux_execfn,
};
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Prefix of links to the wrapper: `nri-crun` runs crun.
const NAME_PREFIX: &[u8] = b"nri-";
/// Rest of the wrapper's own name (`nri-container-runtime`) after the prefix. No runtime has this
/// name.
const OWN_NAME: &[u8] = b"container-runtime";

/// Device and inode of a file, which are equal for all hard and symbolic links to it.
type FileId = (u64, u64);

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

/// What has named a runtime, for messages: a text, with a name in the middle.
type NamedBy<'a> = (&'static str, &'a OsStr, &'static str);

/// Returns the absolute path of the real runtime for a call: `option` is `--nri-runtime`,
/// `called_as` the name that the wrapper was called by.
///
/// The first of these that is set names the runtime: the option, the variable, the name of the
/// call, the configuration. If none is set, the runtime is the first candidate that exists.
///
/// # Errors
/// The named runtime cannot be used, or no candidate exists.
pub fn find_runtime(
    option: Option<&OsStr>,
    called_as: Option<&OsStr>,
    settings: &RuntimeSettings,
    environment: &Environment,
) -> Result<PathBuf, RuntimeNotFound> {
    let called_as = called_as.unwrap_or_default();
    if let Some((name, (before, by, after))) = named(option, called_as, settings, environment) {
        return find_program(&name, environment).map_err(|why| RuntimeNotFound::Named {
            path: name,
            from: format!("{before}{}{after}", by.display()),
            why,
        });
    }
    let candidates = runtime_candidates(settings);
    // A wrapper installed under the name of a runtime runs that runtime.
    let (first, others): (Vec<_>, Vec<_>) =
        candidates.iter().partition(|name| name.as_os_str() == called_as);
    let mut in_order = first.into_iter().chain(others);
    in_order.find_map(|name| find_program(name, environment).ok()).ok_or_else(|| {
        let mut dirs: Vec<PathBuf> = Vec::new();
        for dir in search_dirs(environment) {
            if !dirs.contains(&dir) {
                dirs.push(dir);
            }
        }
        RuntimeNotFound::NoCandidate { names: candidates.clone(), dirs }
    })
}

/// Returns the path or name of the runtime, if one is named.
fn named<'a>(
    option: Option<&OsStr>,
    called_as: &'a OsStr,
    settings: &'a RuntimeSettings,
    environment: &Environment,
) -> Option<(PathBuf, NamedBy<'a>)> {
    let none = OsStr::new("");
    // Only here, and not in the configuration, a path may be relative.
    let resolved = |path: &OsStr| {
        if path.as_bytes().contains(&b'/') { absolute(Path::new(path)) } else { path.into() }
    };
    let of_table = || called_as.to_str().and_then(|name| settings.names.get(name));
    let linked = || {
        let name = called_as.as_bytes().strip_prefix(NAME_PREFIX)?;
        (!name.is_empty() && name != OWN_NAME).then(|| OsStr::from_bytes(name))
    };
    option
        .map(|path| (resolved(path), ("--nri-runtime", none, "")))
        .or_else(|| environment.var(RUNTIME_ENV).map(|p| (resolved(p), (RUNTIME_ENV, none, ""))))
        .or_else(|| of_table().map(|r| (r.path.clone(), ("[runtime.names.", called_as, "]"))))
        .or_else(|| linked().map(|name| (name.into(), ("called as ", called_as, ""))))
        .or_else(|| settings.path.clone().map(|path| (path, ("[runtime].path", none, ""))))
}

/// Returns the runtimes to try, in order, if no runtime is named.
pub fn runtime_candidates(settings: &RuntimeSettings) -> Vec<PathBuf> {
    match settings.candidates.as_slice() {
        [] => DEFAULT_RUNTIMES.map(PathBuf::from).to_vec(),
        given => given.to_vec(),
    }
}

/// Returns the absolute path of a program. A path is used unchanged; a name is searched.
///
/// # Errors
/// The program cannot be used. If several files have the name, the error is that of the first one,
/// which most likely was meant.
pub(crate) fn find_program(
    name: &Path,
    environment: &Environment,
) -> Result<PathBuf, UnusableProgram> {
    let paths: Vec<PathBuf> = match name.as_os_str().as_bytes() {
        [b'/', ..] => vec![name.to_owned()],
        b"" | b"." | b".." => Vec::new(),
        bytes if bytes.contains(&b'/') => Vec::new(),
        _ => search_dirs(environment).map(|dir| dir.join(name)).collect(),
    };
    let own = own_file();
    let mut why = UnusableProgram::NotFound;
    for path in &paths {
        match check(path, own) {
            Ok(()) => return Ok(path.clone()),
            Err(e) if why == UnusableProgram::NotFound => why = e,
            Err(_) => {}
        }
    }
    Err(why)
}

/// Checks that the path is an executable file other than this program.
fn check(path: &Path, own: Option<FileId>) -> Result<(), UnusableProgram> {
    let found = stat(path).map_err(|_| UnusableProgram::NotFound)?;
    if own == Some(file_id(&found)) {
        return Err(UnusableProgram::Ourselves);
    }
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    if is_file && access(path, Access::EXEC_OK).is_ok() {
        Ok(())
    } else {
        Err(UnusableProgram::NotExecutable)
    }
}

/// Returns the file of this program. The path by which it was executed is found several times
/// faster than an entry of `/proc`, but may be relative to a directory that this process has left.
fn own_file() -> Option<FileId> {
    let path = Path::new(OsStr::from_bytes(linux_execfn().to_bytes()));
    let path = if path.is_absolute() { path } else { Path::new("/proc/self/exe") };
    stat(path).or_else(|_| stat("/proc/self/exe")).ok().map(|own| file_id(&own))
}

fn file_id(found: &Stat) -> FileId {
    (found.st_dev, found.st_ino)
}

fn join(paths: &[PathBuf], separator: &str) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        ffi::OsString,
        os::unix::fs::{PermissionsExt, symlink},
    };

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
            let settings = nri_config::Config::parse(text).unwrap().runtime;
            let variable = variable.map(|value| format!("{RUNTIME_ENV}={value}"));
            let path = format!("PATH=relative:{}", dir.path().display());
            let environment =
                Environment::new([path].into_iter().chain(variable).map(OsString::from));
            let (option, called_as) = (option.map(OsStr::new), Some(OsStr::new(called)));
            let found = find_runtime(option, called_as, &settings, &environment);
            assert_eq!(found, Ok(dir.path().join(expected)), "{option:?} {called:?} {text}");
        }
    }

    #[test]
    fn a_program_that_cannot_be_used_is_an_error_with_its_origin() {
        let dir = programs();
        let path = dir.path().join("own");
        symlink("/proc/self/exe", &path).unwrap();
        let find = |program: &Path| {
            let (option, settings) = (Some(program.as_os_str()), RuntimeSettings::default());
            find_runtime(option, None, &settings, &Environment::default()).unwrap_err().to_string()
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
