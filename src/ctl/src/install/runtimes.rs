//! The runtimes that an engine gets: the wrapper, and links to it with other real runtimes.

use super::{
    error::InstallError,
    install_root::{InstallRoot, WRAPPER},
};
use nri_locate::{SEARCH_PATH, standard_dirs};
use std::path::{Path, PathBuf};

/// Name of the wrapper in engines, unless `--name` gives another name.
pub(crate) const DEFAULT_NAME: &str = "nri";

/// Prefix of base names of links to the wrapper. Called as `nri-crun`, the wrapper calls crun
/// without any configuration.
const LINK_PREFIX: &str = "nri-";

/// One runtime of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrapperRuntime {
    /// Name of the runtime in the engine.
    pub(crate) name: String,
    /// Path of the program that the engine calls.
    pub(crate) binary: PathBuf,
    /// The real runtime that `--runtime` names; `binary` is then a link to the wrapper. `None`: the
    /// wrapper finds the real runtime by itself.
    pub(crate) real: Option<PathBuf>,
}

impl WrapperRuntime {
    /// Returns the program's path as text, for configuration files.
    pub(crate) fn binary_text(&self) -> String {
        self.binary.to_string_lossy().into_owned()
    }

    /// Returns the base name of the program.
    pub(crate) fn link_name(&self) -> String {
        self.binary.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Finds the wrapper: at the path `named`, beside this program, or in the standard directories.
pub(crate) fn find(root: &InstallRoot, named: Option<&Path>) -> Result<PathBuf, InstallError> {
    if let Some(path) = named {
        return check_program(root, path).map(|()| path.to_owned());
    }
    let exe = root.is_machine().then(std::env::current_exe).and_then(Result::ok);
    let own_dir = exe.and_then(|exe| exe.parent().map(Path::to_owned));
    let mut candidates = own_dir.into_iter().chain(standard_dirs()).map(|dir| dir.join(WRAPPER));
    candidates
        .find(|path| root.is_program(path))
        .ok_or_else(|| InstallError::NoWrapper(SEARCH_PATH.to_owned()))
}

fn check_program(root: &InstallRoot, path: &Path) -> Result<(), InstallError> {
    if !path.is_absolute() || path.to_str().is_none() {
        return Err(InstallError::Relative(path.to_owned()));
    }
    if root.is_program(path) { Ok(()) } else { Err(InstallError::NoProgram(path.to_owned())) }
}

/// Returns all runtimes: the runtime of `--name`, then the runtimes of `--runtime`.
pub(crate) fn runtimes(
    root: &InstallRoot,
    wrapper: &Path,
    name: &str,
    further: &[(String, PathBuf)],
) -> Result<Vec<WrapperRuntime>, InstallError> {
    let mut all =
        vec![WrapperRuntime { name: name.to_owned(), binary: wrapper.to_owned(), real: None }];
    check_name(name)?;
    for (name, real) in further {
        check_name(name)?;
        check_program(root, real)?;
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
        let binary = link_dir(root, wrapper).join(link);
        if all.iter().any(|runtime| runtime.binary == binary) {
            return Err(InstallError::NameTwice(name.clone()));
        }
        all.push(WrapperRuntime { name: name.clone(), binary, real: Some(real.clone()) });
    }
    Ok(all)
}

/// Returns the directory for links: the wrapper's, unless a package manager owns it, or a directory
/// of the user.
fn link_dir(root: &InstallRoot, wrapper: &Path) -> PathBuf {
    if let Some(user) = root.user() {
        return user.data_home.join(WRAPPER);
    }
    match wrapper.parent() {
        Some(dir)
            if ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].iter().all(|d| dir != Path::new(d)) =>
        {
            dir.to_owned()
        }
        _ => PathBuf::from("/usr/local/bin"),
    }
}

fn check_name(name: &str) -> Result<(), InstallError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_allowed) {
        Ok(())
    } else {
        Err(InstallError::Name(name.to_owned()))
    }
}
