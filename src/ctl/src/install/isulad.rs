//! iSulad: its `daemon.json` has runtimes as Docker's has (`iSulad:
//! docs/manual/runc_config_zh.md`).
//!
//! Names of runtimes that it knows by itself cannot be redirected: `runc` is always the program of
//! that name (`iSulad: src/daemon/modules/runtime/isula/isula_rt_ops.c`).

use super::{
    docker,
    engine::{Asked, Needs, Schema},
    error::InstallError,
};
use std::path::Path;

/// The usual file.
pub(crate) const FILE: &str = "/etc/isulad/daemon.json";

/// As Docker's, without NRI.
pub(crate) fn schema(file: &Path) -> Schema {
    Schema { own_nri: None, ..docker::schema(file) }
}

/// What iSulad needs.
pub(crate) fn needs(asked: &Asked<'_>) -> Result<Needs, InstallError> {
    let schema = schema(asked.file.unwrap_or(Path::new(FILE)));
    let name = asked.runtimes.first().map_or("", |runtime| &runtime.name);
    let usage = vec![
        format!("isula run --rm --runtime {name} IMAGE"),
        format!("Kubernetes: a RuntimeClass with handler: {name}"),
    ];
    let targets = vec![docker::target(asked, &schema)];
    Ok(Needs { targets, usage, ..Needs::default() })
}
