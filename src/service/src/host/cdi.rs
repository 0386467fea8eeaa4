//! CDI devices: reads the CDI specifications of this host when a plugin injects a device.
//!
//! `nri_spec::cdi` interprets the specifications. They are not cached: reading a few small files
//! takes no longer than checking them for changes. An unusable file affects only its own devices,
//! and is named in the log and in errors about unresolvable devices. Start from [`Devices::read`].

use crate::host::{error_chain::chain, file_access::FileSystemHangs, structured};
use nri_api::set_by;
use nri_spec::cdi::{CdiDeviceNode, CdiEdits, CdiError, CdiRegistry, CdiSpecFile};
use nri_spec::{ApplyError, CdiResolver};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

/// Maximum number of specification files in a directory. A larger number is a configuration
/// mistake, which would slow down each creation with CDI devices.
const MAX_FILES: usize = 1000;

/// An adjustment that cannot be applied to the OCI config.
#[derive(Debug, thiserror::Error)]
#[error("{}{}{}", chain(error), set_by(plugins.iter().map(String::as_str)), skipped_files(skipped))]
pub struct AdjustmentError {
    /// The cause.
    #[source]
    error: ApplyError,
    /// Plugins that set the fields in question.
    pub(crate) plugins: BTreeSet<String>,
    /// Unusable specifications with the cause. They may define the device that was not found.
    skipped: Vec<String>,
}

fn skipped_files(skipped: &[String]) -> String {
    match skipped {
        [] => String::new(),
        _ => format!("; skipped: {}", skipped.join(", ")),
    }
}

/// The CDI devices of this host.
#[derive(Debug, Default)]
pub struct Devices {
    registry: CdiRegistry,
    broken: Vec<String>,
}

impl Devices {
    /// Reads the specifications in these directories. A later directory overrides earlier ones; a
    /// directory that does not exist counts as empty.
    pub fn read(dirs: &[PathBuf]) -> Self {
        let (mut files, mut broken) = (Vec::new(), Vec::new());
        for (priority, dir) in dirs.iter().enumerate() {
            let paths = match specifications(dir) {
                Ok(paths) => paths,
                Err(error) => {
                    broken.push(format!("{}: {error}", dir.display()));
                    continue;
                }
            };
            for path in paths {
                match structured::read(&path) {
                    Ok(spec) => files.push(CdiSpecFile {
                        path: path.display().to_string(),
                        priority,
                        content: with_text_names(spec),
                    }),
                    Err(error) => broken.push(error.to_string()),
                }
            }
        }
        let registry = CdiRegistry::new(files);
        broken.extend(registry.errors().iter().map(|e| chain(e)));
        Self { registry, broken }
    }

    /// Returns no devices, for directories whose file system hangs.
    pub fn unread(dirs: &[PathBuf]) -> Self {
        let broken = dirs.iter().map(|dir| format!("{}: {FileSystemHangs}", dir.display()));
        Self { registry: CdiRegistry::default(), broken: broken.collect() }
    }

    /// Returns the host paths of the device nodes of these devices; empty if a device cannot be
    /// resolved, which is reported when the adjustment is applied.
    pub fn nodes(&self, names: &[&str]) -> Vec<String> {
        let edits = self.registry.resolve(names).unwrap_or_default();
        let path = |node: CdiDeviceNode| {
            if node.host_path.is_empty() { node.path } else { node.host_path }
        };
        edits.into_iter().flat_map(|edit| edit.device_nodes).map(path).collect()
    }

    /// Returns the unusable specifications, each with the cause.
    pub fn broken(&self) -> &[String] {
        &self.broken
    }

    /// Returns the names of all devices, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.registry.names()
    }

    /// Adds to an error the plugins that set the fields in question. To an error about an
    /// unresolvable device, adds the unusable files: one of them may define the device.
    pub fn explain(&self, error: ApplyError, plugins: BTreeSet<String>) -> AdjustmentError {
        let skipped = match &error {
            ApplyError::Cdi(CdiError::Unresolvable { .. }) => self.broken.clone(),
            _ => Vec::new(),
        };
        AdjustmentError { error, plugins, skipped }
    }
}

impl CdiResolver for Devices {
    fn resolve(&self, names: &[&str]) -> Result<Vec<CdiEdits>, CdiError> {
        self.registry.resolve(names)
    }
}

/// Returns the `.json` and `.yaml` files of a directory, sorted.
fn specifications(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let named = path.extension().is_some_and(|e| e == "json" || e == "yaml");
        if named && !path.is_dir() {
            paths.push(path);
        }
        if paths.len() > MAX_FILES {
            return Err(io::Error::other(format!("more than {MAX_FILES} specifications")));
        }
    }
    paths.sort();
    Ok(paths)
}

/// Converts numeric device names to strings: other CDI readers accept `name: 0` in YAML as "0".
fn with_text_names(mut spec: Value) -> Value {
    let devices = spec.get_mut("devices").and_then(Value::as_array_mut).into_iter().flatten();
    for name in devices.filter_map(|d| d.get_mut("name")) {
        if let Value::Number(number) = name {
            *name = number.to_string().into();
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn device(name: &str, variable: &str) -> String {
        format!("- name: {name}\n  containerEdits:\n    env: [{variable}]\n")
    }

    fn spec(devices: &[String]) -> String {
        format!("cdiVersion: 0.5.0\nkind: example.org/thing\ndevices:\n{}", devices.concat())
    }

    fn variables(devices: &Devices, name: &str) -> Result<Vec<String>, String> {
        let edits = devices
            .resolve(&[name])
            .map_err(|e| devices.explain(e.into(), ["10-a".to_owned()].into()).to_string())?;
        Ok(edits.into_iter().flat_map(|e| e.env).collect())
    }

    #[test]
    fn json_and_yaml_are_read_and_later_directories_override() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["etc", "run", "missing"].map(|d| dir.path().join(d));
        dirs[..2].iter().for_each(|d| fs::create_dir(d).unwrap());
        fs::write(dirs[0].join("a.yaml"), spec(&[device("0", "A=etc"), device("all", "B=etc")]))
            .unwrap();
        let json = serde_json::json!({
            "cdiVersion": "0.5.0",
            "kind": "example.org/thing",
            "devices": [{"name": "all", "containerEdits": {"env": ["B=run"]}}]
        });
        fs::write(dirs[1].join("a.json"), json.to_string()).unwrap();
        fs::write(dirs[1].join("notes.txt"), "not a specification").unwrap();
        fs::create_dir(dirs[1].join("dir.yaml")).unwrap();
        let devices = Devices::read(&dirs);
        assert_eq!(devices.broken(), [""; 0]);
        assert_eq!(variables(&devices, "example.org/thing=0"), Ok(vec!["A=etc".to_owned()]));
        assert_eq!(variables(&devices, "example.org/thing=all"), Ok(vec!["B=run".to_owned()]));
    }

    #[test]
    fn an_unusable_file_affects_only_its_own_devices() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.yaml"), spec(&[device("good", "A=1")])).unwrap();
        fs::write(dir.path().join("b.yaml"), "a: 1\na: 2\n").unwrap();
        fs::write(dir.path().join("c.yaml"), spec(&[device("bad", "novalue")])).unwrap();
        std::os::unix::fs::symlink("/nowhere", dir.path().join("d.json")).unwrap();
        let devices = Devices::read(&[dir.path().to_owned()]);
        assert_eq!(variables(&devices, "example.org/thing=good"), Ok(vec!["A=1".to_owned()]));
        let d = dir.path().display();
        assert_eq!(
            variables(&devices, "example.org/thing=bad").unwrap_err(),
            format!(
                "cannot inject cdi_devices: no CDI specification defines example.org/thing=bad \
                 (set by plugin \"10-a\"); skipped: \
                 {d}/b.yaml: not valid YAML: duplicate mapping key `a` is not allowed here at line \
                 2, column 1, \
                 {d}/d.json: No such file or directory (os error 2), \
                 CDI specification {d}/c.yaml: env \"novalue\" is not of the form NAME=value"
            )
        );
    }

    #[test]
    fn too_many_specification_files_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        for i in 0..=MAX_FILES {
            fs::write(dir.path().join(format!("{i}.json")), "").unwrap();
        }
        let devices = Devices::read(&[dir.path().to_owned()]);
        assert!(
            devices.broken()[0].ends_with("more than 1000 specifications"),
            "{:?}",
            devices.broken()
        );
    }
}
