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

use super::files::{drop_in, effective_version, is_drop_in, own_file, version};
use crate::install::{
    editing::error::FileError,
    engines::{file::EngineFile, request::InstallRequest},
};
use std::path::Path;

/// Chooses the file for the handlers of a request.
pub(super) fn destination(
    request: &InstallRequest<'_>,
    main: &Path,
    files: &[EngineFile],
) -> Result<EngineFile, FileError> {
    let Some(first) = files.first() else {
        // No file exists, so the main file is created as a file of our own. Every containerd
        // since 1.3 reads version 2; containerd 2 logs a warning.
        return own_file(request.root, main, if request.is_since(2) { 3 } else { 2 });
    };
    let effective = effective_version(files);
    if merges(request, files) {
        let others = || files.iter().filter(|f| !is_drop_in(f));
        let has_our_handler = |f: &&EngineFile| {
            let handler = f.file.get(&f.runtime(request.name()));
            handler.is_some_and(|handler| f.wrapper(request.root, handler).is_some())
        };
        // A drop-in of version 2 would hide handlers of version 3, and the other way round.
        let is_newer_with_handlers =
            |f: &&EngineFile| effective < 3 && version(f) >= 3 && f.file.get(&f.runtimes).is_some();
        // The file of an earlier installation is edited again.
        let edited = others().find(has_our_handler);
        if let Some(file) = edited.or_else(|| others().rfind(is_newer_with_handlers)) {
            return Ok(file.clone());
        }
        if let Some(drop_in) = drop_in(first) {
            return own_file(request.root, &drop_in, effective.max(2));
        }
    }
    // Without a drop-in: the last file with an effective CRI table, else the main file.
    let has_cri = |f: &&EngineFile| {
        (version(first) < 3 || effective < 3 && version(f) == 2)
            && f.file.get(&f.runtimes[..2]).is_some()
    };
    Ok(files.iter().rev().find(has_cri).unwrap_or(first).clone())
}

/// Whether containerd is known to merge plugin tables of imported files: by its version, by the
/// version of its main file, or by a drop-in of ours, which is only written for a containerd that
/// merges.
pub(super) fn merges(request: &InstallRequest<'_>, files: &[EngineFile]) -> bool {
    let is_version_3 = files.first().is_some_and(|first| version(first) >= 3);
    let has_drop_in = || files.iter().any(is_drop_in);
    request.is_since(2) || is_version_3 || has_drop_in() && !request.is_before(2)
}
