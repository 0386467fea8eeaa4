//! containerd: a runtime handler of the CRI plugin.

mod destination;
mod files;
mod handler;

use super::{
    request::{EngineNeeds, FileTarget, InstallRequest, OwnNri},
    table::RuntimeTable,
};
use crate::install::{
    editing::file::{Format, path},
    error::InstallError,
    install_root::InstallRoot,
    version::EngineVersion,
};
use destination::{Destination, effective_version, merges};
use files::{CRI, ContainerdFile, MAIN, NRI, load};
use handler::{RUNC_SHIM, handler};
use serde_json::{Value, json};
use std::path::Path;

/// Returns the tables of all files in which there may be runtimes.
pub(super) fn tables(
    root: &InstallRoot,
    file: Option<&Path>,
) -> Result<Vec<RuntimeTable>, InstallError> {
    let files = load(root, file.unwrap_or(Path::new(MAIN)))?;
    Ok(files.into_iter().map(|file| file.table).collect())
}

/// Returns the changes that containerd needs.
pub(super) fn needs(request: &InstallRequest<'_>) -> Result<EngineNeeds, InstallError> {
    let main = request.file.unwrap_or(Path::new(MAIN));
    let files = load(request.root, main)?;
    let nri = own_nri(&files, request.version);
    let mut notes = notes(request, &files)?;
    let Destination { mut target, file } = Destination::of(request, main, &files);
    notes.extend(outdated_drop_in(&files, file.version));
    let handler = handler(&files);
    for runtime in &request.runtimes {
        let mut value = handler.clone();
        value["options"]["BinaryName"] = json!(runtime.binary_text());
        target.set(file.table.runtime(&runtime.name), value);
    }
    if loses_runc(request, &files) {
        target.set(file.table.runtime("runc"), json!({"runtime_type": RUNC_SHIM}));
    }
    let mut others = Vec::new();
    if request.default {
        refuse_deprecated_default(&files)?;
        // A default runtime in a file of a newer version overrides the default runtime in our file.
        let newer =
            |f: &&ContainerdFile| f.version > file.version && f.get(&f.table.default).is_some();
        match files.iter().rev().find(newer) {
            Some(newer) => {
                let mut other = FileTarget::new(&newer.file.path, Format::Toml);
                other.set(newer.table.default.clone(), request.name());
                others.push(other);
            }
            None => target.set(file.table.default.clone(), request.name()),
        }
    }
    // A containerd that does not merge uses a plugin's table only from the last file that has it.
    let has_nri = |f: &&ContainerdFile| f.get(&f.own_nri()[..2]).is_some();
    let last = files.iter().rev().find(has_nri).filter(|_| !merges(request, &files));
    match last.filter(|last| last.file.path != target.file) {
        Some(last) => {
            let mut other = FileTarget::new(&last.file.path, Format::Toml);
            other.switch_nri(request, nri, last.own_nri(), true);
            others.push(other);
        }
        None => target.switch_nri(request, nri, file.own_nri(), true),
    }
    let binary = request.runtimes.first().map(|r| r.binary_text()).unwrap_or_default();
    let usage = vec![
        format!("Kubernetes: a RuntimeClass with handler: {}", request.name()),
        format!("ctr run --rm --runc-binary {binary} IMAGE ID"),
    ];
    let targets = [target].into_iter().chain(others).collect();
    Ok(EngineNeeds { targets, notes, nri, usage })
}

/// Returns notes about the files for the administrator.
fn notes(
    request: &InstallRequest<'_>,
    files: &[ContainerdFile],
) -> Result<Vec<String>, InstallError> {
    let mut notes = Vec::new();
    // Observed with 2.1.9: when containerd migrates a file of version 1, the CRI settings in it are
    // lost.
    if let Some(main) = files.first().filter(|main| main.version < 2) {
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
    notes.extend(activated_keys(request, files));
    let is_relative = |f: &&ContainerdFile| {
        f.list("imports").iter().any(|p| p.contains('*') && !p.starts_with('/'))
    };
    let relative = files.iter().find(is_relative);
    if let Some(file) = relative.filter(|_| files.iter().any(|f| f.version < 3)) {
        let file = file.file.path.display();
        notes.push(format!(
            "{file}: older containerds resolve a relative pattern of imports in their working \
             directory"
        ));
    }
    let disables = |f: &&ContainerdFile| {
        f.list("disabled_plugins").iter().any(|plugin| CRI.contains(&&**plugin))
    };
    if let Some(file) = files.iter().find(disables) {
        let file = file.file.path.display();
        notes.push(format!(
            "{file} disables the CRI plugin: handlers have no effect until it is enabled"
        ));
    }
    Ok(notes)
}

/// Returns a note about our drop-in if it is of version 3, but the other files are now of version
/// 2, since an administrator has added a file.
fn outdated_drop_in(files: &[ContainerdFile], version: i64) -> Option<String> {
    let is_ours = |f: &&ContainerdFile| f.is_drop_in() && f.version == version;
    let own =
        files.iter().find(is_ours).filter(|_| version >= 3 && effective_version(files) < 3)?;
    let file = own.file.path.display();
    Some(format!(
        "{file} hides the CRI settings of files of version 2; uninstall, then install again"
    ))
}

/// Returns a note about keys that take effect with our handler: containerd 2 reads these keys from
/// a configuration of version 2 only if it has a handler (`containerd v2.1.9:
/// plugins/cri/images/plugin.go`, `migrateConfig`).
fn activated_keys(request: &InstallRequest<'_>, files: &[ContainerdFile]) -> Option<String> {
    let main = files.first().filter(|main| main.version == 2 && !request.is_before(2))?;
    let table = &main.table.runtimes[..main.table.runtimes.len() - 1];
    let is_set = |key: &&str| main.get(&[table, &path([*key])].concat()).is_some();
    let keys = ["snapshotter", "disable_snapshot_annotations", "discard_unpacked_layers"];
    let keys: Vec<&str> = keys.into_iter().filter(is_set).collect();
    if keys.is_empty() || files.iter().any(|f| f.handlers().is_some()) {
        return None;
    }
    let (file, keys) = (main.file.path.display(), keys.join(", "));
    Some(format!(
        "{file}: containerd 2 ignores {keys} if no handler is configured; with our handler it \
         applies them"
    ))
}

/// Whether our handler would remove runc's: before 2.0 any handler in a file replaces the built-in
/// `runc`, without which the CRI plugin does not start.
fn loses_runc(request: &InstallRequest<'_>, files: &[ContainerdFile]) -> bool {
    let is_ours = |name: &String| request.runtimes.iter().any(|runtime| runtime.name == *name);
    let has_others = |f: &ContainerdFile| {
        let handlers = f.handlers();
        handlers.as_ref().and_then(Value::as_object).is_some_and(|map| !map.keys().all(is_ours))
    };
    !merges(request, files) && files.iter().all(|f| f.version < 3 && !has_others(f))
}

/// Fails if `default_runtime`, a table of containerd 1.2, overrides `default_runtime_name`.
fn refuse_deprecated_default(files: &[ContainerdFile]) -> Result<(), InstallError> {
    for file in files {
        let table = [file.cri(), &path(["containerd", "default_runtime"])].concat();
        let kind = file.get(&[&table[..], &path(["runtime_type"])].concat());
        // The table that `containerd config default` writes has only empty values, and overrides
        // nothing.
        if kind.is_some_and(|kind| kind != "") {
            let path = table.join(".");
            return Err(InstallError::Overridden { file: file.file.path.clone(), path });
        }
    }
    Ok(())
}

/// Returns the state of containerd's own NRI: available since 1.7, on by default since 2.0
/// (`containerd: docs/NRI.md`). A file of version 3 proves that containerd is 2.0 or later.
fn own_nri(files: &[ContainerdFile], version: Option<EngineVersion>) -> OwnNri {
    let disable = files.iter().rev().find_map(|f| f.get(&f.own_nri())?.as_bool());
    let is_newer = files.iter().any(|f| f.version >= 3);
    let is_disabled = files.iter().any(|f| f.list("disabled_plugins").iter().any(|p| p == NRI));
    match (version, disable) {
        (Some(EngineVersion { major: 1, minor: ..7 }), _) => OwnNri::None,
        _ if is_disabled => OwnNri::Off,
        (_, Some(true)) => OwnNri::Off,
        (_, Some(false)) => OwnNri::On,
        (Some(EngineVersion { major: 2.., .. }), _) => OwnNri::On,
        (Some(_), _) => OwnNri::Off,
        (None, _) if is_newer => OwnNri::On,
        (None, _) => OwnNri::Unknown,
    }
}
