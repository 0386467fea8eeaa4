//! Docker and iSulad: `runtimes` and `default-runtime` in `daemon.json`.
//!
//! `runtimeArgs` are never set: dockerd writes them without quotes into a shell script (`moby:
//! daemon/runtime_unix.go`).
//!
//! iSulad has the format of Docker (`iSulad: docs/manual/runc_config_zh.md`). The names of its
//! built-in runtimes cannot be redirected: with `runc`, iSulad always calls the program of that
//! name (`iSulad: src/daemon/modules/runtime/isula/isula_rt_ops.c`).

use super::{
    file::EngineFile,
    kind::TargetEngine,
    request::{InstallRequest, OwnNri},
};
use crate::install::{
    editing::{
        error::FileError,
        file::{ConfigFile, path},
    },
    error::InstallError,
    install_root::InstallRoot,
    plan::InstallPlan,
};
use serde::de::IgnoredAny;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The usual files of the system.
const FILE: &str = "/etc/docker/daemon.json";
const ISULAD_FILE: &str = "/etc/isulad/daemon.json";

/// Environment files from which dockerd may get flags.
const FLAG_FILES: &[&str] = &["/etc/default/docker", "/etc/sysconfig/docker"];

/// Returns the file. The usual one is the system's, or that of the user (`moby:
/// cmd/dockerd/config_unix.go`).
pub(super) fn file(
    engine: TargetEngine,
    root: &InstallRoot,
    file: Option<&Path>,
) -> Result<EngineFile, FileError> {
    let (usual, own_nri) = match (engine, root.user()) {
        // iSulad's own NRI is off by default, and adapts containers of Kubernetes only (`iSulad:
        // src/daemon/config/isulad_config.c`).
        (TargetEngine::Isulad, _) => (ISULAD_FILE.into(), path(["nri-support"])),
        (_, None) => (FILE.into(), path(["nri-opts", "enable"])),
        (_, Some(user)) => {
            (user.config_home.join("docker/daemon.json"), path(["nri-opts", "enable"]))
        }
    };
    Ok(EngineFile {
        file: ConfigFile::read(root, file.unwrap_or(&usual))?,
        runtimes: path(["runtimes"]),
        binary: &["path"],
        default: path(["default-runtime"]),
        own_nri: (own_nri, false),
    })
}

/// Adds the values that Docker or iSulad needs. Returns commands that use the wrapper.
pub(super) fn install(
    plan: &mut InstallPlan<'_>,
    request: &InstallRequest<'_>,
    file: &EngineFile,
    nri: OwnNri,
) -> Result<Vec<String>, InstallError> {
    let name = request.name();
    let is_isulad = plan.engine == TargetEngine::Isulad;
    if !is_isulad {
        check_flags(request)?;
        let text = if file.file.text.trim().is_empty() { "{}" } else { &file.file.text };
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|source| InstallError::NotJson { path: file.file.path.clone(), source })?;
    }
    plan.set_runtimes(request, file, |runtime| json!({"path": runtime.binary_text()}))?;
    plan.switch_nri(request, nri, file)?;
    Ok(if is_isulad {
        vec![
            format!("isula run --rm --runtime {name} IMAGE"),
            format!("Kubernetes: a RuntimeClass with handler: {name}"),
        ]
    } else if request.default {
        vec!["docker run --rm IMAGE".to_owned()]
    } else {
        vec![format!("docker run --rm --runtime {name} IMAGE")]
    })
}

/// Fails if a flag of dockerd has the same name as a key that we would set in its file: dockerd
/// does not start with both.
fn check_flags(request: &InstallRequest<'_>) -> Result<(), InstallError> {
    let root = request.root;
    let units = root.unit_dirs().into_iter().flat_map(|dir| {
        let drop_ins = root.files(&dir.join("docker.service.d"), ".conf");
        drop_ins.into_iter().chain([dir.join("docker.service")])
    });
    let flag_files = if root.user().is_some() { &[] } else { FLAG_FILES };
    for file in flag_files.iter().map(PathBuf::from).chain(units) {
        let text = root.read(&file).ok().flatten().unwrap_or_default();
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
