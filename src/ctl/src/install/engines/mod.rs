//! Values that each engine needs in its files, a module per engine. `planning` writes them.

mod containerd;
mod crio;
mod docker;
mod isulad;
pub(super) mod kind;
mod nerdctl;
mod podman;
pub(super) mod request;
pub(super) mod table;

use super::{error::InstallError, install_root::InstallRoot};
use kind::TargetEngine;
use request::{EngineNeeds, FileTarget, InstallRequest};
use std::path::Path;
use table::RuntimeTable;

/// Returns the changes that an engine needs for a request.
///
/// # Errors
/// The request does not fit the engine or its files.
pub(super) fn needs(
    engine: TargetEngine,
    request: &InstallRequest<'_>,
) -> Result<EngineNeeds, InstallError> {
    let reserved = engine.facts().reserved;
    if let Some(runtime) = request.runtimes.iter().find(|r| reserved.contains(&&*r.name)) {
        let name = runtime.name.clone();
        return Err(InstallError::Reserved { engine: engine.name(), name });
    }
    let tables = tables(engine, request.root, request.file)?;
    tables.iter().try_for_each(|table| table.check_names(request))?;
    let mut needs = match engine {
        TargetEngine::Docker => docker::needs(request),
        TargetEngine::Containerd => containerd::needs(request),
        TargetEngine::Podman => podman::needs(request),
        TargetEngine::Crio => crio::needs(request),
        TargetEngine::Isulad => isulad::needs(request),
        TargetEngine::Nerdctl => nerdctl::needs(request),
    }?;
    if request.default {
        needs.notes.extend(later_defaults(request.root, &tables, &needs.targets)?);
    }
    Ok(needs)
}

/// Returns the tables of all files in which an engine may have runtimes, in the order in which it
/// reads them.
pub(super) fn tables(
    engine: TargetEngine,
    root: &InstallRoot,
    file: Option<&Path>,
) -> Result<Vec<RuntimeTable>, InstallError> {
    match engine {
        TargetEngine::Docker => {
            let usual = docker::usual_file(root);
            Ok(vec![docker::table(file.unwrap_or(&usual))])
        }
        TargetEngine::Containerd => containerd::tables(root, file),
        TargetEngine::Podman => Ok(podman::tables(root, file)),
        TargetEngine::Crio => Ok(crio::tables(root, file)),
        TargetEngine::Isulad => Ok(vec![isulad::table(file.unwrap_or(Path::new(isulad::FILE)))]),
        TargetEngine::Nerdctl => Ok(vec![]),
    }
}

/// Returns a note for each file that is read after ours and names another default runtime.
fn later_defaults(
    root: &InstallRoot,
    tables: &[RuntimeTable],
    targets: &[FileTarget],
) -> Result<Vec<String>, InstallError> {
    let Some(ours) = targets.first().map(|target| &target.file) else { return Ok(vec![]) };
    let at = tables.iter().position(|table| table.file == *ours).unwrap_or_else(|| {
        let is_before = |t: &&RuntimeTable| t.file.parent() != ours.parent() || t.file < *ours;
        tables.iter().take_while(is_before).count()
    });
    let mut notes = Vec::new();
    for table in tables.iter().skip(at).filter(|table| table.file != *ours) {
        let file = table.read(root)?;
        if let Some(name) = file.and_then(|file| file.get(&table.default).ok().flatten()) {
            let file = table.file.display();
            notes.push(format!("{file} is read later and makes {name} the default runtime"));
        }
    }
    Ok(notes)
}
