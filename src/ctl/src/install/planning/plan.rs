//! A plan: the paths that change, decided before anything is touched.

use super::manifest::Manifest;
use crate::install::{error::InstallError, install_root::InstallRoot};
use std::path::{Path, PathBuf};

/// Content of a path, before or after a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Nothing,
    Bytes(Vec<u8>),
    /// A symbolic link with this target.
    Link(PathBuf),
}

/// A path that changes, as seen inside the root.
#[derive(Debug, Clone)]
pub(crate) struct InstallStep {
    pub(super) path: PathBuf,
    pub(super) before: Content,
    pub(super) after: Content,
    /// File whose owner and mode the new file gets; `None`: the file at `path`.
    pub(super) like: Option<PathBuf>,
}

/// Changes of a command, in order.
#[derive(Debug)]
pub(crate) struct InstallPlan {
    pub(crate) steps: Vec<InstallStep>,
    pub(super) manifest: Manifest,
    pub(crate) notes: Vec<String>,
}

impl Content {
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl From<Option<Vec<u8>>> for Content {
    fn from(bytes: Option<Vec<u8>>) -> Self {
        bytes.map_or(Self::Nothing, Self::Bytes)
    }
}

impl InstallPlan {
    /// Returns a plan without a step.
    pub(crate) fn new(manifest: &Manifest) -> Self {
        Self { steps: Vec::new(), manifest: manifest.clone(), notes: Vec::new() }
    }

    /// Adds a step.
    pub(super) fn step(
        &mut self,
        path: &Path,
        before: impl Into<Content>,
        after: impl Into<Content>,
    ) {
        let (before, after) = (before.into(), after.into());
        self.steps.push(InstallStep { path: path.to_owned(), before, after, like: None });
    }

    /// Adds a link to the wrapper.
    pub(crate) fn link(
        &mut self,
        root: &InstallRoot,
        engine: &str,
        link: &Path,
        wrapper: &Path,
    ) -> Result<(), InstallError> {
        let is_same_dir = link.parent() == wrapper.parent();
        let name = wrapper.file_name().filter(|_| is_same_dir).map(PathBuf::from);
        let target = name.unwrap_or_else(|| wrapper.to_owned());
        let is_free = || root.entry(link).is_ok_and(|path| path.symlink_metadata().is_err());
        match root.link(link) {
            Some(current) if current == target || root.is_ours(&link.to_string_lossy()) => {
                if self.manifest.is_linked_by_others(engine, link) {
                    self.manifest.engine(engine).links.insert(link.to_owned());
                }
            }
            None if is_free() => {
                self.step(link, Content::Nothing, Content::Link(target));
                self.manifest.engine(engine).links.insert(link.to_owned());
            }
            _ => return Err(InstallError::LinkTaken(link.to_owned())),
        }
        Ok(())
    }

    /// Adds the manifest. `install` writes the manifest before the files that it describes, and
    /// `uninstall` after them, so that every change is recorded even if the command is killed.
    pub(crate) fn finish(
        &mut self,
        root: &InstallRoot,
        is_install: bool,
    ) -> Result<(), InstallError> {
        let path = &*root.manifest();
        let before = root.read(path)?;
        if self.steps.is_empty() && before == self.manifest.bytes() {
            return Ok(());
        }
        let new_files =
            self.steps.iter().filter(|_| is_install).map(|step| &*step.path).chain([path]);
        let dirs =
            new_files.flat_map(|file| file.ancestors().skip(1)).filter(|dir| !root.exists(dir));
        self.manifest.directories.extend(dirs.map(Path::to_owned));
        let after = self.manifest.bytes();
        if before != after {
            self.step(path, before, after);
            if is_install {
                self.steps.rotate_right(1);
            }
        }
        Ok(())
    }
}
