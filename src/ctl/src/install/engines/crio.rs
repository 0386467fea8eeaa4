//! CRI-O: a drop-in with a runtime handler (`cri-o: docs/crio.conf.5.md`, `docs/crio.conf.d.5.md`).
//! Drop-ins are merged key by key.

use super::{
    file::EngineFile,
    request::{InstallRequest, OwnNri},
};
use crate::install::{
    editing::{
        error::FileError,
        file::{ConfigFile, path},
    },
    error::InstallError,
    install_root::InstallRoot,
    plan::{InstallPlan, OWN_NAME},
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The main file.
const FILE: &str = "/etc/crio/crio.conf";
/// The directory of drop-ins.
const DIR: &str = "/etc/crio/crio.conf.d";

/// Keys that our handler copies from the default handler.
const COPIED: &[&str] = &[
    "allowed_annotations",
    "privileged_without_host_devices",
    "monitor_path",
    "monitor_cgroup",
    "monitor_exec_cgroup",
    "monitor_env",
    "container_min_memory",
];

/// Returns all files in which there may be runtimes.
pub(super) fn files(root: &InstallRoot, file: Option<&Path>) -> Result<Vec<EngineFile>, FileError> {
    let usual = || [PathBuf::from(FILE)].into_iter().chain(root.files(Path::new(DIR), ""));
    let paths = file.map_or_else(|| usual().collect(), |file| vec![file.to_owned()]);
    paths.iter().map(|path| engine_file(root, path)).collect()
}

fn engine_file(root: &InstallRoot, file: &Path) -> Result<EngineFile, FileError> {
    Ok(EngineFile {
        file: ConfigFile::read(root, file)?,
        runtimes: path(["crio", "runtime", "runtimes"]),
        binary: &["runtime_path"],
        default: path(["crio", "runtime", "default_runtime"]),
        own_nri: (path(["crio", "nri", "enable_nri"]), false),
    })
}

/// Adds the values that CRI-O needs. Returns commands that use the wrapper.
pub(super) fn install(
    plan: &mut InstallPlan<'_>,
    request: &InstallRequest<'_>,
    files: &[EngineFile],
    nri: OwnNri,
) -> Result<Vec<String>, InstallError> {
    let drop_in = Path::new(DIR).join(OWN_NAME).with_extension("conf");
    let file = engine_file(request.root, request.file.unwrap_or(&drop_in))?;
    plan.begin(&file, "crio")?;
    let handler = handler(files);
    plan.set_runtimes(request, &file, |runtime| {
        let mut handler = handler.clone();
        handler["runtime_path"] = json!(runtime.binary_text());
        // Each handler has a state directory of its own, since its real runtime may differ.
        // The directory is not `/run/NAME`, since `/run/nri` has NRI's socket.
        handler["runtime_root"] = json!(format!("/run/crio-{}", runtime.name));
        handler
    })?;
    plan.switch_nri(request, nri, &file)?;
    Ok(vec![format!("Kubernetes: a RuntimeClass with handler: {}", request.name())])
}

/// Returns our handler, with the values of the default handler in the files, and with CRI-O's
/// built-in values for runc and crun where that handler has none. Of several files with a value,
/// the last takes precedence.
fn handler(files: &[EngineFile]) -> Value {
    let default = files.iter().rev().find_map(EngineFile::default_name);
    let find = |name: &str| files.iter().rev().find_map(|f| f.file.get(&f.runtime(name)));
    let model = default.into_iter().chain(["crun", "runc"]).find_map(find);
    let mut handler = json!({
        "runtime_path": "",
        "runtime_root": "",
        "runtime_type": "oci",
        "allowed_annotations": ["io.containers.trace-syscall", "io.kubernetes.cri-o.Devices"],
        "monitor_env": [format!("PATH={}", nri_locate::SEARCH_PATH)],
    });
    let members = model.and_then(Value::as_object).into_iter().flatten();
    for (key, value) in members.filter(|(key, _)| COPIED.contains(&&***key)) {
        handler[key] = value.clone();
    }
    handler
}
