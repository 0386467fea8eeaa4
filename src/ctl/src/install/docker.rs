//! Docker: `runtimes` and `default-runtime` in `daemon.json`.
//!
//! Never `runtimeArgs`: dockerd makes a shell script of them that does not quote (`moby:
//! daemon/runtime_unix.go`).

use super::{
    document::{Format, path},
    engine::{Asked, Needs, OwnNri, Schema, read},
    error::InstallError,
    own::Nri,
    plan::Target,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The usual file.
pub(crate) const FILE: &str = "/etc/docker/daemon.json";

/// Since when there is NRI in it, experimental and off (`moby: daemon/internal/nri`).
const NRI_SINCE: u32 = 29;

/// Where dockerd may get flags from.
const FLAGS: &[&str] = &["/etc/default/docker", "/etc/sysconfig/docker"];
const UNIT_DIRS: &[&str] = &[
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// Where its runtimes are; iSulad's file is the same in this.
pub(crate) fn schema(file: &Path) -> Schema {
    Schema {
        file: file.to_owned(),
        format: Format::Json,
        runtimes: path(["runtimes"]),
        binary: &["path"],
        default: path(["default-runtime"]),
        own_nri: Some((path(["nri-opts", "enable"]), false)),
    }
}

/// Runtimes by name and path, and the default one.
pub(crate) fn target(asked: &Asked<'_>, schema: &Schema) -> Target {
    let mut target = Target::new(&schema.file, schema.format);
    for runtime in &asked.runtimes {
        target.set(schema.runtime(&runtime.name), json!({"path": runtime.path()}));
    }
    if let Some(first) = asked.runtimes.first().filter(|_| asked.default) {
        target.set(schema.default.clone(), first.name.as_str());
    }
    target
}

/// What Docker needs.
pub(crate) fn needs(asked: &Asked<'_>) -> Result<Needs, InstallError> {
    let schema = schema(asked.file.unwrap_or(Path::new(FILE)));
    flags(asked)?;
    let mut target = target(asked, &schema);
    let own = path(["nri-opts", "enable"]);
    let document = read(asked.root, &schema.file, schema.format)?;
    let said = document.map(|document| document.get(&own)).transpose();
    let said = said.map_err(|e| InstallError::Document(schema.file.clone(), e))?.flatten();
    let nri = match (said, asked.version.map(|v| v.major)) {
        (Some(Value::Bool(true)), _) => OwnNri::On,
        (_, Some(major)) if major < NRI_SINCE => OwnNri::None,
        _ => OwnNri::Off,
    };
    match asked.nri {
        Some(Nri::Ours) if nri == OwnNri::On => target.set(own, false),
        Some(Nri::Auto | Nri::Engine) => target.unset.push(own),
        _ => {}
    }
    let name = asked.runtimes.first().map_or("", |runtime| &runtime.name);
    let usage = if asked.default {
        vec!["docker run --rm IMAGE".to_owned()]
    } else {
        vec![format!("docker run --rm --runtime {name} IMAGE")]
    };
    Ok(Needs { targets: vec![target], nri, usage, ..Needs::default() })
}

/// dockerd does not start when the same key is in its file and in its flags.
fn flags(asked: &Asked<'_>) -> Result<(), InstallError> {
    let units = UNIT_DIRS.iter().flat_map(|dir| {
        let drop_ins = PathBuf::from(dir).join("docker.service.d");
        let names = asked.root.list(&drop_ins).into_iter().filter(|name| name.ends_with(".conf"));
        let files: Vec<PathBuf> = names.map(|name| drop_ins.join(name)).collect();
        files.into_iter().chain([PathBuf::from(dir).join("docker.service")])
    });
    for file in FLAGS.iter().map(PathBuf::from).chain(units) {
        let text = asked.root.read(&file).ok().flatten().unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines = || text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
        for option in ["--add-runtime", "--default-runtime"] {
            let matters = option == "--add-runtime" || asked.default;
            if matters && lines().any(|line| line.contains(option)) {
                return Err(InstallError::Flag { file, option });
            }
        }
    }
    Ok(())
}
