//! containerd's main file and all that it imports.

use crate::install::{
    editing::file::{ConfigFile, Format, path},
    engines::table::RuntimeTable,
    error::InstallError,
    install_root::InstallRoot,
};
use serde_json::Value;
use std::{
    collections::{BTreeSet, VecDeque},
    path::{Path, PathBuf},
};

/// The usual main file.
pub(super) const MAIN: &str = "/etc/containerd/config.toml";

/// Name of our drop-in, sorted after others such as `99-nvidia.toml`: the last file takes
/// precedence.
pub(super) const DROP_IN: &str = "zz-nri-container-runtime.toml";

/// Names of the CRI plugin in files of version 1, 2, and later. Version 1 accepts only the short
/// name.
pub(super) const CRI: [&str; 3] =
    ["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"];
/// Name of the plugin that is containerd's own NRI, since version 2.
pub(super) const NRI: &str = "io.containerd.nri.v1.nri";

/// A configuration file of containerd.
pub(super) struct ContainerdFile {
    pub(super) file: ConfigFile,
    pub(super) version: i64,
    pub(super) table: RuntimeTable,
}

impl ContainerdFile {
    /// Returns a file with `version`, else with the version that it states, else with version 1.
    pub(super) fn new(file: ConfigFile, version: Option<i64>) -> Self {
        let stated = || file.get(&path(["version"])).ok().flatten().and_then(|v| v.as_i64());
        let version = version.or_else(stated).unwrap_or(1);
        let cri = match version {
            ..2 => CRI[0],
            2 => CRI[1],
            _ => CRI[2],
        };
        let nri = if version < 2 { "nri" } else { NRI };
        let table = RuntimeTable {
            file: file.path.clone(),
            format: Format::Toml,
            runtimes: path(["plugins", cri, "containerd", "runtimes"]),
            binary: &["options", "BinaryName"],
            default: path(["plugins", cri, "containerd", "default_runtime_name"]),
            own_nri: Some((path(["plugins", nri, "disable"]), true)),
        };
        Self { file, version, table }
    }

    /// Returns the path of the CRI plugin's table.
    pub(super) fn cri(&self) -> &[String] {
        &self.table.runtimes[..2]
    }

    /// Returns the path of the switch of containerd's own NRI.
    pub(super) fn own_nri(&self) -> Vec<String> {
        self.table.own_nri.as_ref().map(|(at, _)| at.clone()).unwrap_or_default()
    }

    pub(super) fn get(&self, at: &[String]) -> Option<Value> {
        self.file.get(at).ok().flatten()
    }

    /// Returns a list of strings at the top of the file.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let list = self.get(&path([name]));
        let items = list.as_ref().and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub(super) fn handlers(&self) -> Option<Value> {
        self.get(&self.table.runtimes)
    }

    pub(super) fn handler(&self, name: &str) -> Option<Value> {
        self.get(&self.table.runtime(name))
    }

    /// Whether this is our drop-in.
    pub(super) fn is_drop_in(&self) -> bool {
        self.file.path.file_name().is_some_and(|name| name == DROP_IN)
    }
}

/// Reads the main file and all that it imports, in containerd's order.
pub(super) fn load(root: &InstallRoot, main: &Path) -> Result<Vec<ContainerdFile>, InstallError> {
    let mut pending = VecDeque::from([main.to_owned()]);
    let mut seen = BTreeSet::new();
    let mut loaded = Vec::new();
    while let Some(path) = pending.pop_front() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let Some(file) = ConfigFile::read(root, &path, Format::Toml)? else { continue };
        let file = ContainerdFile::new(file, None);
        for pattern in file.list("imports") {
            pending.extend(expand(root, &path, &pattern)?);
        }
        loaded.push(file);
    }
    Ok(loaded)
}

/// Returns the directories from which a file imports, for patterns that match our drop-in.
pub(super) fn imported_dirs(main: &ContainerdFile) -> Vec<PathBuf> {
    let dir = |pattern: String| {
        let full = absolute(&main.file.path, &pattern);
        let name = full.file_name()?.to_str()?;
        let dir = full.parent().filter(|dir| !dir.to_string_lossy().contains('*'))?;
        let matches = glob::Pattern::new(name).is_ok_and(|p| p.matches(DROP_IN));
        (name.contains('*') && matches).then(|| dir.to_owned())
    };
    main.list("imports").into_iter().filter_map(dir).collect()
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
    Ok(root.list(dir).into_iter().filter(|n| name.matches(n)).map(|n| dir.join(n)).collect())
}
