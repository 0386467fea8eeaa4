//! Selects and finds the real runtime. The wrapper itself is never selected, not even through a
//! symbolic or hard link.

use crate::{
    names::{NAME_PREFIX, OWN_NAME, RUNTIME_ENV, SEARCH_PATH},
    path_buffer::PathBuffer,
    settings::CallSettings,
};
use core::{ffi::CStr, fmt};
use rustix::fs::{Access, FileType, access, stat};

/// Device and inode of a file, which are equal for all hard and symbolic links to it.
type FileId = (u64, u64);

/// What a call says about its runtime.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuntimeRequest<'a> {
    /// `--nri-runtime`
    pub option: Option<&'a [u8]>,
    /// The variable that names the runtime.
    pub variable: Option<&'a [u8]>,
    /// The file name in `argv[0]`.
    pub called_as: Option<&'a [u8]>,
    /// `PATH`
    pub path: Option<&'a [u8]>,
}

/// What has named a runtime, for messages: a text, with a name in the middle.
pub type NamedBy<'a> = (&'static str, &'a [u8], &'static str);

/// Reason why a program that was named cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnusableProgram {
    /// The file does not exist.
    NotFound,
    /// The path is a directory, or this process may not execute the file.
    NotExecutable,
    /// The file is the wrapper, which would call itself recursively.
    Ourselves,
}

impl fmt::Display for UnusableProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "not found",
            Self::NotExecutable => "not an executable file",
            Self::Ourselves => "it is nri-container-runtime itself",
        })
    }
}

impl core::error::Error for UnusableProgram {}

/// Reason why no runtime can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRuntime<'a> {
    /// The named runtime cannot be used.
    Named(&'a [u8], NamedBy<'a>, UnusableProgram),
    /// None of the candidates exists.
    NoCandidate,
}

/// Puts the absolute path of the real runtime into `found`.
///
/// The first of these that is set names the runtime: the option, the variable, the name of the
/// call, the configuration. If none is set, the runtime is the first candidate that exists.
///
/// # Errors
/// The named runtime cannot be used, or no candidate exists.
pub fn find<'a, const N: usize>(
    request: &RuntimeRequest<'a>,
    settings: &CallSettings<'a>,
    found: &mut PathBuffer<N>,
) -> Result<(), NoRuntime<'a>> {
    let called_as = request.called_as.unwrap_or_default();
    if let Some((name, by)) = named(request, called_as, settings) {
        return find_program(name, request.path, found)
            .map_err(|why| NoRuntime::Named(name, by, why));
    }
    // A wrapper installed under the name of a runtime runs that runtime.
    let first = settings.candidates().filter(|name| *name == called_as);
    let others = settings.candidates().filter(|name| *name != called_as);
    for name in first.chain(others) {
        if find_program(name, request.path, found).is_ok() {
            return Ok(());
        }
    }
    Err(NoRuntime::NoCandidate)
}

/// Returns the path or name of the runtime, if one is named.
fn named<'a>(
    request: &RuntimeRequest<'a>,
    called_as: &'a [u8],
    settings: &CallSettings<'a>,
) -> Option<(&'a [u8], NamedBy<'a>)> {
    let of_table = || settings.runtime_of(called_as);
    let linked = || {
        let name = called_as.strip_prefix(NAME_PREFIX.as_bytes())?;
        (!name.is_empty() && *name != *OWN_NAME.as_bytes()).then_some(name)
    };
    let option = request.option.map(|path| (path, ("--nri-runtime", &b""[..], "")));
    option
        .or_else(|| request.variable.map(|path| (path, (RUNTIME_ENV, &b""[..], ""))))
        .or_else(|| of_table().map(|path| (path, ("[runtime.names.", called_as, "]"))))
        .or_else(|| linked().map(|name| (name, ("called as ", called_as, ""))))
        .or_else(|| settings.runtime().map(|path| (path, ("[runtime].path", &b""[..], ""))))
}

/// Puts the absolute path of a program into `found`. A path is used unchanged; a name is searched
/// in the directories of `path` (`PATH`), then in the standard directories: Podman leaves `PATH`
/// unset for some verbs.
///
/// # Errors
/// The program cannot be used. If several files have the name, the error is that of the first one,
/// which most likely was meant.
pub fn find_program<const N: usize>(
    name: &[u8],
    path: Option<&[u8]>,
    found: &mut PathBuffer<N>,
) -> Result<(), UnusableProgram> {
    let own = own_id();
    if name.starts_with(b"/") {
        return check(found.set(&[name]), own);
    }
    if name.contains(&b'/') || matches!(name, b"" | b"." | b"..") {
        return Err(UnusableProgram::NotFound);
    }
    let mut why = UnusableProgram::NotFound;
    for directory in search_dirs(path) {
        let separator: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
        match check(found.set(&[directory, separator, name]), own) {
            Ok(()) => return Ok(()),
            Err(e) if why == UnusableProgram::NotFound => why = e,
            Err(_) => {}
        }
    }
    Err(why)
}

/// Returns the directories of `PATH`, then the standard directories. Relative entries are skipped:
/// they would name programs in the working directory of an engine.
pub fn search_dirs(path: Option<&[u8]>) -> impl Iterator<Item = &[u8]> {
    let lists = path.into_iter().chain([SEARCH_PATH.as_bytes()]);
    lists
        .flat_map(|list| list.split(|byte| *byte == b':'))
        .filter(|directory| directory.starts_with(b"/"))
}

/// Checks that the path is an executable file other than this program.
fn check(path: Option<&CStr>, own: Option<FileId>) -> Result<(), UnusableProgram> {
    let path = path.ok_or(UnusableProgram::NotFound)?;
    let found = stat(path).map_err(|_| UnusableProgram::NotFound)?;
    if own == Some((found.st_dev, found.st_ino)) {
        return Err(UnusableProgram::Ourselves);
    }
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    match is_file && access(path, Access::EXEC_OK).is_ok() {
        true => Ok(()),
        false => Err(UnusableProgram::NotExecutable),
    }
}

/// Returns the id of the running program; `None` without `/proc`.
fn own_id() -> Option<FileId> {
    stat(c"/proc/self/exe").ok().map(|own| (own.st_dev, own.st_ino))
}
