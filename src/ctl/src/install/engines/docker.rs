//! Docker: `runtimes` and `default-runtime` in `daemon.json`.
//!
//! `runtimeArgs` are never set: dockerd writes them without quotes into a shell script (`moby:
//! daemon/runtime_unix.go`).

use super::{
    request::{EngineNeeds, FileTarget, InstallRequest, OwnNri},
    table::RuntimeTable,
};
use crate::install::{
    editing::file::{Format, path},
    error::InstallError,
    install_root::InstallRoot,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The usual file of the system.
const FILE: &str = "/etc/docker/daemon.json";

/// First version that has NRI, which is experimental and off by default
/// (`moby: daemon/internal/nri`).
const NRI_SINCE: u32 = 29;

/// Environment files from which dockerd may get flags.
const FLAG_FILES: &[&str] = &["/etc/default/docker", "/etc/sysconfig/docker"];

/// Returns the usual file: the system's, or that of the user (`moby: cmd/dockerd/config_unix.go`).
pub(super) fn usual_file(root: &InstallRoot) -> PathBuf {
    root.user().map_or_else(|| FILE.into(), |user| user.config_home.join("docker/daemon.json"))
}

/// Returns the table of a `daemon.json`, for Docker and for iSulad.
pub(super) fn table(file: &Path) -> RuntimeTable {
    RuntimeTable {
        file: file.to_owned(),
        format: Format::Json,
        runtimes: path(["runtimes"]),
        binary: &["path"],
        default: path(["default-runtime"]),
        own_nri: Some((path(["nri-opts", "enable"]), false)),
    }
}

/// Returns the values for the file: the requested runtimes, and the default runtime.
pub(super) fn target(request: &InstallRequest<'_>, table: &RuntimeTable) -> FileTarget {
    let mut target = FileTarget::new(&table.file, table.format);
    for runtime in &request.runtimes {
        target.set(table.runtime(&runtime.name), json!({"path": runtime.binary_text()}));
    }
    if request.default {
        target.set(table.default.clone(), request.name());
    }
    target
}

/// Returns the changes that Docker needs.
pub(super) fn needs(request: &InstallRequest<'_>) -> Result<EngineNeeds, InstallError> {
    let usual = usual_file(request.root);
    let table = table(request.file.unwrap_or(&usual));
    check_flags(request)?;
    let mut target = target(request, &table);
    let own_nri = path(["nri-opts", "enable"]);
    let mut enabled = None;
    if let Some(file) = table.read(request.root)? {
        if file.has_json_comments() {
            return Err(InstallError::Comments(file.path));
        }
        enabled = file.get(&own_nri)?;
    }
    let nri = match enabled {
        Some(Value::Bool(true)) => OwnNri::On,
        _ if request.is_before(NRI_SINCE) => OwnNri::None,
        _ => OwnNri::Off,
    };
    target.switch_nri(request, nri, own_nri, false);
    let usage = match request.default {
        true => "docker run --rm IMAGE".to_owned(),
        false => format!("docker run --rm --runtime {} IMAGE", request.name()),
    };
    Ok(EngineNeeds { targets: vec![target], nri, usage: vec![usage], ..EngineNeeds::default() })
}

/// Fails if a flag of dockerd has the same name as a key that we would set in its file: dockerd
/// does not start with both.
fn check_flags(request: &InstallRequest<'_>) -> Result<(), InstallError> {
    let units = request.root.unit_dirs().into_iter().flat_map(|dir| {
        let drop_ins = dir.join("docker.service.d");
        let names = request.root.list(&drop_ins).into_iter().filter(|name| name.ends_with(".conf"));
        let files: Vec<PathBuf> = names.map(|name| drop_ins.join(name)).collect();
        files.into_iter().chain([dir.join("docker.service")])
    });
    let flag_files = if request.root.user().is_some() { &[] } else { FLAG_FILES };
    for file in flag_files.iter().map(PathBuf::from).chain(units) {
        let text = request.root.read(&file).ok().flatten().unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines = || text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
        for option in ["--add-runtime", "--default-runtime"] {
            let is_relevant = option == "--add-runtime" || request.default;
            if is_relevant && lines().any(|line| line.contains(option)) {
                return Err(InstallError::Flag { file, option });
            }
        }
    }
    Ok(())
}
