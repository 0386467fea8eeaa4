//! containerd's main file and all that it imports.

use crate::install::{
    editing::{
        error::FileError,
        file::{ConfigFile, path},
    },
    engines::file::EngineFile,
    error::InstallError,
    install_root::InstallRoot,
    plan::OWN_NAME,
};
use serde_json::Value;
use std::{
    collections::{BTreeSet, VecDeque},
    path::{Path, PathBuf},
};

/// The usual main file.
pub(super) const MAIN: &str = "/etc/containerd/config.toml";

/// Names of the CRI plugin in files of version 1, 2, and later. Version 1 accepts only the short
/// name.
pub(super) const CRI: [&str; 3] =
    ["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"];
/// Name of the plugin that is containerd's own NRI, since version 2.
pub(super) const NRI: &str = "io.containerd.nri.v1.nri";

/// Returns a file, whose keys depend on its version.
pub(super) fn engine_file(file: ConfigFile) -> EngineFile {
    let (cri, nri) = match stated_version(&file) {
        None | Some(..2) => (CRI[0], "nri"),
        Some(2) => (CRI[1], NRI),
        Some(_) => (CRI[2], NRI),
    };
    EngineFile {
        file,
        runtimes: path(["plugins", cri, "containerd", "runtimes"]),
        binary: &["options", "BinaryName"],
        default: path(["plugins", cri, "containerd", "default_runtime_name"]),
        own_nri: (path(["plugins", nri, "disable"]), true),
    }
}

/// Returns a file of our own, which need not exist yet.
pub(super) fn own_file(
    root: &InstallRoot,
    path: &Path,
    version: i64,
) -> Result<EngineFile, FileError> {
    let mut file = ConfigFile::read(root, path)?;
    if file.before.is_none() {
        file.replace_text(format!("version = {version}\n"))?;
    }
    Ok(engine_file(file))
}

fn stated_version(file: &ConfigFile) -> Option<i64> {
    file.get(&path(["version"]))?.as_i64()
}

/// Returns the version that a file states, else 1.
pub(super) fn version(file: &EngineFile) -> i64 {
    stated_version(&file.file).unwrap_or(1)
}

/// Whether this is our drop-in.
pub(super) fn is_drop_in(file: &EngineFile) -> bool {
    file.file.path.file_stem().is_some_and(|name| name == OWN_NAME)
}

/// Returns the version that containerd applies to all files; our drop-in is disregarded.
pub(super) fn effective_version(files: &[EngineFile]) -> i64 {
    let others = files.iter().rev().filter(|file| !is_drop_in(file));
    others.filter_map(|file| stated_version(&file.file)).next().unwrap_or(1)
}

/// Whether a list of strings at the top of a file has such an item.
pub(super) fn lists(file: &EngineFile, name: &str, is_wanted: impl Fn(&str) -> bool) -> bool {
    list(&file.file, name).any(is_wanted)
}

fn list<'a>(file: &'a ConfigFile, name: &str) -> impl Iterator<Item = &'a str> {
    let items = file.value.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str)
}

/// Reads the main file and all that it imports, in containerd's order.
pub(super) fn load(root: &InstallRoot, main: &Path) -> Result<Vec<EngineFile>, InstallError> {
    let mut pending = VecDeque::from([main.to_owned()]);
    let mut seen = BTreeSet::new();
    let mut loaded = Vec::new();
    while let Some(path) = pending.pop_front() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let file = ConfigFile::read(root, &path)?;
        if file.before.is_none() {
            continue;
        }
        for pattern in list(&file, "imports") {
            pending.extend(expand(root, &path, pattern)?);
        }
        loaded.push(engine_file(file));
    }
    Ok(loaded)
}

/// Returns the path of our drop-in, in the first directory from which a file imports by a pattern
/// that matches it.
pub(super) fn drop_in(main: &EngineFile) -> Option<PathBuf> {
    list(&main.file, "imports").find_map(|pattern| {
        let full = absolute(&main.file.path, pattern);
        let name = full.file_name()?.to_str()?;
        let dir = full.parent().filter(|dir| !dir.to_string_lossy().contains('*'))?;
        let drop_in = format!("{OWN_NAME}.toml");
        let matches = glob::Pattern::new(name).is_ok_and(|p| p.matches(&drop_in));
        (name.contains('*') && matches).then(|| dir.join(drop_in))
    })
}

/// Makes a pattern of `imports` absolute. A relative pattern is relative to the directory of the
/// file that imports.
fn absolute(importer: &Path, pattern: &str) -> PathBuf {
    importer.parent().unwrap_or(Path::new("/")).join(pattern)
}

/// Returns the files that a pattern of `imports` matches.
///
/// # Errors
/// The pattern has a wildcard in a directory's name.
fn expand(
    root: &InstallRoot,
    importer: &Path,
    pattern: &str,
) -> Result<Vec<PathBuf>, InstallError> {
    let full = absolute(importer, pattern);
    if !pattern.contains('*') {
        return Ok(vec![full]);
    }
    let parts = || {
        let (dir, name) = (full.parent()?, full.file_name()?.to_str()?);
        let is_plain = !dir.to_string_lossy().contains(['*', '?', '[']);
        is_plain.then_some((dir, glob::Pattern::new(name).ok()?))
    };
    let (dir, name) = parts().ok_or_else(|| InstallError::Import {
        file: importer.to_owned(),
        pattern: pattern.to_owned(),
    })?;
    let mut files = root.files(dir, "");
    files.retain(|file| file.file_name().and_then(|n| n.to_str()).is_some_and(|n| name.matches(n)));
    Ok(files)
}
