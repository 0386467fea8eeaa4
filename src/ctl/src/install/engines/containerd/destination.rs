//! Choice of the containerd file that a handler is written to: a drop-in of our own where
//! containerd merges the plugin tables of imported files, else the file with the effective table.
//!
//! Measured with `containerd config dump`, before and after adding an imported file that has one
//! handler and nothing else (`integration/tests/engines/ctr/install.rs` repeats the measurement):
//!
//! | containerd | effect of a file of version 2 | of version 3 | default `imports` |
//! |---|---|---|---|
//! | 1.6.20 | replaces the plugin's whole table | its CRI plugin is unknown | none |
//! | 1.7.24 | as 1.6.20 | as 1.6.20 | none |
//! | 2.1.9 | is merged: only the handler is added | is merged | none |
//!
//! Where the table is replaced, `runc`, the sandbox image and the snapshotter are lost.
//!
//! containerd 2.1.9 applies one version to all files: that of the last file with a `version` key.
//! If this version is 3, containerd ignores the CRI plugin's tables in files of version 2. Our
//! drop-in is the last file, so it states the version that would be effective without the drop-in.
//!
//! A main file of version 3 proves that containerd is 2.0 or later. With a main file of version 2,
//! `nrictl` must know the version of containerd.

use super::files::{ContainerdFile, DROP_IN, imported_dirs};
use crate::install::{
    editing::file::{ConfigFile, Format, path},
    engines::request::{FileTarget, InstallRequest},
};
use std::path::Path;

/// The file to write to.
pub(super) struct Destination {
    pub(super) target: FileTarget,
    pub(super) file: ContainerdFile,
}

impl Destination {
    /// Chooses the file for the handlers of a request.
    pub(super) fn of(request: &InstallRequest<'_>, main: &Path, files: &[ContainerdFile]) -> Self {
        let Some(first) = files.first() else {
            // No file exists, so the main file is created as a file of our own. Every containerd
            // since 1.3 reads version 2; containerd 2 logs a warning.
            return Self::drop_in(main, if request.is_since(2) { 3 } else { 2 });
        };
        let effective = effective_version(files);
        let merges = merges(request, files);
        let has_our_handler = |f: &&ContainerdFile| {
            let binary = f.handler(request.name());
            let binary = binary.as_ref().and_then(|handler| f.table.binary(handler));
            binary.is_some_and(|path| request.root.is_ours(path))
        };
        // The file of an earlier installation is edited again.
        if let Some(file) = files.iter().find(|f| merges && !f.is_drop_in() && has_our_handler(f)) {
            return Self::existing(file);
        }
        // A drop-in of version 2 would hide handlers of version 3, and the other way round.
        let is_newer_with_handlers =
            |f: &&ContainerdFile| f.version >= 3 && !f.is_drop_in() && f.handlers().is_some();
        if let Some(file) =
            files.iter().rev().find(is_newer_with_handlers).filter(|_| merges && effective < 3)
        {
            return Self::existing(file);
        }
        if let Some(dir) = imported_dirs(first).into_iter().next().filter(|_| merges) {
            let drop_in = dir.join(DROP_IN);
            let current = files.iter().find(|f| f.file.path == drop_in).map(|f| f.version);
            return Self::drop_in(&drop_in, current.unwrap_or(effective.max(2)));
        }
        // Without a drop-in: the last file with an effective CRI table, else the main file.
        let has_cri = |f: &&ContainerdFile| {
            (first.version < 3 || effective < 3 && f.version == 2) && f.get(f.cri()).is_some()
        };
        Self::existing(files.iter().rev().find(has_cri).unwrap_or(first))
    }

    fn drop_in(path: &Path, version: i64) -> Self {
        let mut target = FileTarget::drop_in(path, "containerd");
        target.header.push_str(&format!("version = {version}\n"));
        let file = ContainerdFile::new(ConfigFile::empty(path), Some(version));
        Self { target, file }
    }

    fn existing(file: &ContainerdFile) -> Self {
        let target = FileTarget::new(&file.file.path, Format::Toml);
        Self { target, file: ContainerdFile::new(file.file.clone(), Some(file.version)) }
    }
}

/// Whether containerd is known to merge plugin tables of imported files: by its version, by the
/// version of its main file, or by a drop-in of ours, which is only written for a containerd that
/// merges.
pub(super) fn merges(request: &InstallRequest<'_>, files: &[ContainerdFile]) -> bool {
    let is_version_3 = files.first().is_some_and(|first| first.version >= 3);
    let has_drop_in = || files.iter().any(ContainerdFile::is_drop_in);
    request.is_since(2) || is_version_3 || has_drop_in() && !request.is_before(2)
}

/// Returns the version that containerd applies to all files; our drop-in is disregarded.
pub(super) fn effective_version(files: &[ContainerdFile]) -> i64 {
    let states_version =
        |f: &&ContainerdFile| !f.is_drop_in() && f.get(&path(["version"])).is_some();
    files.iter().rev().find(states_version).map_or(1, |last| last.version)
}
