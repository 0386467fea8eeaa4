//! containerd: a runtime handler of the CRI plugin.

mod destination;
mod files;
mod handler;

use super::{
    file::EngineFile,
    kind::EngineVersion,
    request::{InstallRequest, OwnNri},
};
use crate::install::{error::InstallError, install_root::InstallRoot, plan::InstallPlan};
use destination::{destination, merges};
use files::{CRI, MAIN, NRI, effective_version, is_drop_in, lists, load, version};
use handler::{RUNC_SHIM, handler};
use serde_json::json;
use std::path::Path;

/// Returns all files in which there may be runtimes.
pub(super) fn files(
    root: &InstallRoot,
    file: Option<&Path>,
) -> Result<Vec<EngineFile>, InstallError> {
    load(root, file.unwrap_or(Path::new(MAIN)))
}

/// Adds the values that containerd needs. Returns commands that use the wrapper.
pub(super) fn install(
    plan: &mut InstallPlan<'_>,
    request: &InstallRequest<'_>,
    files: &[EngineFile],
    nri: OwnNri,
) -> Result<Vec<String>, InstallError> {
    let file = destination(request, request.file.unwrap_or(Path::new(MAIN)), files)?;
    plan.notes.extend(notes(request, files, &file)?);
    plan.begin(&file, "containerd")?;
    let handler = handler(files);
    // A default runtime in a file of a newer version overrides the default runtime in our file.
    let is_newer = |f: &&EngineFile| version(f) > version(&file) && f.default_name().is_some();
    let default = files.iter().rev().find(is_newer).unwrap_or(&file);
    for runtime in &request.runtimes {
        let mut value = handler.clone();
        value["options"]["BinaryName"] = json!(runtime.binary_text());
        plan.set(&file.file, &file.runtime(&runtime.name), value)?;
    }
    if loses_runc(request, files) {
        plan.set(&file.file, &file.runtime("runc"), json!({"runtime_type": RUNC_SHIM}))?;
    }
    if request.default {
        plan.set(&default.file, &default.default, request.name())?;
    }
    // A containerd that does not merge uses a plugin's table only from the last file that has it.
    let has_nri = |f: &&EngineFile| f.file.get(&f.own_nri.0[..2]).is_some();
    let last = files.iter().rev().find(has_nri).filter(|_| !merges(request, files));
    plan.switch_nri(request, nri, last.unwrap_or(&file))?;
    let binary = request.runtimes.first().map(|r| r.binary_text()).unwrap_or_default();
    Ok(vec![
        format!("Kubernetes: a RuntimeClass with handler: {}", request.name()),
        format!("ctr run --rm --runc-binary {binary} IMAGE ID"),
    ])
}

/// Returns notes about the files for the administrator; `ours` is the file of our handlers.
fn notes(
    request: &InstallRequest<'_>,
    files: &[EngineFile],
    ours: &EngineFile,
) -> Result<Vec<String>, InstallError> {
    let mut notes = Vec::new();
    // Observed with 2.1.9: when containerd migrates a file of version 1, the CRI settings in it are
    // lost.
    if let Some(main) = files.first().filter(|main| version(main) < 2) {
        let file = main.file.path.clone();
        if request.is_since(2) {
            return Err(InstallError::OldVersion(file));
        }
        if request.version.is_none() {
            let file = file.display();
            notes.push(format!(
                "{file} is of version 1: containerd 2 takes no CRI settings from such a file"
            ));
        }
    }
    if is_drop_in(ours) && version(ours) >= 3 && effective_version(files) < 3 {
        let file = ours.file.path.display();
        notes.push(format!(
            "{file} hides the CRI settings of files of version 2; uninstall, then install again"
        ));
    }
    if let Some(file) = files.iter().find(|f| lists(f, "disabled_plugins", |p| CRI.contains(&p))) {
        let file = file.file.path.display();
        notes.push(format!(
            "{file} disables the CRI plugin: handlers have no effect until it is enabled"
        ));
    }
    Ok(notes)
}

/// Whether our handler would remove runc's: before 2.0 any handler in a file replaces the built-in
/// `runc`, without which the CRI plugin does not start.
fn loses_runc(request: &InstallRequest<'_>, files: &[EngineFile]) -> bool {
    let is_ours = |name: &String| request.runtimes.iter().any(|runtime| runtime.name == *name);
    let has_others = |f: &EngineFile| f.all().any(|(name, _)| !is_ours(name));
    !merges(request, files) && files.iter().all(|f| version(f) < 3 && !has_others(f))
}

/// Whether containerd's own NRI is on, if the files say so.
pub(super) fn has_nri_on(files: &[EngineFile]) -> Option<bool> {
    let is_disabled = files.iter().any(|f| lists(f, "disabled_plugins", |p| p == NRI));
    let is_on = || files.iter().rev().find_map(EngineFile::has_nri_on);
    if is_disabled { Some(false) } else { is_on() }
}

/// Returns the least version that reads the files: one of version 3 proves that it is 2.0 or later.
pub(super) fn least_version(files: &[EngineFile]) -> Option<EngineVersion> {
    files.iter().any(|f| version(f) >= 3).then_some((2, 0))
}
