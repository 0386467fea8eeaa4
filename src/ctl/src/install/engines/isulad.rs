//! iSulad: its `daemon.json` lists runtimes in the format of Docker's `daemon.json` (`iSulad:
//! docs/manual/runc_config_zh.md`).
//!
//! The names of built-in runtimes cannot be redirected: with `runc`, iSulad always calls the
//! program of that name (`iSulad: src/daemon/modules/runtime/isula/isula_rt_ops.c`).

use super::{
    docker,
    request::{EngineNeeds, InstallRequest},
    table::RuntimeTable,
};
use std::path::Path;

/// The usual file.
pub(super) const FILE: &str = "/etc/isulad/daemon.json";

/// Returns the table, which is Docker's without NRI.
pub(super) fn table(file: &Path) -> RuntimeTable {
    RuntimeTable { own_nri: None, ..docker::table(file) }
}

/// Returns the changes that iSulad needs.
pub(super) fn needs(request: &InstallRequest<'_>) -> EngineNeeds {
    let table = table(request.file.unwrap_or(Path::new(FILE)));
    let name = request.name();
    let usage = vec![
        format!("isula run --rm --runtime {name} IMAGE"),
        format!("Kubernetes: a RuntimeClass with handler: {name}"),
    ];
    let targets = vec![docker::target(request, &table)];
    EngineNeeds { targets, usage, ..EngineNeeds::default() }
}
