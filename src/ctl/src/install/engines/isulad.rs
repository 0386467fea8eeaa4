//! iSulad: its `daemon.json` lists runtimes in the format of Docker's `daemon.json` (`iSulad:
//! docs/manual/runc_config_zh.md`).
//!
//! The names of built-in runtimes cannot be redirected: with `runc`, iSulad always calls the
//! program of that name (`iSulad: src/daemon/modules/runtime/isula/isula_rt_ops.c`).

use super::{
    docker,
    request::{EngineNeeds, InstallRequest, OwnNri},
    table::RuntimeTable,
};
use crate::install::{editing::file::path, error::InstallError};
use serde_json::Value;
use std::path::Path;

/// The usual file.
pub(super) const FILE: &str = "/etc/isulad/daemon.json";

/// The switch of iSulad's own NRI, which is off by default, and adapts containers of Kubernetes
/// only (`iSulad: src/daemon/config/isulad_config.c`).
const NRI: &str = "nri-support";

/// Returns the table, which is Docker's but for NRI.
pub(super) fn table(file: &Path) -> RuntimeTable {
    RuntimeTable { own_nri: Some((path([NRI]), false)), ..docker::table(file) }
}

/// Returns the changes that iSulad needs.
pub(super) fn needs(request: &InstallRequest<'_>) -> Result<EngineNeeds, InstallError> {
    let table = table(request.file.unwrap_or(Path::new(FILE)));
    let name = request.name();
    let usage = vec![
        format!("isula run --rm --runtime {name} IMAGE"),
        format!("Kubernetes: a RuntimeClass with handler: {name}"),
    ];
    let mut target = docker::target(request, &table);
    let enabled = table.read(request.root)?.map(|file| file.get(&path([NRI]))).transpose()?;
    let nri = match enabled.flatten() {
        Some(Value::Bool(true)) => OwnNri::On,
        _ => OwnNri::Off,
    };
    target.switch_nri(request, nri, path([NRI]), false);
    Ok(EngineNeeds { targets: vec![target], nri, usage, ..EngineNeeds::default() })
}
