//! The wrapper, and the names that it is called by.

use super::{
    error::InstallError,
    root::{Root, WRAPPER},
};
use nri_locate::{SEARCH_PATH, standard_dirs};
use std::path::{Path, PathBuf};

/// Engine's name of the wrapper without further runtimes.
pub(crate) const DEFAULT_NAME: &str = "nri";

/// Base names of links to the wrapper begin so; `nri-crun` alone already means crun.
const LINK_PREFIX: &str = "nri-";

/// One runtime of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Runtime {
    /// The engine's name for it.
    pub(crate) name: String,
    /// What the engine calls.
    pub(crate) binary: PathBuf,
    /// The real runtime, where it is not what the wrapper finds by itself; `binary` is a link then.
    pub(crate) real: Option<PathBuf>,
}

impl Runtime {
    /// The path as text: configuration files have no other.
    pub(crate) fn path(&self) -> String {
        self.binary.to_string_lossy().into_owned()
    }

    /// The name that the wrapper is called by.
    pub(crate) fn link_name(&self) -> String {
        self.binary.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The wrapper: as named, beside this program, or in the usual directories.
pub(crate) fn find(root: &Root, named: Option<&Path>) -> Result<PathBuf, InstallError> {
    if let Some(path) = named {
        return program(root, path).map(|()| path.to_owned());
    }
    let exe = root.is_machine().then(std::env::current_exe).and_then(Result::ok);
    let beside = exe.and_then(|exe| exe.parent().map(Path::to_owned));
    let mut places = beside.into_iter().chain(standard_dirs()).map(|dir| dir.join(WRAPPER));
    places
        .find(|path| root.is_program(path))
        .ok_or_else(|| InstallError::NoWrapper(SEARCH_PATH.to_owned()))
}

fn program(root: &Root, path: &Path) -> Result<(), InstallError> {
    if !path.is_absolute() || path.to_str().is_none() {
        return Err(InstallError::Relative(path.to_owned()));
    }
    if root.is_program(path) { Ok(()) } else { Err(InstallError::NoProgram(path.to_owned())) }
}

/// All runtimes: the wrapper by itself, and what `--runtime` adds.
pub(crate) fn runtimes(
    root: &Root,
    wrapper: &Path,
    name: &str,
    further: &[(String, PathBuf)],
) -> Result<Vec<Runtime>, InstallError> {
    let mut all = vec![Runtime { name: name.to_owned(), binary: wrapper.to_owned(), real: None }];
    check_name(name)?;
    for (name, real) in further {
        check_name(name)?;
        program(root, real)?;
        if root.is_ours(&real.to_string_lossy()) || root.real(real).ok() == root.real(wrapper).ok()
        {
            return Err(InstallError::Wrapper(real.clone()));
        }
        if all.iter().any(|runtime| runtime.name == *name) {
            return Err(InstallError::NameTwice(name.clone()));
        }
        let link = if name.starts_with(LINK_PREFIX) {
            name.clone()
        } else {
            format!("{LINK_PREFIX}{name}")
        };
        let binary = link_dir(wrapper).join(link);
        if all.iter().any(|runtime| runtime.binary == binary) {
            return Err(InstallError::NameTwice(name.clone()));
        }
        all.push(Runtime { name: name.clone(), binary, real: Some(real.clone()) });
    }
    Ok(all)
}

/// Beside the wrapper; but what a package manager owns is not written to.
fn link_dir(wrapper: &Path) -> &Path {
    match wrapper.parent() {
        Some(dir)
            if ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].iter().all(|d| dir != Path::new(d)) =>
        {
            dir
        }
        _ => Path::new("/usr/local/bin"),
    }
}

fn check_name(name: &str) -> Result<(), InstallError> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(good) {
        Ok(())
    } else {
        Err(InstallError::Name(name.to_owned()))
    }
}
